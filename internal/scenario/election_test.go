package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// campaign begins to campaign, and gives the leadership when it has come.
func campaign(t *testing.T, o quorumlock.Owner, name, value string) *candidate {
	w := &candidate{t: t, done: make(chan struct{})}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(w.done)
		w.leadership, w.err = quorumlock.NewElection(o, name).Campaign(ctx, value)
		w.at = time.Now()
		if (w.leadership == nil) == (w.err == nil) {
			t.Errorf("campaign returned (%v, %v)", w.leadership, w.err)
		}
	}()
	return w
}

// candidate is one call of Campaign.
type candidate struct {
	t          *testing.T
	cancel     context.CancelFunc
	done       chan struct{}
	leadership *quorumlock.Leadership
	err        error
	at         time.Time
}

// queued waits until it is the n-th in line.
func (w *candidate) queued(c *quorumlocktest.Cluster, name string, n int) *candidate {
	w.t.Helper()
	queueBecomes(w.t, c, name, n, 2*time.Second)
	return w
}

func (w *candidate) leads(bound time.Duration) *quorumlock.Leadership {
	w.t.Helper()
	within(w.t, "the end of a campaign", bound, w.done)
	if w.err != nil {
		w.t.Fatalf("not elected: %v", w.err)
	}
	return w.leadership
}

func leadNow(t *testing.T, o quorumlock.Owner, name, value string) *quorumlock.Leadership {
	t.Helper()
	return campaign(t, o, name, value).leads(grantBound)
}

// resign ends what must still be led.
func resign(t *testing.T, l *quorumlock.Leadership) {
	t.Helper()
	if err := l.Resign(); err != nil {
		t.Fatalf("resign: %v", err)
	}
	if !closed(l.Done()) || l.Err() != quorumlock.ErrResigned {
		t.Errorf("after Resign: %v", l.Err())
	}
}

// leaderShown is who leads, asked on n.
func leaderShown(t *testing.T, n *quorumlock.Node, name string) (quorumlock.Leader, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), grantBound)
	defer cancel()
	return quorumlock.NewElection(n, name).Leader(ctx)
}

func TestElectionShowsWhoLeadsAndWhoWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		if l, err := leaderShown(t, c.Node(2), "e"); !errors.Is(err, quorumlock.ErrNoLeader) || l.Token != 0 {
			t.Errorf("before any campaign: %+v, %v", l, err)
		}
		session := openSession(t, c.Node(0))
		a := leadNow(t, session, "e", "a:1")
		b := campaign(t, c.Node(1), "e", "b:1").queued(c, "e", 1)
		for i := range c.Size() {
			l, err := leaderShown(t, c.Node(i), "e")
			if err != nil || l.Node != "node-0" || l.ServerID != c.Node(0).ID() || l.Session != session.ID() || l.Value != "a:1" || l.Token != a.Token() || l.Since.IsZero() {
				t.Errorf("instance %d shows %+v, %v", i, l, err)
			}
			waiting, err := quorumlock.NewElection(c.Node(i), "e").Candidates(context.Background())
			if err != nil || len(waiting) != 1 || waiting[0].Node != "node-1" || waiting[0].ServerID != c.Node(1).ID() {
				t.Errorf("instance %d lists %+v, %v", i, waiting, err)
			}
		}
		if err := a.Proclaim(context.Background(), "a:2"); err != nil {
			t.Error(err)
		}
		if l, err := leaderShown(t, c.Node(2), "e"); err != nil || l.Value != "a:2" || l.Token != a.Token() {
			t.Errorf("after Proclaim: %+v, %v", l, err)
		}
		held, cancel := a.Context(context.Background())
		defer cancel()
		resign(t, a)
		if cause := context.Cause(held); cause != quorumlock.ErrResigned {
			t.Errorf("the leader's context ended with %v", cause)
		}
		if late, _ := a.Context(context.Background()); context.Cause(late) != quorumlock.ErrResigned {
			t.Errorf("a context made afterwards: %v", context.Cause(late))
		}
		for what, err := range map[string]error{
			"Resign": a.Resign(), "Proclaim": a.Proclaim(context.Background(), "x"), "HandOver": a.HandOver(context.Background(), "node-1"),
		} {
			if err != quorumlock.ErrResigned {
				t.Errorf("%s after Resign: %v", what, err)
			}
		}
		next := b.leads(time.Second)
		if l, err := leaderShown(t, c.Node(2), "e"); err != nil || l.Node != "node-1" || l.Value != "b:1" || l.Token <= a.Token() {
			t.Errorf("after Resign: %+v, %v", l, err)
		}
		resign(t, next)
		becomesFree(t, c, "e", time.Second)
		c.CheckState()
	})
}

// An election shares the name space of locks.
func TestElectionIsALock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l := leadNow(t, c.Node(0), "e", "v")
		refused := func(_ *quorumlock.Hold, err error) {
			t.Helper()
			var locked *quorumlock.LockedError
			if !errors.As(err, &locked) || locked.Holder.Value != "v" || locked.Holder.Token != l.Token() {
				t.Errorf("TryLock beside a leader: %v", err)
			}
		}
		refused(quorumlock.NewMutex(c.Node(1), "e").TryLock(context.Background()))
		w := waitQueued(t, c, c.Node(1), "e", 1)
		resign(t, l)
		h := w.granted(time.Second)
		if shown, err := leaderShown(t, c.Node(2), "e"); err != nil || shown.Token != h.Token() || shown.Value != "" {
			t.Errorf("a mutex is held, and shown as %+v, %v", shown, err)
		}
		unlock(t, h)
		r, err := quorumlock.NewRWMutex(c.Node(0), "e").RLock(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if shown, err := leaderShown(t, c.Node(2), "e"); !errors.Is(err, quorumlock.ErrNoLeader) {
			t.Errorf("a reader is shown as the leader: %+v, %v", shown, err)
		}
		unlock(t, r)
		c.CheckState()
	})
}

