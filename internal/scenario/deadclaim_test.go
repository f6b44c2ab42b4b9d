package scenario_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/watch"
)

// S43: a waiter's process dies and comes back, several times, while the claims of its dead sessions still stand in the queue
// before its new one. When the holder goes, by unlock or by death, the cluster grants the lock to the dead ones first, for it
// takes them for alive; the waiter must not win by any of that, only by the claim of its present session, with a later token.
func TestWaiterNeverWinsByTheClaimOfItsDeadSession(t *testing.T) {
	for name, release := range map[string]func(t *testing.T, c *quorumlocktest.Cluster, h *quorumlock.Hold, on int){
		"unlock": func(t *testing.T, _ *quorumlocktest.Cluster, h *quorumlock.Hold, _ int) { unlock(t, h) },
		"death":  func(_ *testing.T, c *quorumlocktest.Cluster, _ *quorumlock.Hold, on int) { c.Crash(on) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				l, f := roles(c)
				a := lockIn(t, c.Node(f[0]), "k", time.Second)
				dead := waitInVain(t, c, f[1], 3)
				s := openSession(t, c.Node(f[1]))
				w := waitQueued(t, c, s, "k", len(dead)+1)
				granted := grantsOf(t, c.Node(l), "k")
				release(t, c, a, f[0])
				h := w.granted(2 * deadBound)
				follows(t, a, h)
				info := lockShown(t, c, "k")
				if len(info.Holders) != 1 || info.Holders[0].Session != s.ID() || info.Holders[0].Token != h.Token() {
					t.Errorf("the waiter, of session %v with token %v, won by %+v", s.ID(), h.Token(), info.Holders)
				}
				if got := granted(); name == "unlock" && !slices.Contains(got, dead[0]) {
					t.Errorf("granted to %v, to none of the dead %v: the fault did not bite", got, dead)
				}
				calm(t, h)
				unlock(t, h)
				becomesFree(t, c, "k", time.Second)
				c.CheckState()
			})
		})
	}
}

// waitInVain makes instance i wait for "k" and kills it, over and over; the instance is up again at the end. It gives the
// sessions that died so; their claims stand in the queue.
func waitInVain(t *testing.T, c *quorumlocktest.Cluster, i, times int) (dead []quorumlock.SessionID) {
	t.Helper()
	for k := range times {
		s := openSession(t, c.Node(i))
		waitQueued(t, c, s, "k", k+1)
		dead = append(dead, s.ID())
		c.Crash(i)
		c.Start(i)
		readyIn(t, c.Node(i), grantBound)
	}
	info := lockShown(t, c, "k")
	if info.Waiting != times {
		t.Fatalf("%d claims of dead sessions wait, want %d", info.Waiting, times)
	}
	for k, w := range info.Queue {
		if w.Session != dead[k] {
			t.Errorf("claim %d is of session %v, want %v", k, w.Session, dead[k])
		}
	}
	return dead
}

// grantsOf begins to note to which sessions a lock is granted, as n sees it.
func grantsOf(t *testing.T, n *quorumlock.Node, name string) (soFar func() []quorumlock.SessionID) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	var mu sync.Mutex
	var sessions []quorumlock.SessionID
	go func() {
		for e, err := range n.Watch(ctx, name) {
			if err != nil {
				return
			}
			if e.Kind == watch.Granted && e.Name == name {
				mu.Lock()
				sessions = append(sessions, quorumlock.SessionID(e.Session))
				mu.Unlock()
			}
		}
	}()
	synctest.Wait() // it has subscribed
	return func() []quorumlock.SessionID {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(sessions)
	}
}
