package scenario_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// give transfers a hold away.
func give(t *testing.T, h *quorumlock.Hold) quorumlock.Ticket {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ticket, err := h.Transfer(ctx)
	if err != nil {
		t.Fatalf("transfer %q: %v", h.Name(), err)
	}
	return ticket
}

// receive takes over what a ticket gives.
func receive(t *testing.T, o quorumlock.Owner, ticket quorumlock.Ticket, opts ...quorumlock.LockOption) *quorumlock.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	h, err := quorumlock.Receive(ctx, o, ticket, opts...)
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	return h
}

// used checks that a ticket is good no more.
func used(t *testing.T, o quorumlock.Owner, ticket quorumlock.Ticket) {
	t.Helper()
	if h, err := quorumlock.Receive(context.Background(), o, ticket); h != nil || !errors.Is(err, quorumlock.ErrTicket) {
		t.Errorf("a ticket that is used up: %v, %v", h, err)
	}
}

// A hold goes from node to node, to a session, and back, while somebody waits for it all the time and is not granted in between. Each time its token rises, and what a former
// holder still has under way is refused.
func TestTransferBetweenNodes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		var guard quorumlock.Guard
		write := func(token quorumlock.Token) error { return claim(&guard, "r", token) }
		first := asked(t, quorumlock.NewMutex(c.Node(f[0]), "k", quorumlock.Note("first")).Lock).granted(time.Second)
		rival := waitQueued(t, c, c.Node(f[1]), "k", 1)
		owners := []quorumlock.Owner{c.Node(f[1]), openSession(t, c.Node(f[1])), c.Node(c.Leader()), c.Node(f[0]), c.Node(f[0])}
		h := first
		for i, o := range owners {
			ctx, cancel := h.Context(context.Background())
			if err := write(h.Token()); err != nil {
				t.Fatal(err)
			}
			ticket := give(t, h)
			if err := h.Err(); !errors.Is(err, quorumlock.ErrTransferred) || !closed(h.Done()) || !errors.Is(context.Cause(ctx), quorumlock.ErrTransferred) {
				t.Errorf("the giver's hold: %v, its context: %v", err, context.Cause(ctx))
			}
			cancel()
			if err := h.Unlock(); !errors.Is(err, quorumlock.ErrTransferred) {
				t.Errorf("unlock after the transfer: %v", err)
			}
			if _, err := h.Transfer(context.Background()); !errors.Is(err, quorumlock.ErrTransferred) && !errors.Is(err, quorumlock.ErrUnlocked) {
				t.Errorf("transfer again: %v", err)
			}
			time.Sleep(quorumTTL) // the ticket lies about
			next := receive(t, o, ticket, quorumlock.Note(fmt.Sprint("owner ", i)))
			follows(t, h, next)
			if err := write(next.Token()); err != nil {
				t.Fatal(err)
			}
			if err := write(h.Token()); !errors.Is(err, quorumlock.ErrStaleToken) {
				t.Errorf("the former holder's write: %v", err)
			}
			info := lockShown(t, c, "k")
			if len(info.Holders) != 1 || info.Holders[0].Token != next.Token() || info.Holders[0].Note != fmt.Sprint("owner ", i) || info.Waiting != 1 {
				t.Errorf("after transfer %d: %+v", i, info)
			}
			used(t, c.Node(f[1]), ticket)
			if h = next; rival.ended() {
				t.Fatal("the rival was granted in between")
			}
		}
		calm(t, h)
		unlock(t, h)
		follows(t, h, rival.granted(atOnce))
		unlock(t, rival.hold)
		becomesFree(t, c, "k", time.Second)
		c.CheckState()
	})
}

