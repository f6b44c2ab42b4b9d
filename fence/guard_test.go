package fence_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/fencetest"
)

// inMemory are values in memory behind a Guard.
type inMemory struct {
	guard fence.Guard

	mu               sync.Mutex
	fenced, unfenced map[string]string
}

func newInMemory() *inMemory {
	return &inMemory{fenced: make(map[string]string), unfenced: make(map[string]string)}
}

func (m *inMemory) Write(ctx context.Context, resource, value string) error {
	return m.guard.Do(ctx, resource, func(context.Context) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.fenced[resource] = value
		return nil
	})
}

func (m *inMemory) Claim(ctx context.Context, resource string) error {
	return fence.Claim(ctx, &m.guard, resource)
}

func (m *inMemory) Read(_ context.Context, resource string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fenced[resource], nil
}

func (m *inMemory) WriteUnfenced(_ context.Context, resource, value string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unfenced[resource] = value
	return nil
}

func (m *inMemory) ReadUnfenced(_ context.Context, resource string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unfenced[resource], nil
}

func TestGuardConforms(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Backend { return newInMemory() })
}

func TestGuardRefusesStaleHolders(t *testing.T) {
	fencetest.Stale(t, newInMemory(), fencetest.Successions(t))
}

// What is missing is told before anything is judged, and takes no place in the Guard.
func TestGuardNeedsAWrite(t *testing.T) {
	ctx := fence.NewContext(t.Context(), fence.Grant{Cluster: "c", Lock: "l", Token: 42})
	var g fence.Guard
	if err := g.Do(ctx, "r", nil); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("no write: %v", err)
	}
	if last := g.Last("r"); last != (fence.Grant{}) {
		t.Errorf("accepted: %v", last)
	}
	if err := fence.Claim(ctx, nil, "r"); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("no checker: %v", err)
	}
}

// A nil checker, context or Guard is an error, also where an interface hides it.
func TestGuardRefusesWhatIsMissing(t *testing.T) {
	ctx := with(grant(42))
	var none context.Context
	var nobody *fence.Guard
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"no context":         {fence.Claim(none, new(fence.Guard), "r"), fence.ErrNoGrant},
		"no Guard":           {fence.Claim(ctx, nobody, "r"), fence.ErrInvalid},
		"no Guard, directly": {nobody.Do(ctx, "r", func(context.Context) error { return nil }), fence.ErrInvalid},
		"no function":        {fence.Claim(ctx, checkerFunc(nil), "r"), fence.ErrInvalid},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	if last := nobody.Last("r"); last != (fence.Grant{}) {
		t.Errorf("accepted: %v", last)
	}
	if g, err := fence.FromContext(fence.NewContext(none, grant(42)), "r"); g != grant(42) || err != nil {
		t.Errorf("%v, %v", g, err)
	}
	if _, err := fence.FromEnviron(nil); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("environment: %v", err)
	}
}

type checkerFunc func(ctx context.Context, resource string, write func(context.Context) error) error

func (f checkerFunc) Do(ctx context.Context, resource string, write func(context.Context) error) error {
	return f(ctx, resource, write)
}

// A checker takes back what failed unless it says otherwise, as a Guard does, also through one that embeds it.
func TestRollsBack(t *testing.T) {
	for name, c := range map[string]struct {
		checker fence.Checker
		want    bool
	}{
		"says nothing": {checkerFunc(nil), true},
		"Guard":        {new(fence.Guard), false},
		"embedded":     {struct{ *fence.Guard }{}, false},
	} {
		if got := fence.RollsBack(c.checker); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// endsMeanwhile is a context that ends after it has been asked once.
type endsMeanwhile struct {
	context.Context
	asked int
}

func (c *endsMeanwhile) Err() error {
	if c.asked++; c.asked == 1 {
		return nil
	}
	return context.Canceled
}

func (c *endsMeanwhile) Done() <-chan struct{} {
	ended := make(chan struct{})
	close(ended)
	return ended
}

// Contexts that have ended, before the call or before its turn, take no place for good.
func TestEndedContextsDoNotFillTheGuard(t *testing.T) {
	var g fence.Guard
	ended, cancel := context.WithCancel(with(grant(5)))
	cancel()
	for i := range fence.MaxGuarded {
		for _, ctx := range []context.Context{ended, &endsMeanwhile{Context: with(grant(5))}} {
			if err := fence.Claim(ctx, &g, fmt.Sprint(i)); !errors.Is(err, context.Canceled) || !errors.Is(err, fence.ErrNotWritten) {
				t.Fatal(err)
			}
		}
	}
	if err := fence.Claim(with(grant(5)), &g, "good"); err != nil {
		t.Errorf("nothing was ever accepted, and the guard is full: %v", err)
	}
}

// The context of a call ends while another has the turn of a resource, before that one is free: no write runs under it.
func TestNoWriteBeginsUnderAnEndedContext(t *testing.T) {
	const tries = 2000
	for range tries {
		var g fence.Guard
		inside, goOn := make(chan struct{}), make(chan struct{})
		go func() {
			_ = g.Do(with(grant(1)), "r", func(context.Context) error { close(inside); <-goOn; return nil })
		}()
		<-inside
		ctx, cancel := context.WithCancel(with(grant(2)))
		done := make(chan error)
		go func() {
			done <- g.Do(ctx, "r", func(ctx context.Context) error { t.Error("written"); return nil })
		}()
		runtime.Gosched() // mostly it waits for its turn by then
		cancel()
		close(goOn)
		if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, fence.ErrNotWritten) {
			t.Fatal(err)
		}
		if last := g.Last("r"); last != grant(1) {
			t.Fatalf("accepted %v", last)
		}
	}
}

// Last waits for no write, so that a write may ask for its own resource.
func TestLastWaitsForNothing(t *testing.T) {
	var g fence.Guard
	err := g.Do(with(grant(7)), "r", func(context.Context) error {
		if last := g.Last("r"); last != grant(7) {
			t.Errorf("accepted %v", last)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Writes that nest two resources in opposite orders wait for each other, but not beyond their contexts, and the resources are
// free then.
func TestPitfallGuardsNestedCrosswise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Minute
		var g fence.Guard
		ctx, cancel := context.WithTimeout(with(grant(5)), limit)
		defer cancel()
		began := time.Now()
		var calls, both sync.WaitGroup
		both.Add(2)
		for _, names := range [][2]string{{"a", "b"}, {"b", "a"}} {
			calls.Go(func() {
				err := g.Do(ctx, names[0], func(ctx context.Context) error {
					both.Done()
					both.Wait()
					return fence.Claim(ctx, &g, names[1])
				})
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, fence.ErrNotWritten) {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if waited := time.Since(began); waited != limit {
			t.Errorf("they waited %v: the pitfall is gone", waited)
		}
		for _, name := range []string{"a", "b"} {
			if err := fence.Claim(with(grant(6)), &g, name); err != nil {
				t.Error(err)
			}
		}
	})
}
