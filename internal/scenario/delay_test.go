package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

const (
	lockDelay  = 7 * time.Second
	delayBound = lockDelay + 1500*time.Millisecond
)

// When a holder dies, its lock stays shut for the delay after its TTL, for Lock and TryLock, and whoever asks sees why. So it is when the leader dies on the way.
func TestDelayAfterACrash(t *testing.T) {
	for name, killLeader := range map[string]bool{"leader lives": false, "leader killed": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := 3
				if killLeader {
					n = 5
				}
				c := quorumlocktest.New(t, n, quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Voters = n }))
				l, f := roles(c)
				h := asked(t, quorumlock.NewMutex(c.Node(f[0]), "k", quorumlock.Delay(lockDelay), quorumlock.Note("robot")).Lock).granted(time.Second)
				next := waitQueued(t, c, c.Node(f[1]), "k", 1)
				renewed := h.Deadline().Add(-quorumTTL * 4 / 5)
				killed := time.Now()
				c.Crash(f[0])

				time.Sleep(deadBound)
				info := lockShown(t, c, "k")
				if len(info.Holders) != 1 || !info.Holders[0].Barred || info.Holders[0].Note != "robot" {
					t.Errorf("after the TTL: %+v", info.Holders)
				}
				var locked *quorumlock.LockedError
				if _, err := quorumlock.NewMutex(c.Node(f[1]), "k").TryLock(context.Background()); !errors.As(err, &locked) || !locked.Holder.Barred {
					t.Errorf("try during the delay: %v", err)
				}
				late := time.Duration(0)
				if killLeader {
					c.Crash(l)
					late = deadBound + lockDelay // the next leader has its own stamp of when the delay began
				}
				next.granted(delayBound + grantBound)
				if took := next.at.Sub(renewed); took < quorumTTL+lockDelay {
					t.Errorf("granted %v after the last renewal, TTL and delay are %v", took, quorumTTL+lockDelay)
				}
				if took := next.at.Sub(killed); took > max(quorumTTL+delayBound, late+grantBound) {
					t.Errorf("granted %v after the crash", took)
				}
				follows(t, h, next.hold)
				unlock(t, next.hold)
				becomesFree(t, c, "k", time.Second)
				for i := range n {
					if i == f[0] || i == l && killLeader {
						c.Start(i)
					}
				}
				c.WaitReady()
				c.CheckState()
			})
		})
	}
}

// Who finishes of his own will needs no delay, and an operator who releases with Now passes over it. A forced release that drains does not, nor does the cap of a hold (TestDelayAfterMaxHold).
func TestDelayOfOtherEnds(t *testing.T) {
	for name, end := range map[string]struct {
		do      func(t *testing.T, c *quorumlocktest.Cluster, s *quorumlock.Session, on int, h *quorumlock.Hold)
		delayed time.Duration
	}{
		"unlock": {do: func(t *testing.T, _ *quorumlocktest.Cluster, _ *quorumlock.Session, _ int, h *quorumlock.Hold) {
			unlock(t, h)
		}},
		"session closed": {do: func(t *testing.T, _ *quorumlocktest.Cluster, s *quorumlock.Session, _ int, _ *quorumlock.Hold) {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}},
		"node closed": {do: func(t *testing.T, c *quorumlocktest.Cluster, _ *quorumlock.Session, on int, _ *quorumlock.Hold) {
			if err := c.Stop(on); err != nil {
				t.Error(err)
			}
		}},
		"forced now": {do: func(t *testing.T, c *quorumlocktest.Cluster, _ *quorumlock.Session, _ int, h *quorumlock.Hold) {
			force(t, c.Node(c.Leader()), h, true)
		}},
		"drained": {
			do: func(t *testing.T, c *quorumlocktest.Cluster, _ *quorumlock.Session, _ int, h *quorumlock.Hold) {
				force(t, c.Node(c.Leader()), h, false)
			},
			delayed: quorumTTL + lockDelay,
		},
		"cut off for longer than the lease": {
			do: func(t *testing.T, c *quorumlocktest.Cluster, _ *quorumlock.Session, on int, h *quorumlock.Hold) {
				c.Isolate(on)
				<-h.Done()
			},
			delayed: lockDelay + quorumTTL/5 - time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				_, f := roles(c)
				s := openSession(t, c.Node(f[0]))
				h := asked(t, quorumlock.NewMutex(s, "k", quorumlock.Delay(lockDelay), quorumlock.MaxHold(20*time.Second)).Lock).granted(time.Second)
				next := waitQueued(t, c, c.Node(f[1]), "k", 1)
				began := time.Now()
				end.do(t, c, s, f[0], h)
				ended := time.Now()
				if end.delayed == 0 {
					next.granted(50 * time.Millisecond)
				} else if next.granted(time.Minute); next.at.Sub(ended) < end.delayed || next.at.Sub(began) > end.delayed+quorumTTL+1500*time.Millisecond {
					t.Errorf("granted %v after the end, want %v", next.at.Sub(ended), end.delayed)
				}
				follows(t, h, next.hold)
				unlock(t, next.hold)
				c.Heal()
				c.WaitReady()
				c.CheckState()
			})
		})
	}
}

// The operator can end a delay that goes on, and a delay of one name of a set is one of all.
func TestForcedEndOfADelay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		h := asked(t, quorumlock.NewMultiMutex(c.Node(f[0]), "a", "b").With(quorumlock.Delay(lockDelay)).Lock).granted(time.Second)
		a, b := waitQueued(t, c, c.Node(f[1]), "a", 1), waitQueued(t, c, c.Node(f[1]), "b", 1)
		c.Crash(f[0])
		time.Sleep(deadBound)
		for _, name := range []string{"a", "b"} {
			if info := lockShown(t, c, name); len(info.Holders) != 1 || !info.Holders[0].Barred || info.Holders[0].Token != h.Token() {
				t.Fatalf("%q: %+v", name, info.Holders)
			}
		}
		opt := quorumlock.ForceOptions{Actor: "ops", Reason: "the machine is off", Now: true}
		if err := c.Node(f[1]).ForceRelease(context.Background(), "b", h.Token(), opt); err != nil {
			t.Fatal(err)
		}
		unlock(t, a.granted(atOnce))
		unlock(t, b.granted(atOnce))
		c.Start(f[0])
		c.WaitReady()
		c.CheckState()
	})
}