// What is moved keeps its kind: readers their phase, permits their number, a set all of its names.
func TestTransferOfOtherKinds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		reader, other := rlock(t, c.Node(0), "rw"), rlock(t, c.Node(2), "rw")
		moved := receive(t, c.Node(1), give(t, reader))
		samePhase(t, other, moved)
		third := rlock(t, c.Node(0), "rw")
		samePhase(t, other, moved, third)

		permits := permitsIn(t, quorumlock.NewSemaphore(c.Node(0), "sem", 4), 3, time.Second)
		got := receive(t, c.Node(1), give(t, permits))
		if info := lockShown(t, c, "sem"); got.Token() != 0 || len(info.Holders) != 1 || info.Holders[0].Permits != 3 || info.Holders[0].Node != "node-1" {
			t.Errorf("permits: token %v, %+v", got.Token(), info.Holders)
		}

		set := asked(t, quorumlock.NewMultiMutex(c.Node(0), "a", "b", "c").Lock).granted(time.Second)
		sets := receive(t, c.Node(2), give(t, set), quorumlock.MaxHold(3*time.Second))
		follows(t, set, sets)
		if !slices.Equal(sets.Names(), []string{"a", "b", "c"}) {
			t.Errorf("names %q", sets.Names())
		}
		<-sets.Done()
		capped(t, sets, sets.Err())
		for _, name := range sets.Names() {
			becomesFree(t, c, name, atOnce)
		}
		for _, h := range []*quorumlock.Hold{other, moved, third, got} {
			unlock(t, h)
		}
		becomesFree(t, c, "rw", time.Second)
		becomesFree(t, c, "sem", time.Second)
		c.CheckState()
	})
}

// A ticket that is never used goes with its giver: closed, dead, or cut off; and so does it with an operator's word.
func TestTicketOfAGiverThatIsGone(t *testing.T) {
	for name, gone := range map[string]struct {
		end   func(t *testing.T, c *quorumlocktest.Cluster, s *quorumlock.Session, on int)
		bound time.Duration
	}{
		"session closed": {func(t *testing.T, _ *quorumlocktest.Cluster, s *quorumlock.Session, _ int) {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}, atOnce},
		"node closed": {func(t *testing.T, c *quorumlocktest.Cluster, _ *quorumlock.Session, on int) {
			if err := c.Stop(on); err != nil {
				t.Error(err)
			}
		}, atOnce},
		"killed":  {func(_ *testing.T, c *quorumlocktest.Cluster, _ *quorumlock.Session, on int) { c.Crash(on) }, deadBound},
		"cut off": {func(_ *testing.T, c *quorumlocktest.Cluster, _ *quorumlock.Session, on int) { c.Isolate(on) }, deadBound},
		"forced": {func(t *testing.T, c *quorumlocktest.Cluster, _ *quorumlock.Session, _ int) {
			revoke(t, c.Node(c.Leader()), "k", lockShown(t, c, "k").Holders[0].Token)
		}, atOnce},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				_, f := roles(c)
				s := openSession(t, c.Node(f[0]))
				h := lockIn(t, s, "k", time.Second)
				ticket := give(t, h)
				next := waitQueued(t, c, c.Node(f[1]), "k", 1)
				time.Sleep(time.Second)
				gone.end(t, c, s, f[0])
				follows(t, h, next.granted(gone.bound))
				used(t, c.Node(f[1]), ticket)
				if err := next.hold.Err(); err != nil {
					t.Errorf("who was granted it instead: %v", err)
				}
				unlock(t, next.hold)
				c.Heal()
				c.CheckState()
			})
		})
	}
}

// While a forced release drains what was offered, nobody can take it over, and it is released in time.
func TestReceiveDuringDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		h := lockIn(t, c.Node(0), "k", time.Second)
		ticket := give(t, h)
		force(t, c.Node(1), h, false)
		used(t, c.Node(1), ticket)
		time.Sleep(quorumTTL / 2)
		if info := lockShown(t, c, "k"); len(info.Holders) != 1 || !info.Holders[0].Draining {
			t.Errorf("%+v", info.Holders)
		}
		becomesFree(t, c, "k", deadBound)
		used(t, c.Node(1), ticket)

		// Nor can a hold that is being drained be given away or downgraded: it is given up.
		for _, move := range []func(h *quorumlock.Hold) error{
			func(h *quorumlock.Hold) error { _, err := h.Transfer(context.Background()); return err },
			func(h *quorumlock.Hold) error {
				_, err := quorumlock.NewRWMutex(c.Node(0), "k").Downgrade(context.Background(), h)
				return err
			},
		} {
			h := lockIn(t, c.Node(0), "k", time.Second)
			force(t, c.Node(1), h, false)
			<-h.Jeopardy()
			var lost *quorumlock.LostError
			if err := move(h); !errors.As(err, &lost) || lost.Cause != quorumlock.CauseForced || lost.Actor != "ops" || lost.Token != h.Token() {
				t.Errorf("moved while drained: %v", err)
			}
			becomesFree(t, c, "k", ghostBound)
		}
		c.CheckState()
	})
}

