package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// gallery is one loop over Observe.
type gallery struct {
	stop  context.CancelFunc
	ended chan error
	mu    sync.Mutex
	seen  []quorumlock.Leader
	gate  chan struct{} // closed: what comes is taken in
}

func observe(t *testing.T, n *quorumlock.Node, name string) *gallery {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	g := &gallery{stop: cancel, ended: make(chan error, 1), gate: make(chan struct{})}
	close(g.gate)
	go func() { g.ended <- g.follow(ctx, n, name) }()
	for g.count() == 0 {
		time.Sleep(time.Millisecond)
	}
	return g
}

func (g *gallery) follow(ctx context.Context, n *quorumlock.Node, name string) error {
	for l, err := range quorumlock.NewElection(n, name).Observe(ctx) {
		if err != nil {
			return err
		}
		g.mu.Lock()
		g.seen = append(g.seen, l)
		gate := g.gate
		g.mu.Unlock()
		<-gate
	}
	return nil
}

func (g *gallery) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.seen)
}

// shut keeps the loop's body busy from its next turn on, until open.
func (g *gallery) shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate := make(chan struct{})
	g.gate = gate
	return func() { close(gate) }
}

// lines gives what was seen in short, without server ids, sessions and times.
func (g *gallery) lines() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var lines []string
	for _, l := range g.seen {
		lines = append(lines, line(l.Node, l.Value, l.Token))
	}
	return lines
}

func line(node, value string, token quorumlock.Token) string {
	if token == 0 {
		return "nobody"
	}
	return fmt.Sprintf("%s %q %v", node, value, token)
}

// becomes waits until the loop has seen just that.
func (g *gallery) becomes(t *testing.T, who string, want []string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Second); !slices.Equal(g.lines(), want); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s saw\n\t%s\nwant\n\t%s", who, strings.Join(g.lines(), "\n\t"), strings.Join(want, "\n\t"))
		}
	}
}

// Observers on all nodes see every term and every value once, in order, with the end of each term in between; those that come late see what is, and then the same.
// An election whose name only begins with the same letters is not shown.
func TestObserversSeeEveryTermAndValueInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		var all []*gallery
		for i := range c.Size() {
			all = append(all, observe(t, c.Node(i), "e"))
		}
		want, late := []string{"nobody"}, 0
		for round := range 6 {
			node := fmt.Sprintf("node-%d", round%3)
			l := leadNow(t, c.Node(round%3), "e", fmt.Sprint("first ", round))
			want = append(want, line(node, fmt.Sprint("first ", round), l.Token()))
			other := leadNow(t, c.Node(round%3), "e2", "another election")
			for k := range 3 {
				value := fmt.Sprintf("value %d of %d", k, round)
				if err := l.Proclaim(context.Background(), value); err != nil {
					t.Error(err)
				}
				want = append(want, line(node, value, l.Token()))
			}
			if err := l.Proclaim(context.Background(), fmt.Sprintf("value 2 of %d", round)); err != nil { // no change
				t.Error(err)
			}
			if round == 3 { // the followers have not applied yet what the first answer tells
				late = len(want) - 1
				for i := range c.Size() {
					all = append(all, observe(t, c.Node(i), "e"))
				}
			}
			resign(t, other)
			resign(t, l)
			want = append(want, "nobody")
		}
		for i := range c.Size() {
			all[i].becomes(t, fmt.Sprint("instance ", i), want)
			all[i+c.Size()].becomes(t, fmt.Sprint("instance ", i, ", late"), want[late:])
		}
		for _, g := range all {
			g.stop()
			var wait *quorumlock.WaitError
			if err := within(t, "the end of a loop", time.Second, g.ended); !errors.As(err, &wait) || !errors.Is(err, context.Canceled) {
				t.Errorf("a loop ended with %v", err)
			}
		}
		c.CheckState()
	})
}

// The leader of a term that follows at once, in the same log entry, is shown after the end of the one before.
func TestObserversSeeTheEndOfATermThatIsFollowedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		g := observe(t, c.Node(2), "e")
		a := leadNow(t, c.Node(0), "e", "a")
		b := campaign(t, c.Node(1), "e", "b").queued(c, "e", 1)
		resign(t, a)
		next := b.leads(time.Second)
		g.becomes(t, "the observer", []string{"nobody", line("node-0", "a", a.Token()), "nobody", line("node-1", "b", next.Token())})
		resign(t, next)
		c.CheckState()
	})
}

// An observer whose node lags is not shown the past that its first answer knew already.
func TestObserverOfANodeThatLags(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		lead, f := roles(c)
		c.Disk(f[1]).Hang(true)
		time.Sleep(4 * time.Second)
		events := 0
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			for range c.Node(f[1]).Watch(ctx, "e") {
				events++
			}
		}()
		resign(t, leadNow(t, c.Node(f[0]), "e", "past"))
		l := leadNow(t, c.Node(lead), "e", "present")
		g := observe(t, c.Node(f[1]), "e")
		synctest.Wait()
		if events > 0 {
			t.Errorf("%d events: the node does not lag", events)
		}
		c.Disk(f[1]).Hang(false)
		time.Sleep(recoverBound)
		if synctest.Wait(); events < 3 {
			t.Errorf("%d events: the node still lags", events)
		}
		want := line(nodeName(lead), "present", l.Token())
		g.becomes(t, "the observer", []string{want})
		resign(t, l)
		g.becomes(t, "the observer", []string{want, "nobody"})
		c.CheckState()
	})
}

// A loop that falls behind goes on with what is by then.
func TestObserverThatFallsBehindGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		g := observe(t, c.Node(2), "e")
		l := leadNow(t, c.Node(0), "e", "first")
		open := g.shut()
		const values = 1500 // more than a watcher's queue holds
		for k := range values {
			if err := l.Proclaim(context.Background(), fmt.Sprint(k)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		open()
		last := line("node-0", fmt.Sprint(values-1), l.Token())
		for end := time.Now().Add(time.Second); ; time.Sleep(10 * time.Millisecond) {
			lines := g.lines()
			if lines[len(lines)-1] == last {
				if len(lines) > values-100 {
					t.Errorf("%d of %d changes seen: the loop did not fall behind", len(lines), values)
				}
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the last one seen is %s, want %s", lines[len(lines)-1], last)
			}
		}
		resign(t, l)
		time.Sleep(100 * time.Millisecond)
		if lines := g.lines(); lines[len(lines)-1] != "nobody" {
			t.Errorf("afterwards %s", lines[len(lines)-1])
		}
		c.CheckState()
	})
}

// Observe ends when its body breaks off, and when the node closes.
func TestObserveEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		turns := 0
		for range quorumlock.NewElection(c.Node(0), "e").Observe(context.Background()) {
			turns++
			break
		}
		if turns != 1 {
			t.Errorf("%d turns", turns)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		for _, err := range quorumlock.NewElection(c.Node(0), "e").Observe(ended) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("with a ctx that has ended: %v", err)
			}
		}
		g := observe(t, c.Node(0), "e")
		if err := c.Stop(0); err != nil {
			t.Error(err)
		}
		if err := within(t, "the end of the loop", time.Second, g.ended); !errors.Is(err, quorumlock.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		c.CheckState()
	})
}
