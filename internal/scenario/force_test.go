package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// force releases a hold against its holder's will, as on's operator.
func force(t *testing.T, on *quorumlock.Node, h *quorumlock.Hold, now bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), grantBound)
	defer cancel()
	opt := quorumlock.ForceOptions{Actor: "ops", Reason: "stuck since noon", Now: now}
	if err := on.ForceRelease(ctx, h.Name(), h.Token(), opt); err != nil {
		t.Fatalf("force release: %v", err)
	}
}

// forced fails the test unless the hold was lost to force's operator.
func forced(t *testing.T, h *quorumlock.Hold) {
	t.Helper()
	var lost *quorumlock.LostError
	if err := h.Err(); !errors.As(err, &lost) || lost.Cause != quorumlock.CauseForced || lost.Actor != "ops" || lost.Reason != "stuck since noon" ||
		lost.Token != h.Token() || lost.Name != h.Name() {
		t.Errorf("hold %v: %v, want released by force by ops", h.Token(), h.Err())
	}
}

// A drained release takes the lock from its holder without an overlap, tells the holder at once, and leaves the session's other holds alone; on the leader's
// node and on another one, with the leader killed on the way, and with the holder cut off just before, so that no word of it arrives.
func TestDrain(t *testing.T) {
	type setting struct{ onLeader, kill, cut, busy bool }
	for name, s := range map[string]setting{
		"holder leads": {onLeader: true}, "holder follows": {}, "leader killed": {kill: true}, "holder cut off": {cut: true}, "busy session": {busy: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				lead := c.Leader()
				a, b := lead, others(c, lead)[1]
				if !s.onLeader {
					a = others(c, lead)[0]
				}
				d := newDrained(t, c, a, b)
				if s.busy {
					d.keepBusy()
				}
				if s.cut {
					c.Isolate(a)
				}
				began := time.Now()
				force(t, c.Node(b), d.hold, false)
				if s.kill {
					c.Crash(lead)
				}
				if !s.cut {
					d.toldAtOnce(began, s.kill)
				}
				next := d.next.get()
				// A session that is cut off may expire before its drain is over.
				if took := time.Since(began); took < quorumTTL && !s.cut || took > deadBound+grantBound {
					t.Errorf("released %v after the drain began", took)
				}
				t.Logf("released after %v, margin %v", time.Since(began), d.witness.exclusive(1))
				d.over(s.cut)
				unlock(t, next)
				if s.kill {
					c.Start(lead)
				}
				c.Heal()
				c.WaitReady()
				c.CheckState()
			})
		})
	}
}

// drained is a session with two holds, of which one is to be drained, and somebody who waits for it.
type drained struct {
	t       *testing.T
	session *quorumlock.Session
	hold    *quorumlock.Hold
	other   *quorumlock.Hold
	next    awaited
	witness *witness
	quit    chan struct{}
}

func newDrained(t *testing.T, c *quorumlocktest.Cluster, a, b int) *drained {
	t.Helper()
	s, err := c.Node(a).NewSession(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	d := &drained{t: t, session: s, witness: newWitness(t, c), quit: make(chan struct{})}
	t.Cleanup(func() { close(d.quit) })
	d.hold, d.other = lockIn(t, s, "k", time.Second), lockIn(t, s, "other", time.Second)
	d.witness.see(d.hold)
	d.next = lockLater(t, c.Node(b), "k", 3*quorumTTL)
	time.Sleep(quorumTTL / 2) // renewals have moved the deadline on
	return d
}

// keepBusy sends other commands of the session all the time: each extends it, and each has to bring the news of the drain.
func (d *drained) keepBusy() {
	go func() {
		for !closed(d.quit) {
			if h, err := quorumlock.NewMutex(d.session, "third").TryLock(context.Background()); err == nil {
				_ = h.Unlock()
			}
			time.Sleep(200 * time.Millisecond)
		}
	}()
	time.Sleep(100 * time.Millisecond)
}

// toldAtOnce: the holder is warned within a moment (or once there is a leader again), still holds, and its deadline does not move any more, while the other hold's does.
func (d *drained) toldAtOnce(began time.Time, killed bool) {
	d.t.Helper()
	<-d.hold.Jeopardy()
	if took := time.Since(began); took > reportBound && (!killed || took > grantBound) {
		d.t.Errorf("told %v after the drain began", took)
	}
	if err := d.hold.Err(); err != nil {
		d.t.Errorf("while it is drained: %v, want held", err)
	}
	end := d.hold.Deadline()
	time.Sleep(quorumTTL / 4)
	if moved := d.hold.Deadline().Sub(end); moved != 0 || d.hold.Err() != nil {
		d.t.Errorf("the deadline moved by %v, %v", moved, d.hold.Err())
	}
	if !d.other.Deadline().After(end) {
		d.t.Error("the other hold's deadline does not move on")
	}
}

// over: the hold was lost to the operator, or to the cut; the other one lives on in the first case.
func (d *drained) over(cut bool) {
	d.t.Helper()
	if !closed(d.hold.Done()) {
		d.t.Error("Done is open")
	}
	if cut {
		expired(d.t, d.hold)
		return
	}
	forced(d.t, d.hold)
	if err := d.hold.Unlock(); !errors.Is(err, quorumlock.ErrLost) {
		d.t.Errorf("unlock of a drained hold: %v", err)
	}
	time.Sleep(quorumTTL / 2)
	if err := d.other.Err(); err != nil {
		d.t.Errorf("the session's other hold: %v", err)
	}
	unlock(d.t, d.other)
}

// A drain may begin before the holder has heard of its grant. The grant is not worth having then: Lock says who took it, and its claim does not stay behind
// until the drain is over (I4).
func TestDrainBeforeTheGrantIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		a := lockIn(t, c.Node(l), "k", time.Second)
		b := waitQueued(t, c, c.Node(f[0]), "k", 1)
		c.Isolate(f[0])
		c.Network().DropConns(c.Host(l), c.Host(f[0])) // the leader's push is lost,
		c.Disk(f[0]).Hang(true)                        // and the node's own state machine stands still: a renewal tells both
		unlock(t, a)
		granted := lockShown(t, c, "k").Holders[0].Token
		opt := quorumlock.ForceOptions{Actor: "ops", Reason: "stuck since noon"}
		if err := c.Node(l).ForceRelease(context.Background(), "k", granted, opt); err != nil {
			t.Fatal(err)
		}
		c.Heal()
		b.failed(grantBound, quorumlock.ErrLost)
		var lost *quorumlock.LostError
		if !errors.As(b.err, &lost) || lost.Cause != quorumlock.CauseForced || lost.Token != granted {
			t.Errorf("token %v: %v, want released by force", granted, b.err)
		}
		becomesFree(t, c, "k", ghostBound)
		c.Disk(f[0]).Hang(false)
		c.CheckState()
	})
}