// Many take the same ticket at once, from all nodes: one gets the hold.
func TestTicketIsGoodOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		for range 5 {
			ticket := give(t, lockIn(t, c.Node(0), "k", time.Second))
			var takers []*waiter
			for i := range 12 {
				takers = append(takers, asked(t, func(ctx context.Context) (*quorumlock.Hold, error) {
					return quorumlock.Receive(ctx, c.Node(i%3), ticket)
				}))
			}
			var got []*quorumlock.Hold
			for _, w := range takers {
				if w.in(time.Second); w.err == nil {
					got = append(got, w.hold)
				} else if !errors.Is(w.err, quorumlock.ErrTicket) {
					t.Errorf("receive: %v", w.err)
				}
			}
			if len(got) != 1 {
				t.Fatalf("%d have it", len(got))
			}
			onlyHold(t, c.Node(1), got[0])
			unlock(t, got[0])
		}
		c.CheckState()
	})
}

// Receive is cut off in the middle: retried it gives one hold; given up, the lock is free, for the ticket may have been used up.
func TestReceiveWhoseAnswerIsLost(t *testing.T) {
	for _, giveUp := range []bool{false, true} {
		t.Run(fmt.Sprintf("giveUp=%v", giveUp), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStage(t)
				owner := openSession(t, s.c.Node(s.caller))
				ticket := give(t, lockIn(t, s.c.Node(s.other), "k", time.Second))
				s.holdNews(true)
				w := asked(t, func(ctx context.Context) (*quorumlock.Hold, error) { return quorumlock.Receive(ctx, owner, ticket) })
				time.Sleep(1500 * time.Millisecond) // and more than one attempt
				if holders := lockShown(t, s.c, "k").Holders; len(holders) != 1 || holders[0].Session != owner.ID() || w.ended() {
					t.Fatalf("%+v: the fault did not bite", holders)
				}
				if giveUp {
					w.cancel()
					w.failed(time.Nanosecond, context.Canceled)
				}
				s.holdNews(false)
				if !giveUp {
					h := w.granted(ghostBound)
					onlyHold(t, s.c.Node(s.other), h)
					unlock(t, h)
				}
				becomesFree(t, s.c, "k", ghostBound)
				used(t, s.c.Node(s.other), ticket)
				s.c.CheckState()
			})
		})
	}
}

// What is no ticket, whatever was done to one, takes nothing over and hurts nobody: each text that differs from a good one in a byte, or ends early, or belongs to another
// cluster. The good one still works afterwards.
func TestForgedTickets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx := context.Background()
		h := permitsIn(t, quorumlock.NewSemaphore(c.Node(0), "k", 300), 200, time.Second)
		ticket := give(t, h)
		raw, err := base64.RawURLEncoding.DecodeString(string(ticket))
		if err != nil {
			t.Fatal(err)
		}
		refusedOne := func(what string, forged []byte) {
			t.Helper()
			got, err := quorumlock.Receive(ctx, c.Node(1), quorumlock.Ticket(base64.RawURLEncoding.EncodeToString(forged)))
			if got != nil || err == nil {
				t.Fatalf("%s: %v, %v", what, got, err)
			}
			if !errors.Is(err, quorumlock.ErrInvalid) && !errors.Is(err, quorumlock.ErrTicket) && !errors.Is(err, quorumlock.ErrClusterChanged) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for i := range raw {
			refusedOne(fmt.Sprintf("cut at %d", i), raw[:i])
		}
		refusedOne("longer", append(slices.Clone(raw), 0))
		for i := range raw {
			forged := slices.Clone(raw)
			forged[i] ^= 1 << (i % 7)
			refusedOne(fmt.Sprintf("bit of byte %d", i), forged)
		}
		got := receive(t, c.Node(1), ticket)
		unlock(t, got)
		becomesFree(t, c, "k", time.Second)
		c.CheckState()
	})
}
