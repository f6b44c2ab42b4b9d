package simulation

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/simulation/history"
)

// The names in use, few enough to be contended. Mutexes, read-write locks and sets share the locks; an election and a semaphore have names of their own.
var locks = []string{"a", "b", "quiet", "shelf"}

const (
	shelf  = "shelf" // the read-write lock
	pool   = "pool"  // the semaphore
	throne = "throne"
)

func (s *schedule) allNames() []string {
	return append(append([]string(nil), locks...), pool, throne)
}

func (w *worker) lock(o quorumlock.Owner) {
	a := w.attempt(quorumlock.Exclusive, w.someLock())
	if h, _ := w.ask(a, quorumlock.NewMutex(o, a.name(), a.options()...).Lock); h != nil {
		w.use(h, w.length())
	}
}

func (w *worker) tryLock(o quorumlock.Owner) {
	a := w.attempt(quorumlock.Exclusive, w.someLock())
	if h, _ := w.ask(a, quorumlock.NewMutex(o, a.name(), a.options()...).TryLock); h != nil {
		w.use(h, w.length())
	}
}

// do is use by way of a callback: under a lock, or under permits.
func (w *worker) do(o quorumlock.Owner) {
	var a *attempt
	var by func(ctx context.Context, f func(ctx context.Context, t quorumlock.Token) error) error
	switch w.rng.IntN(5) {
	case 0:
		a = w.attempt(quorumlock.Shared, shelf)
		by = quorumlock.NewRWMutex(o, shelf, a.options()...).RDo
	case 1:
		a = w.somePermits()
		by = func(ctx context.Context, f func(context.Context, quorumlock.Token) error) error {
			return w.semaphore(o, a).Do(ctx, a.Permits, func(ctx context.Context) error { return f(ctx, 0) })
		}
	case 2:
		a = w.attempt(quorumlock.Exclusive, w.someSet()...)
		by = quorumlock.NewMultiMutex(o, a.Names...).With(a.options()...).Do
	default:
		a = w.attempt(quorumlock.Exclusive, w.someLock())
		by = quorumlock.NewMutex(o, a.name(), a.options()...).Do
	}
	w.within(a, by, w.rng.IntN(4) == 0)
}

// within works in a callback; one that is deaf goes on for a while after its ctx has ended.
func (w *worker) within(a *attempt, by func(context.Context, func(context.Context, quorumlock.Token) error) error, deaf bool) {
	asked := a.Claim
	if asked.MaxHold > 0 {
		asked.MaxHold += lossBound // a context ends a little after Err of the hold tells
	}
	w.history.Asks(asked)
	ctx, cancel := context.WithTimeout(context.Background(), a.bound)
	defer cancel()
	length := w.length()
	c := a.call()
	u := c
	var h *holding
	err := by(ctx, func(held context.Context, t quorumlock.Token) error {
		h = w.enter(done(c), a, t, nil, func() bool { return held.Err() == nil && !w.in.drowsy() })
		h.ended = held.Done()
		w.busy(h, length)
		if deaf {
			time.Sleep(deafWork)
			w.in.thawed()
		}
		w.leave(h)
		u = a.call()
		return nil
	})
	if h == nil {
		w.failed(done(c), a, err)
		return
	}
	w.history.Unlocked(done(u), a.ID, outcomeOf(err))
	w.schedule.ended(h, "do", err)
}

func (w *worker) readLock(o quorumlock.Owner) {
	a := w.attempt(quorumlock.Shared, shelf)
	m := quorumlock.NewRWMutex(o, shelf, a.options()...)
	by := m.RLock
	if w.rng.IntN(3) == 0 {
		by = m.TryRLock
	}
	if h, _ := w.ask(a, by); h != nil {
		w.use(h, w.length())
	}
}

