package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// permitsIn takes permits, for which bound must suffice.
func permitsIn(t *testing.T, m *quorumlock.Semaphore, n int, bound time.Duration) *quorumlock.Hold {
	t.Helper()
	return acquiring(t, m, n).granted(bound)
}

func acquiring(t *testing.T, m *quorumlock.Semaphore, n int) *waiter {
	return asked(t, func(ctx context.Context) (*quorumlock.Hold, error) { return m.Acquire(ctx, n) })
}

// tally counts the permits whose holders have not been told that they are lost, and checks that they are never more than there are. Each holder is asked at the
// instant of the next grant.
type tally struct {
	t     *testing.T
	limit int

	mu    sync.Mutex
	holds map[*quorumlock.Hold]int
	most  int
}

func (y *tally) add(h *quorumlock.Hold, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.holds[h] = n
	sum := 0
	for h, n := range y.holds {
		if h.Err() == nil {
			sum += n
		} else {
			delete(y.holds, h)
		}
	}
	if y.most = max(y.most, sum); sum > y.limit {
		y.t.Errorf("%d permits are held of %d", sum, y.limit)
	}
}

func (y *tally) remove(h *quorumlock.Hold) {
	y.mu.Lock()
	defer y.mu.Unlock()
	delete(y.holds, h)
}

// Fifty acquirers on all nodes, of which one is cut off until its leases end and another is killed in between: never are more permits held than there are, all are used at
// some time, and none is lost for ever.
func TestSemaphoreIsNeverAboveItsLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit, acquirers = 7, 50
		c := quorumlocktest.New(t, 3)
		y := &tally{t: t, limit: limit, holds: make(map[*quorumlock.Hold]int)}
		ctx, stop := context.WithCancel(context.Background())
		var done sync.WaitGroup
		grants := make([]atomic.Int32, 3)
		for i := range acquirers {
			node := c.Node(i % 3)
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			done.Go(func() {
				for ctx.Err() == nil {
					n := 1 + rng.IntN(limit)/(1+rng.IntN(3))
					h, err := quorumlock.NewSemaphore(node, "k", limit).Acquire(ctx, n)
					if errors.Is(err, quorumlock.ErrClosed) {
						return
					}
					if err != nil {
						continue
					}
					y.add(h, n)
					grants[i%3].Add(1)
					hold := time.NewTimer(time.Duration(50+rng.IntN(300)) * time.Millisecond)
					select {
					case <-hold.C:
					case <-h.Done():
					}
					hold.Stop()
					y.remove(h)
					_ = h.Unlock()
				}
			})
		}
		time.Sleep(3 * time.Second)
		_, f := roles(c)
		c.Isolate(f[0])
		time.Sleep(deadBound)
		c.Heal()
		time.Sleep(3 * time.Second)
		c.Crash(f[1])
		time.Sleep(deadBound + 2*time.Second)
		before := grants[f[0]].Load()
		time.Sleep(3 * time.Second)
		if grants[f[0]].Load() == before {
			t.Error("nothing is granted after the crash")
		}
		stop()
		done.Wait()
		if y.most != limit {
			t.Errorf("at most %d permits of %d were in use", y.most, limit)
		}
		becomesFree(t, c, "k", ghostBound)
		c.Start(f[1])
		c.WaitReady()
		c.CheckState()
	})
}

