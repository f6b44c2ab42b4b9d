package fencetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
)

// bound is for everything that one test asks of a backend.
const bound = 2 * time.Minute

// Run runs the suite. open gives the backend to a test, which may be shared between tests: they use resources of their own.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s *suite)
	}{
		{"Judge", judges},
		{"RefusalTellsWhy", tellsWhy},
		{"ClaimedButNotWritten", claims},
		{"BadInput", refusesBadInput},
		{"ResourcesAreApart", keepsApart},
		{"Values", keepsValues},
		{"Cancelled", obeysContext},
		{"ConcurrentWriters", ordersWriters},
		{"ReadModifyWrite", losesNoUpdate},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			defer cancel()
			test.run(t, &suite{Backend: open(t), ctx: ctx, name: resourceName(t)})
		})
	}
}

// suite is one test's view of a backend.
type suite struct {
	Backend
	ctx  context.Context
	name string // the resource
}

var names atomic.Int64

// resourceName is a name that no other test of this or an earlier run uses.
func resourceName(t *testing.T) string {
	return fmt.Sprintf("%s/%d.%d", t.Name(), time.Now().UnixNano(), names.Add(1))
}

func grant(token fence.Token) fence.Grant {
	return fence.Grant{Cluster: "cluster-1", Lock: "job-x", Token: token}
}

func (s *suite) write(g fence.Grant, value string) error {
	return s.Write(with(s.ctx, g), s.name, value)
}

func (s *suite) mustWrite(t *testing.T, g fence.Grant, value string) {
	t.Helper()
	if err := s.write(g, value); err != nil {
		t.Fatalf("write of %q under %v: %v", value, g, err)
	}
	s.holds(t, value)
}

// refuses fails the test unless a write under g is refused with want and leaves no trace.
func (s *suite) refuses(t *testing.T, g fence.Grant, want error) {
	t.Helper()
	before := s.read(t)
	if err := s.write(g, "refused"); !errors.Is(err, want) {
		t.Errorf("write under %v: %v, want %v", g, err, want)
	}
	if err := s.Claim(with(s.ctx, g), s.name); !errors.Is(err, want) {
		t.Errorf("claim under %v: %v, want %v", g, err, want)
	}
	s.holds(t, before)
}