// writeLock writes, and half of the time goes on as a reader.
func (w *worker) writeLock(o quorumlock.Owner) {
	a := w.attempt(quorumlock.Exclusive, shelf)
	m := quorumlock.NewRWMutex(o, shelf, a.options()...)
	by := m.Lock
	if w.rng.IntN(3) == 0 {
		by = m.TryLock
	}
	h, _ := w.ask(a, by)
	if h == nil {
		return
	}
	if w.rng.IntN(2) == 0 {
		w.use(h, w.length())
		return
	}
	w.busy(h, w.length())
	if reader := w.downgrade(o, h); reader != nil {
		w.use(reader, w.length())
	}
}

// downgrade gives the read hold that takes a write hold's place, nil if there is none. A lock delay goes on to be that of the former.
func (w *worker) downgrade(o quorumlock.Owner, h *holding) *holding {
	w.leave(h)
	a := w.claim(w.name, w.in, quorumlock.Shared, shelf)
	a.bound, a.MaxHold, a.Delay, a.From = w.patience(), w.someCap(), h.Delay, h.ID
	if h.MaxHold > 0 {
		a.MaxHold = h.MaxHold // goes on
	}
	m := quorumlock.NewRWMutex(o, shelf, quorumlock.Note(a.ID), quorumlock.MaxHold(a.MaxHold))
	reader, err := w.ask(a, func(ctx context.Context) (*quorumlock.Hold, error) { return m.Downgrade(ctx, h.hold) })
	if err != nil {
		w.schedule.ended(h, "downgrade", err)
	}
	return reader
}

// someSet is 2 to 4 of the locks, in any order.
func (w *worker) someSet() (names []string) {
	for _, k := range w.rng.Perm(len(locks))[:2+w.rng.IntN(len(locks)-1)] {
		names = append(names, locks[k])
	}
	return names
}

func (w *worker) lockSet(o quorumlock.Owner) {
	a := w.attempt(quorumlock.Exclusive, w.someSet()...)
	m := quorumlock.NewMultiMutex(o, a.Names...).With(a.options()...)
	by := m.Lock
	if w.rng.IntN(3) == 0 {
		by = m.TryLock
	}
	if h, _ := w.ask(a, by); h != nil {
		w.use(h, w.length())
	}
}

// firstLimit is the semaphore's before anybody resizes it.
const firstLimit = 4

// agreed is the limit that is in force as far as the callers know.
func (s *schedule) agreed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit
}

func (s *schedule) agree(limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = limit
}

func (w *worker) somePermits() *attempt {
	a := w.attempt(quorumlock.Permits, pool)
	a.Limit = w.agreed()
	a.Permits = 1 + w.rng.IntN(min(3, a.Limit))
	return a
}

func (w *worker) semaphore(o quorumlock.Owner, a *attempt) *quorumlock.Semaphore {
	return quorumlock.NewSemaphore(o, pool, a.Limit, a.options()...)
}

func (w *worker) acquire(o quorumlock.Owner) {
	a := w.somePermits()
	m := w.semaphore(o, a)
	by := m.Acquire
	if w.rng.IntN(3) == 0 {
		by = m.TryAcquire
	}
	h, _ := w.ask(a, func(ctx context.Context) (*quorumlock.Hold, error) { return by(ctx, a.Permits) })
	if h != nil {
		w.use(h, w.length())
	}
}

// resize sets another limit, or has the one that was set forgotten: then the last one that is known goes on, until somebody is told of another.
func (w *worker) resize(o quorumlock.Owner) {
	limit := 2 + w.rng.IntN(4)
	if w.rng.IntN(4) == 0 {
		limit = 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.patience())
	defer cancel()
	c := history.Call{Client: w.name, Lock: pool, Start: time.Now()}
	err := quorumlock.NewSemaphore(o, pool, w.agreed()).Resize(ctx, limit)
	w.history.Resized(done(c), limit, outcomeOf(err))
	if w.expected("resize", err); err == nil && limit != 0 {
		w.agree(limit)
	}
}