// A claim that names another limit, or wants more than there is, is told both limits; a claim for what fits is not touched by that.
func TestSemaphoreLimitIsAgreed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx := context.Background()
		four := quorumlock.NewSemaphore(c.Node(0), "k", 4)
		h := permitsIn(t, four, 3, time.Second)
		if h.Token() != 0 {
			t.Errorf("permits have token %v", h.Token())
		}
		for _, claim := range []struct{ named, wanted, agreed int }{{5, 1, 4}, {3, 1, 4}, {4, 5, 4}, {9, 6, 4}} {
			m := quorumlock.NewSemaphore(c.Node(1), "k", claim.named)
			_, acquire := m.Acquire(ctx, claim.wanted)
			_, try := m.TryAcquire(ctx, claim.wanted)
			do := m.Do(ctx, claim.wanted, func(context.Context) error { t.Error("worked"); return nil })
			for _, err := range []error{acquire, try, do} {
				var limit *quorumlock.LimitError
				if !errors.Is(err, quorumlock.ErrLimit) || !errors.As(err, &limit) || limit.Name != "k" || limit.Permits != claim.wanted ||
					limit.Limit != claim.named || limit.Agreed != claim.agreed {
					t.Errorf("%+v: %v", claim, err)
				}
			}
		}
		_, err := quorumlock.NewSemaphore(c.Node(1), "k", 4, quorumlock.Note("two")).TryAcquire(ctx, 2)
		var locked *quorumlock.LockedError
		if !errors.As(err, &locked) || locked.Holder.Permits != 3 || locked.Holder.Mode != quorumlock.Permits || locked.Holder.Node != "node-0" || locked.Queue != 0 {
			t.Errorf("two of one: %v", err)
		}
		unlock(t, permitsIn(t, quorumlock.NewSemaphore(c.Node(2), "k", 4), 1, time.Second))
		unlock(t, h)
		// Forgotten with its last permit, so another limit is as good as the first.
		unlock(t, permitsIn(t, quorumlock.NewSemaphore(c.Node(2), "k", 9), 9, time.Second))
		c.CheckState()
	})
}

// With a higher limit exactly the waiters that fit are granted, in their order; with a lower one nobody loses permits, and waiters that can never be served are told
// promptly, on whichever node they are.
func TestSemaphoreResize(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, _ := roles(c)
		ctx := context.Background()
		sem := func(i int) *quorumlock.Semaphore { return quorumlock.NewSemaphore(c.Node(i), "k", 4) }
		h := permitsIn(t, sem(0), 4, time.Second)
		var queue []*waiter
		for i, n := range []int{2, 3, 1, 4} {
			queue = append(queue, acquiring(t, sem(i%3), n))
			queueBecomes(t, c, "k", i+1, time.Second)
		}
		granted := func(want int) {
			t.Helper()
			time.Sleep(atOnce)
			for i, w := range queue {
				if w.ended() != (i < want) {
					t.Errorf("waiter %d: ended %v, want the first %d", i, w.ended(), want)
				}
			}
		}
		for _, step := range []struct{ limit, served int }{{5, 0}, {6, 1}, {8, 1}, {9, 2}, {8, 2}, {10, 3}} {
			if err := sem(1).Resize(ctx, step.limit); err != nil {
				t.Fatalf("resize to %d: %v", step.limit, err)
			}
			granted(step.served)
		}
		// 10 of 10 are held. The limit falls to 3: what is held stays, and who waits for 4 never gets it.
		oversized := queue[3]
		start := time.Now()
		if err := sem(l).Resize(ctx, 3); err != nil {
			t.Fatal(err)
		}
		oversized.failed(reportBound, quorumlock.ErrLimit)
		var limit *quorumlock.LimitError
		if !errors.As(oversized.err, &limit) || limit.Permits != 4 || limit.Limit != 4 || limit.Agreed != 3 {
			t.Errorf("the oversized waiter: %v", oversized.err)
		}
		t.Logf("told after %v", oversized.at.Sub(start))
		if err := h.Err(); err != nil {
			t.Errorf("a holder of 4 of 3: %v", err)
		}
		late := acquiring(t, quorumlock.NewSemaphore(c.Node(1), "k", 3), 3)
		queueBecomes(t, c, "k", 1, time.Second)
		unlock(t, h)
		for _, w := range queue[:3] {
			if time.Sleep(atOnce); late.ended() {
				t.Fatal("granted beside more than the limit")
			}
			unlock(t, w.hold)
		}
		unlock(t, late.granted(atOnce))
		// A limit that was set stays, though nobody uses the semaphore.
		if _, err := quorumlock.NewSemaphore(c.Node(0), "k", 7).TryAcquire(ctx, 1); !errors.As(err, &limit) || limit.Agreed != 3 {
			t.Errorf("another limit after all have gone: %v", err)
		}
		if time.Sleep(ghostBound); lockShown(t, c, "k").Waiting != 0 {
			t.Error("a claim of the oversized waiter is left")
		}
		c.CheckState()
	})
}