func (s *suite) read(t *testing.T) string {
	t.Helper()
	value, err := s.Read(s.ctx, s.name)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func (s *suite) holds(t *testing.T, want string) {
	t.Helper()
	if value := s.read(t); value != want {
		t.Fatalf("the value is %.100q, want %.100q", value, want)
	}
}

func judges(t *testing.T, s *suite) {
	another := func(token fence.Token) fence.Grant {
		return fence.Grant{Cluster: "cluster-2", Lock: "job-x", Token: token}
	}
	s.holds(t, "")
	s.mustWrite(t, grant(41), "first")
	s.mustWrite(t, grant(41), "of the same holder")
	s.mustWrite(t, grant(42), "of the next holder")
	s.refuses(t, grant(41), fence.ErrStaleToken)
	s.refuses(t, grant(1), fence.ErrStaleToken)
	s.refuses(t, another(41), fence.ErrStaleToken)
	s.refuses(t, another(42), fence.ErrStaleToken)
	s.refuses(t, fence.Grant{Cluster: "cluster-1", Lock: "job-y", Token: 99}, fence.ErrWrongLock)
	s.refuses(t, fence.Grant{Cluster: "cluster-1", Lock: "job-y", Token: 1}, fence.ErrWrongLock)
	s.mustWrite(t, another(43), "of a cluster founded anew")
	s.refuses(t, grant(43), fence.ErrStaleToken)
	s.mustWrite(t, another(1<<53-1), "of the highest token")
	s.refuses(t, another(1<<53-2), fence.ErrStaleToken)
}

func tellsWhy(t *testing.T, s *suite) {
	s.mustWrite(t, grant(42), "new")
	var stale *fence.StaleTokenError
	if err := s.write(grant(41), "old"); !errors.As(err, &stale) || stale.Resource != s.name || stale.Token != 41 || stale.Highest != 42 {
		t.Errorf("a stale write: %#v", err)
	}
	var wrong *fence.WrongLockError
	err := s.write(fence.Grant{Cluster: "cluster-1", Lock: "job-y", Token: 43}, "other")
	if !errors.As(err, &wrong) || wrong.Resource != s.name || wrong.Lock != "job-y" || wrong.Guard != "job-x" {
		t.Errorf("a write under another lock: %#v", err)
	}
}

func claims(t *testing.T, s *suite) {
	s.mustWrite(t, grant(41), "old")
	if err := s.Claim(with(s.ctx, grant(42)), s.name); err != nil {
		t.Fatal(err)
	}
	s.holds(t, "old")
	s.refuses(t, grant(41), fence.ErrStaleToken)
	s.mustWrite(t, grant(42), "new")
}

func refusesBadInput(t *testing.T, s *suite) {
	for name, test := range map[string]struct {
		ctx      context.Context
		resource string
		want     error
	}{
		"no grant":           {s.ctx, s.name, fence.ErrNoGrant},
		"no token":           {with(s.ctx, grant(0)), s.name, fence.ErrInvalid},
		"negative token":     {with(s.ctx, grant(-1)), s.name, fence.ErrInvalid},
		"token too high":     {with(s.ctx, grant(fence.MaxToken+1)), s.name, fence.ErrInvalid},
		"no lock":            {with(s.ctx, fence.Grant{Cluster: "c", Token: 1}), s.name, fence.ErrInvalid},
		"no cluster":         {with(s.ctx, fence.Grant{Lock: "l", Token: 1}), s.name, fence.ErrInvalid},
		"no resource":        {with(s.ctx, grant(1)), "", fence.ErrInvalid},
		"resource too long":  {with(s.ctx, grant(1)), strings.Repeat("x", fence.MaxName+1), fence.ErrInvalid},
		"resource not UTF-8": {with(s.ctx, grant(1)), s.name + "\xff", fence.ErrInvalid},
		"zero byte":          {with(s.ctx, grant(1)), s.name + "\x00", fence.ErrInvalid},
		"grants of a set":    {fence.NewContext(s.ctx, grant(1), fence.Grant{Cluster: "c", Lock: "l", Token: 1}), s.name, fence.ErrInvalid},
	} {
		if err := s.Write(test.ctx, test.resource, "bad"); !errors.Is(err, test.want) {
			t.Errorf("%s: write: %v", name, err)
		}
		if err := s.Claim(test.ctx, test.resource); !errors.Is(err, test.want) {
			t.Errorf("%s: claim: %v", name, err)
		}
	}
	s.mustWrite(t, grant(1), "the lowest token is good, so nothing was kept of those")
}

func keepsApart(t *testing.T, s *suite) {
	one, two := s.name, s.name+"'; DROP TABLE x; -- /../%2F{}ü"
	s.mustWrite(t, grant(42), "one")
	s.name = two
	s.mustWrite(t, fence.Grant{Cluster: "cluster-1", Lock: "job-ü/{}'\"%", Token: 1}, "two")
	s.name = one
	s.refuses(t, grant(41), fence.ErrStaleToken)
	s.name = strings.Repeat("ü", (fence.MaxName-len(one))/2) + one // of the greatest length, or one less
	s.mustWrite(t, grant(1), "long")
}

func keepsValues(t *testing.T, s *suite) {
	for i, value := range []string{"", "{}", "zwölf Boxkämpfer\r\n\t'\"\\%$1", strings.Repeat("0123456789", 10_000)} {
		s.mustWrite(t, grant(fence.Token(1+i/2)), value)
		s.mustWrite(t, grant(fence.Token(1+i/2)), value)
	}
}

func obeysContext(t *testing.T, s *suite) {
	s.mustWrite(t, grant(1), "before")
	ctx, cancel := context.WithCancel(with(s.ctx, grant(2)))
	cancel()
	if err := s.Write(ctx, s.name, "after"); !errors.Is(err, context.Canceled) {
		t.Errorf("write: %v", err)
	}
	if err := s.Claim(ctx, s.name); !errors.Is(err, context.Canceled) {
		t.Errorf("claim: %v", err)
	}
	s.mustWrite(t, grant(1), "nothing was kept of those")
}

// ordersWriters has holders of rising tokens write all at once. Whatever is accepted, a write that begins after one of a higher token has been accepted must be refused, and the highest one stays.
func ordersWriters(t *testing.T, s *suite) {
	const writers, each = 8, 25
	var accepted, refused atomic.Int64
	var highest atomic.Int64 // token of a write that has been accepted
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := range each {
				token := fence.Token(1 + n*writers + i)
				seen := fence.Token(highest.Load())
				switch err := s.write(grant(token), token.String()); {
				case err == nil:
					accepted.Add(1)
					if token < seen {
						t.Errorf("accepted %v, though %v had been", token, seen)
					}
					for now := highest.Load(); int64(token) > now && !highest.CompareAndSwap(now, int64(token)); now = highest.Load() {
					}
				case errors.Is(err, fence.ErrStaleToken):
					refused.Add(1)
				default:
					t.Errorf("token %v: %v", token, err)
				}
			}
		})
	}
	wg.Wait()
	s.holds(t, fence.Token(highest.Load()).String())
	if highest.Load() != writers*each {
		t.Errorf("the highest accepted is %v: the highest of all was refused", highest.Load())
	}
	t.Logf("%d accepted, %d refused", accepted.Load(), refused.Load())
}

// losesNoUpdate has holders come one after the other while their predecessors still write. Each claims, reads, and writes what follows from what it read.
func losesNoUpdate(t *testing.T, s *suite) {
	const terms, each = 40, 3
	var wg sync.WaitGroup
	var late atomic.Int64
	for term := range fence.Token(terms) {
		ctx := with(s.ctx, grant(term+1))
		if err := s.Claim(ctx, s.name); err != nil {
			t.Fatal(err)
		}
		log := s.read(t)
		for n := range each {
			log += fmt.Sprintf("%v.%d ", term+1, n)
			if err := s.Write(ctx, s.name, log); err != nil {
				t.Fatal(err)
			}
		}
		wg.Go(func() { // goes on writing as long as it may
			for late.Add(1); ; {
				if err := s.Write(ctx, s.name, log); err != nil {
					if !errors.Is(err, fence.ErrStaleToken) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	// The last one stops when it is succeeded.
	if err := s.Claim(with(s.ctx, grant(terms+1)), s.name); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	var want strings.Builder
	for term := range terms {
		for n := range each {
			fmt.Fprintf(&want, "%d.%d ", term+1, n)
		}
	}
	s.holds(t, want.String())
}
