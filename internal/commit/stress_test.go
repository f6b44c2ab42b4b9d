package commit

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// ledger is a fast log that counts how often each command was written, and fails some entries with either outcome.
type ledger struct {
	mu      sync.Mutex
	written map[int64]int
	last    map[locktable.SessionID]uint64 // highest sequence written, by session
	swapped bool
	flying  atomic.Int32
	most    atomic.Int32
}

var errInjected = errors.New("injected")

func (l *ledger) Propose(cmds []*locktable.Command) func() ([]locktable.Result, error) {
	raise(&l.most, l.flying.Add(1))
	fate := rand.IntN(10)
	if fate > 0 { // 0: fails without having been written
		l.write(cmds)
	}
	return func() ([]locktable.Result, error) {
		defer l.flying.Add(-1)
		for range rand.IntN(200) { // the write, which takes others' turns and no time
			runtime.Gosched()
		}
		switch fate {
		case 0:
			return nil, &Error{NotDone, errInjected}
		case 1: // written, and not known
			return nil, &Error{Unknown, errInjected}
		}
		res := make([]locktable.Result, len(cmds))
		for i, c := range cmds {
			res[i].Token = locktable.Token(id(c))
		}
		return res, nil
	}
}

func raise(most *atomic.Int32, n int32) {
	for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
	}
}

func (l *ledger) write(cmds []*locktable.Command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range cmds {
		l.written[id(c)]++
		if c.Op == locktable.OpRenew {
			continue
		}
		l.swapped = l.swapped || c.Seq <= l.last[c.Session]
		l.last[c.Session] = c.Seq
	}
}

func id(c *locktable.Command) int64 { return int64(c.Session)<<32 | int64(c.Seq) }

// Callers with contexts that end at any moment against a log that fails: each command is written at most once, one that was
// answered exactly once, one called NotDone never; one caller's commands keep their order; and Stop in the middle of it leaves nothing.
func TestStress(t *testing.T) {
	const callers, rounds = 24, 200
	l := &ledger{written: map[int64]int{}, last: map[locktable.SessionID]uint64{}}
	b := New(Env{Propose: l.Propose}, Options{MaxCommands: 8, MaxQueue: 12, RenewGather: 100 * time.Microsecond})
	ends := make([]map[int64]error, callers)
	seen := struct{ done, overloaded, notDone, unknown, stopped atomic.Int32 }{}
	var left atomic.Int32
	left.Store(callers * rounds)
	var wg sync.WaitGroup
	for i := range callers {
		ends[i] = map[int64]error{}
		wg.Go(func() {
			for n := range rounds {
				cmd := &locktable.Command{Op: locktable.OpClaim, Session: locktable.SessionID(i + 1), Seq: uint64(n + 1)}
				if n%4 == 3 {
					cmd.Op = locktable.OpRenew
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(5000))*time.Microsecond)
				res, err := b.Do(ctx, cmd)
				cancel()
				if err == nil && int64(res.Token) != id(cmd) {
					t.Errorf("command %x got the result of %x", id(cmd), res.Token)
				}
				ends[i][id(cmd)] = err
				if left.Add(-1) == callers*rounds/10 {
					go b.Stop(errInjected)
				}
			}
		})
	}
	wg.Wait()
	b.Stop(nil)
	for _, m := range ends {
		for id, err := range m {
			n := l.written[id]
			var e *Error
			switch {
			case err == nil:
				seen.done.Add(1)
				if n != 1 {
					t.Errorf("command %x was answered and written %d times", id, n)
				}
			case !errors.As(err, &e):
				t.Errorf("error %T", err)
			case e.Outcome == NotDone:
				seen.notDone.Add(1)
				if n != 0 {
					t.Errorf("command %x was called not done and was written: %v", id, err)
				}
			default:
				seen.unknown.Add(1)
			}
			if n > 1 {
				t.Errorf("command %x was written %d times", id, n)
			}
			if errors.Is(err, ErrOverloaded) {
				seen.overloaded.Add(1)
			}
			if errors.Is(err, ErrStopped) {
				seen.stopped.Add(1)
			}
		}
	}
	if l.swapped {
		t.Error("commands of one caller were written out of order")
	}
	if m := l.most.Load(); m != 2 {
		t.Errorf("%d entries in flight at most, want 2", m)
	}
	if len(b.live) != 0 || b.ordinary.n != 0 || b.renewals.n != 0 || b.ordinary.bytes != 0 || b.slots != 0 {
		t.Errorf("left behind: %v %+v %+v %d", b.live, b.ordinary, b.renewals, b.slots)
	}
	for name, n := range map[string]*atomic.Int32{"done": &seen.done, "not done": &seen.notDone, "unknown": &seen.unknown,
		"overloaded": &seen.overloaded, "stopped": &seen.stopped} {
		if n.Load() == 0 {
			t.Errorf("no command ended as %s: the test tests nothing", name)
		}
	}
}