// A deployment with another limit is rolled out: call Resize first. From then on instances that name the limit before are
// served like those that name the new one, whether the semaphore was in use at that time or not, and whichever of them calls
// first.
func TestResizeFirstThenRollOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx := context.Background()
		named := func(name string, limit int) *quorumlock.Semaphore {
			return quorumlock.NewSemaphore(c.Node(limit%3), name, limit)
		}
		for name, inUse := range map[string]bool{"busy": true, "idle": false} {
			h := permitsIn(t, named(name, 4), 1, time.Second)
			if !inUse {
				unlock(t, h)
			}
			for _, caller := range []int{4, 4, 8} {
				if err := named(name, caller).Resize(ctx, 8); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 3 {
				free := 8
				if inUse && i == 0 {
					free--
				}
				old := permitsIn(t, named(name, 4), 4, time.Second)
				rest := permitsIn(t, named(name, 8), free-4, time.Second)
				if _, err := named(name, 4).TryAcquire(ctx, 1); !errors.Is(err, quorumlock.ErrLocked) {
					t.Errorf("%s: one more than 8: %v", name, err)
				}
				var limit *quorumlock.LimitError
				if _, err := named(name, 5).TryAcquire(ctx, 1); !errors.As(err, &limit) || limit.Limit != 5 || limit.Agreed != 8 {
					t.Errorf("%s: a limit that nobody named: %v", name, err)
				}
				unlock(t, old)
				unlock(t, rest)
				if inUse && i == 0 {
					unlock(t, h)
				}
			}
		}
		c.CheckState()
	})
}

// shows is what Inspect, Locks and both from the node's own state say of the limit of a name nobody uses, 0 if they do not know it.
func shows(t *testing.T, c *quorumlocktest.Cluster, name string) int {
	t.Helper()
	time.Sleep(time.Second) // for followers
	limit := lockShown(t, c, name).Limit
	for i := range c.Size() {
		for _, opts := range [][]quorumlock.ReadOption{nil, {quorumlock.Local()}} {
			info, err := c.Node(i).Inspect(context.Background(), name, opts...)
			if err != nil || info.Limit != limit || info.Holding+info.Waiting+info.InUse != 0 {
				t.Errorf("node %d: %+v, %v", i, info, err)
			}
			list := locksOf(t, c.Node(i), name, opts...)
			if limit == 0 && len(list) != 0 || limit != 0 && (len(list) != 1 || list[0].Name != name || list[0].Limit != limit || list[0].Holding != 0) {
				t.Errorf("node %d, limit %d: listed %+v", i, limit, list)
			}
		}
	}
	return limit
}