// A holder that unlocks while it is drained has released the lock in time, and the next one gets it at once.
func TestUnlockDuringDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		d := newDrained(t, c, 0, 1)
		force(t, c.Node(1), d.hold, false)
		<-d.hold.Jeopardy()
		time.Sleep(time.Second)
		unlock(t, d.hold)
		endsIn(t, "the next grant", 100*time.Millisecond, func() { unlock(t, d.next.get()) })
		d.witness.exclusive(1)
		unlock(t, d.other)
		c.CheckState()
	})
}

// Now breaks I3 by design; the holder is told at once by whom and why, and its other hold lives on.
func TestForceNow(t *testing.T) {
	for _, on := range []int{0, 1, 2} { // one of them leads
		bubbleIn(t, func(t *testing.T) {
			c := quorumlocktest.New(t, 3)
			d := newDrained(t, c, on, (on+1)%3)
			began := time.Now()
			force(t, c.Node((on+2)%3), d.hold, true)
			endsIn(t, "the next grant", 100*time.Millisecond, func() { unlock(t, d.next.get()) })
			<-d.hold.Done()
			if took := time.Since(began); took > reportBound {
				t.Errorf("told after %v", took)
			}
			d.over(false)
			c.CheckState()
		})
	}
}

// bubbleIn is bubble as a part of a test.
func bubbleIn(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Run("", func(t *testing.T) { bubble(t, f) })
}

// A drain begun while the holder's clocks are in doubt, or while they run 1.2x slow, ends without an overlap too.
func TestDrainUnderClockTrouble(t *testing.T) {
	for name, trouble := range map[string]func(*quorumlocktest.Clock){
		"slow":  func(k *quorumlocktest.Clock) { k.SetRate(1 / 1.2) },
		"jumps": func(k *quorumlocktest.Clock) { k.StepWall(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				a, b := others(c, c.Leader())[0], others(c, c.Leader())[1]
				d := newDrained(t, c, a, b)
				trouble(c.Clock(a))
				force(t, c.Node(b), d.hold, false)
				next := d.next.get()
				t.Logf("margin %v", d.witness.exclusive(1))
				forced(t, d.hold)
				unlock(t, next)
				if err := d.other.Err(); err != nil {
					t.Errorf("the session's other hold: %v", err)
				}
				unlock(t, d.other)
				c.CheckState()
			})
		})
	}
}

// A forced release is told by name as soon as it is heard of, while the hold is still good; a hold that nobody touches tells of none.
func TestForcedTellsWho(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		n := c.Node((c.Leader() + 1) % 3)
		h, other := lockIn(t, n, "k", grantBound), lockIn(t, n, "other", grantBound)
		if h.Forced() != nil {
			t.Errorf("before: %v", h.Forced())
		}
		force(t, c.Node(c.Leader()), h, false)
		<-h.Jeopardy()
		by := h.Forced()
		if by == nil || by.Cause != quorumlock.CauseForced || by.Actor != "ops" || by.Reason != "stuck since noon" || by.Token != h.Token() || by.Name != "k" || h.Err() != nil {
			t.Errorf("%+v, while the hold is %v", by, h.Err())
		}
		if other.Forced() != nil {
			t.Errorf("another hold: %v", other.Forced())
		}
		<-h.Done()
		forced(t, h)
	})
}
