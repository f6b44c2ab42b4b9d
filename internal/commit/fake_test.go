package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// fakeLog writes entries in a fixed time each and remembers them. Its answer to a command carries the command's sequence, so that
// a result handed to the wrong caller is seen.
type fakeLog struct {
	write   time.Duration
	propose time.Duration // how long Propose itself blocks
	err     error
	results func(n int) int // changes the number of results
	hold    chan struct{}   // if set, writes end when it is closed

	mu       sync.Mutex
	start    time.Time
	entries  []written
	inFlight int
	most     int
}

// written is one entry: when it was proposed, and the sequences of its commands, renewals as the negative session.
type written struct {
	at   time.Duration
	keys []int64
}

func newFakeLog(write time.Duration) *fakeLog { return &fakeLog{write: write, start: time.Now()} }

func (l *fakeLog) env() Env { return Env{Propose: l.Propose} }

func (l *fakeLog) Propose(cmds []*locktable.Command) func() ([]locktable.Result, error) {
	time.Sleep(l.propose)
	l.mu.Lock()
	defer l.mu.Unlock()
	e := written{at: time.Since(l.start)}
	for _, c := range cmds {
		e.keys = append(e.keys, key(c))
	}
	l.entries = append(l.entries, e)
	l.inFlight++
	l.most = max(l.most, l.inFlight)
	return func() ([]locktable.Result, error) {
		time.Sleep(l.write)
		if l.hold != nil {
			<-l.hold
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.inFlight--
		return l.answer(cmds)
	}
}

func (l *fakeLog) answer(cmds []*locktable.Command) ([]locktable.Result, error) {
	if l.err != nil {
		return nil, l.err
	}
	n := len(cmds)
	if l.results != nil {
		n = l.results(n)
	}
	res := make([]locktable.Result, n)
	for i := range min(n, len(cmds)) {
		res[i] = locktable.Result{Code: locktable.CodeOK, Token: locktable.Token(key(cmds[i]))}
	}
	return res, nil
}

func key(c *locktable.Command) int64 {
	if c.Op == locktable.OpRenew {
		return -int64(c.Session)
	}
	return int64(c.Seq)
}

func (l *fakeLog) written() []written {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]written(nil), l.entries...)
}

func claim(seq uint64) *locktable.Command {
	return &locktable.Command{Op: locktable.OpClaim, Session: 1, Seq: seq, Names: []string{"job"}}
}

func renewal(s locktable.SessionID) *locktable.Command {
	return &locktable.Command{Op: locktable.OpRenew, Session: s}
}

// outcome is how one call of Do ended.
type outcome struct {
	key int64
	res locktable.Result
	err error
	at  time.Time
}

// caller runs calls of Do in the background, inside a bubble.
type caller struct {
	b    *Batcher
	wg   sync.WaitGroup
	mu   sync.Mutex
	ends []outcome
}

// do begins Do and returns when the call has queued (or has ended).
func (c *caller) do(ctx context.Context, cmd *locktable.Command) {
	c.wg.Go(func() {
		res, err := c.b.Do(ctx, cmd)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ends = append(c.ends, outcome{key(cmd), res, err, time.Now()})
	})
	synctest.Wait()
}

func (c *caller) wait() []outcome {
	c.wg.Wait()
	return c.ends
}

// wantAllOK checks that all calls ended well, each with its own result.
func wantAllOK(t *testing.T, ends []outcome, n int) {
	t.Helper()
	if len(ends) != n {
		t.Errorf("%d calls ended, want %d", len(ends), n)
	}
	for _, o := range ends {
		if o.err != nil || int64(o.res.Token) != o.key {
			t.Errorf("call %d: %+v, %v", o.key, o.res, o.err)
		}
	}
}

func wantError(t *testing.T, err error, o Outcome, target error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Outcome != o || !errors.Is(err, target) {
		t.Errorf("error %v (%T), want %v with %v", err, err, o, target)
	}
}

func wantEntries(t *testing.T, got []written, want ...string) {
	t.Helper()
	var lines []string
	for _, e := range got {
		lines = append(lines, fmt.Sprintf("%v %v", e.at, e.keys))
	}
	if fmt.Sprint(lines) != fmt.Sprint(want) {
		t.Errorf("entries:\n got %q\nwant %q", lines, want)
	}
}