func TestElectionRefusesWhatItCannotDo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		n := c.Node(0)
		ctx := context.Background()
		never := func(context.Context, *quorumlock.Leadership) error {
			t.Error("lead was called")
			return nil
		}
		permit, err := quorumlock.NewSemaphore(n, "semaphore", 2).Acquire(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = permit.Unlock() }()
		for name, bad := range map[string]struct {
			election *quorumlock.Election
			value    string
			want     error
		}{
			"long value":    {quorumlock.NewElection(n, "e"), strings.Repeat("x", 4097), quorumlock.ErrInvalid},
			"no UTF-8":      {quorumlock.NewElection(n, "e"), "\xff", quorumlock.ErrInvalid},
			"no name":       {quorumlock.NewElection(n, ""), "v", quorumlock.ErrInvalid},
			"no owner":      {quorumlock.NewElection(nil, "e"), "v", quorumlock.ErrInvalid},
			"nil node":      {quorumlock.NewElection((*quorumlock.Node)(nil), "e"), "v", quorumlock.ErrInvalid},
			"long note":     {quorumlock.NewElection(n, "e", quorumlock.Note(strings.Repeat("x", 1025))), "v", quorumlock.ErrInvalid},
			"semaphore":     {quorumlock.NewElection(n, "semaphore"), "v", quorumlock.ErrKind},
			"4 KiB is good": {quorumlock.NewElection(n, "e"), strings.Repeat("x", 4096), nil},
		} {
			l, err := bad.election.Campaign(ctx, bad.value)
			if !errors.Is(err, bad.want) || (err == nil) != (bad.want == nil) {
				t.Errorf("%s: Campaign returned %v", name, err)
			}
			if l != nil {
				if err := l.Proclaim(ctx, strings.Repeat("x", 4097)); !errors.Is(err, quorumlock.ErrInvalid) {
					t.Errorf("Proclaim of a long value returned %v", err)
				}
				resign(t, l)
				continue
			}
			if err := bad.election.Run(ctx, bad.value, never); !errors.Is(err, bad.want) {
				t.Errorf("%s: Run returned %v", name, err)
			}
			if strings.Contains(name, "value") || strings.Contains(name, "UTF-8") || name == "long note" {
				continue
			}
			if _, err := bad.election.Leader(ctx); !errors.Is(err, bad.want) {
				t.Errorf("%s: Leader returned %v", name, err)
			}
			for _, err := range bad.election.Observe(ctx) {
				if !errors.Is(err, bad.want) {
					t.Errorf("%s: Observe told %v", name, err)
				}
			}
		}
		c.CheckState()
	})
}

// Values are published in the order of the calls, also when one of them is given up without an answer.
func TestProclaimsTakeTheirTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		lead, f := roles(c)
		l := leadNow(t, c.Node(f[0]), "e", "first")
		g := observe(t, c.Node(f[1]), "e")
		c.Network().HoldReplies(c.Host(lead), true) // the value is published, and no answer comes
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		err := l.Proclaim(ctx, "given up")
		cancel()
		var wait *quorumlock.WaitError
		if !errors.As(err, &wait) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without an answer: %v", err)
		}
		ctx, cancel = context.WithTimeout(context.Background(), 300*time.Millisecond)
		err = l.Proclaim(ctx, "too early")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "an earlier value is under way") {
			t.Errorf("beside one that is under way: %v", err)
		}
		c.Network().HoldReplies(c.Host(lead), false)
		ctx, cancel = context.WithTimeout(context.Background(), grantBound)
		defer cancel()
		if err := l.Proclaim(ctx, "last"); err != nil {
			t.Error(err)
		}
		time.Sleep(quorumTTL)
		want := []string{line(nodeName(f[0]), "first", l.Token()), line(nodeName(f[0]), "given up", l.Token()), line(nodeName(f[0]), "last", l.Token())}
		g.becomes(t, "the observer", want)
		resign(t, l)
		c.CheckState()
	})
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// A candidate whose ctx ends at the very moment of the grant either leads or has left nothing behind.
func TestCampaignCancelledAtTheGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		won, gaveUp := 0, 0
		for offset := time.Duration(0); offset < 3*time.Millisecond; offset += 100 * time.Microsecond {
			a := leadNow(t, c.Node(0), "e", "a")
			b := campaign(t, c.Node(1), "e", "b").queued(c, "e", 1)
			go func() {
				time.Sleep(offset)
				b.cancel()
			}()
			resign(t, a)
			within(t, "the end of the campaign", time.Second, b.done)
			if b.err == nil {
				won++
				resign(t, b.leadership)
			} else if gaveUp++; !errors.Is(b.err, context.Canceled) {
				t.Errorf("offset %v: %v", offset, b.err)
			}
			becomesFree(t, c, "e", ghostBound)
		}
		if won == 0 || gaveUp == 0 {
			t.Errorf("won %d, gave up %d: the moment of the grant was missed", won, gaveUp)
		}
		synctest.Wait()
		c.CheckState()
	})
}