// A limit that was set keeps its name from locks, and everybody can see it, until Resize has it forgotten; while the
// semaphore is in use, the limits named so far go on.
func TestForgetLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.TimeLimit(2*time.Hour))
		ctx := context.Background()
		resize := func(named, limit int) {
			t.Helper()
			if err := quorumlock.NewSemaphore(c.Node(1), "job", named).Resize(ctx, limit); err != nil {
				t.Fatalf("resize to %d: %v", limit, err)
			}
		}
		try := func(limit int) (*quorumlock.Hold, error) {
			return quorumlock.NewSemaphore(c.Node(2), "job", limit).TryAcquire(ctx, 1)
		}
		resize(3, 4)
		if got := shows(t, c, "job"); got != 4 {
			t.Errorf("a limit that was set: %d shown", got)
		}
		time.Sleep(time.Minute)
		if _, err := quorumlock.NewMutex(c.Node(0), "job").Lock(ctx); !errors.Is(err, quorumlock.ErrKind) {
			t.Errorf("a lock of a name with a limit: %v", err)
		}
		resize(3, 0)
		if got := shows(t, c, "job"); got != 0 {
			t.Errorf("a limit that was forgotten: %d shown", got)
		}
		m := lockIn(t, c.Node(0), "job", time.Second)
		if err := quorumlock.NewSemaphore(c.Node(1), "job", 3).Resize(ctx, 0); !errors.Is(err, quorumlock.ErrKind) {
			t.Errorf("forget the limit of a lock: %v", err)
		}
		unlock(t, m)

		h := permitsIn(t, quorumlock.NewSemaphore(c.Node(0), "job", 5), 1, time.Second)
		resize(5, 6)
		resize(6, 0)
		resize(6, 0) // again
		for _, named := range []int{5, 6, 7} {
			one, err := try(named)
			var limit *quorumlock.LimitError
			switch {
			case named == 7 && (!errors.As(err, &limit) || limit.Agreed != 6):
				t.Errorf("in use with 6, claimed with 7: %v", err)
			case named != 7 && err != nil:
				t.Errorf("in use with 6, was 5, claimed with %d: %v", named, err)
			case err == nil:
				unlock(t, one)
			}
		}
		unlock(t, h)
		if got := shows(t, c, "job"); got != 0 {
			t.Errorf("the last claim has gone, and the limit %d is left", got)
		}
		if one, err := try(7); err != nil {
			t.Errorf("another limit after all have gone: %v", err)
		} else {
			unlock(t, one)
		}
		unlock(t, lockIn(t, c.Node(0), "job", time.Second))
		c.CheckState()
	})
}

// The oversized waiters of one resize are on all nodes, also on one that is cut off meanwhile: it hears of it when it is back.
func TestResizeReachesEveryWaiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		sem := func(i int) *quorumlock.Semaphore { return quorumlock.NewSemaphore(c.Node(i), "k", 4) }
		h := permitsIn(t, sem(l), 1, time.Second)
		var waiters []*waiter
		for i := range 3 {
			waiters = append(waiters, acquiring(t, sem(i), 4))
			queueBecomes(t, c, "k", i+1, time.Second)
		}
		c.Isolate(f[0])
		time.Sleep(time.Second)
		if err := sem(l).Resize(context.Background(), 2); err != nil {
			t.Fatal(err)
		}
		for i, w := range waiters {
			if i == f[0] {
				continue
			}
			w.failed(reportBound, quorumlock.ErrLimit)
		}
		if waiters[f[0]].ended() {
			t.Error("told through a cut")
		}
		c.Heal()
		waiters[f[0]].failed(3*time.Second, quorumlock.ErrLimit)
		unlock(t, h)
		becomesFree(t, c, "k", ghostBound)
		c.CheckState()
	})
}

// A name is a lock or a semaphore, and who takes it for the other is told which it is.
func TestKindsOfLocksDoNotMix(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx := context.Background()
		lock, sem := lockIn(t, c.Node(0), "lock", time.Second), permitsIn(t, quorumlock.NewSemaphore(c.Node(0), "sem", 2), 1, time.Second)
		gives := func(what string, err error, name string, semaphore bool) {
			t.Helper()
			var kind *quorumlock.KindError
			if !errors.Is(err, quorumlock.ErrKind) || !errors.As(err, &kind) || kind.Name != name || kind.Semaphore != semaphore {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err := quorumlock.NewMutex(c.Node(1), "sem").Lock(ctx)
		gives("mutex", err, "sem", true)
		_, err = quorumlock.NewMutex(c.Node(1), "sem").TryLock(ctx)
		gives("try", err, "sem", true)
		_, err = quorumlock.NewRWMutex(c.Node(1), "sem").RLock(ctx)
		gives("reader", err, "sem", true)
		_, err = quorumlock.NewMultiMutex(c.Node(1), "free", "sem").Lock(ctx)
		gives("set", err, "sem", true)
		_, err = quorumlock.NewSemaphore(c.Node(1), "lock", 2).Acquire(ctx, 1)
		gives("semaphore", err, "lock", false)
		gives("resize", quorumlock.NewSemaphore(c.Node(1), "lock", 2).Resize(ctx, 3), "lock", false)
		unlock(t, lock)
		unlock(t, sem)
		unlock(t, lockIn(t, c.Node(1), "sem", time.Second))
		unlock(t, permitsIn(t, quorumlock.NewSemaphore(c.Node(1), "lock", 3), 3, time.Second))
		becomesFree(t, c, "free", time.Second)
		c.CheckState()
	})
}

// Numbers that are out of range, and options that are, are refused by name before anything is sent: not even a session is opened for them.
func TestBadArgumentsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		isolateAll(c)
		time.Sleep(time.Second) // whatever is sent waits for ever
		ctx, node := context.Background(), c.Node(0)
		names := make([]string, 65)
		for i := range names {
			names[i] = fmt.Sprint(i)
		}
		lock := func(o quorumlock.Owner, opts ...quorumlock.LockOption) error {
			_, err := quorumlock.NewMutex(o, "k", opts...).Lock(ctx)
			return err
		}
		set := func(names ...string) error {
			_, err := quorumlock.NewMultiMutex(node, names...).Lock(ctx)
			return err
		}
		permits := func(limit, n int) error {
			_, err := quorumlock.NewSemaphore(node, "k", limit).Acquire(ctx, n)
			return err
		}
		resize := func(named, limit int) error { return quorumlock.NewSemaphore(node, "k", named).Resize(ctx, limit) }
		tooMany := int64(1) << 32
		for what, f := range map[string]func() error{
			"no owner":            func() error { return lock(nil) },
			"a nil node":          func() error { return lock((*quorumlock.Node)(nil)) },
			"a nil session":       func() error { return lock((*quorumlock.Session)(nil)) },
			"zero mutex":          func() error { _, err := new(quorumlock.Mutex).Lock(ctx); return err },
			"zero semaphore":      func() error { return new(quorumlock.Semaphore).Resize(ctx, 1) },
			"control character":   func() error { return lock(node, quorumlock.Note("a\x00b")) },
			"negative delay":      func() error { return lock(node, quorumlock.Delay(-time.Second)) },
			"delay in µs":         func() error { return lock(node, quorumlock.Delay(1500*time.Microsecond)) },
			"long delay":          func() error { return lock(node, quorumlock.Delay(10*time.Minute+time.Millisecond)) },
			"negative MaxHold":    func() error { return lock(node, quorumlock.MaxHold(-1)) },
			"no names":            func() error { return set() },
			"a name twice":        func() error { return set("a", "b", "a") },
			"too many names":      func() error { return set(names...) },
			"a bad name":          func() error { return set("a", "") },
			"no limit":            func() error { return permits(0, 1) },
			"negative limit":      func() error { return permits(-1, 1) },
			"huge limit":          func() error { return permits(1<<30+1, 1) },
			"limit beyond uint32": func() error { return permits(int(tooMany+3), 1) },
			"no permits":          func() error { return permits(3, 0) },
			"negative permits":    func() error { return permits(3, -1) },
			"resize below":        func() error { return resize(3, -5) },
			"resize beyond":       func() error { return resize(3, int(tooMany+1)) },
			"ticket":              func() error { _, err := quorumlock.Receive(ctx, node, "nonsense"); return err },
			"no ticket":           func() error { _, err := quorumlock.Receive(ctx, node, ""); return err },
		} {
			done := make(chan error, 1)
			go func() { done <- f() }()
			select {
			case err := <-done:
				if refused(t, err); err == nil {
					t.Errorf("%s was taken", what)
				}
			case <-time.After(atOnce):
				t.Errorf("%s: something was sent", what)
				c.Heal()
				<-done
				isolateAll(c)
			}
		}
		if err := permits(3, int(tooMany+1)); !errors.Is(err, quorumlock.ErrLimit) {
			t.Errorf("more permits than fit into 32 bits: %v", err)
		}
	})
}
