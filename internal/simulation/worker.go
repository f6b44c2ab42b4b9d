package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/simulation/history"
)

const (
	lateBound = 100 * time.Millisecond // how much later than its ctx a call may return
	deafWork  = time.Second            // how long a callback goes on at most after its ctx has ended
	sampling  = 20 * time.Millisecond  // between two writes under a hold
)

// worker makes calls on one instance, whichever node runs there, until the schedule is over.
type worker struct {
	*schedule
	in   *instance
	name string
	rng  *rand.Rand
}

func (w *worker) run() {
	for !closed(w.quit) {
		n := w.node(w.in)
		if n == nil || w.in.frozen.Load() {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		switch w.rng.IntN(12) {
		case 0:
			w.force(n)
		case 1, 2:
			w.inSession(n)
		default:
			w.once(n)
		}
		w.rest(time.Duration(w.rng.Int64N(int64(2 * w.Think))))
	}
}

// rest sleeps, but not past the end of the schedule.
func (w *worker) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.quit:
	}
}

// sub is a goroutine of a worker.
func (w *worker) sub(k int) *worker {
	return &worker{w.schedule, w.in, fmt.Sprintf("%s/%d", w.name, k), rand.New(rand.NewPCG(w.rng.Uint64(), uint64(k)))}
}

// call begins a call; done ends it.
func (w *worker) call(lock string) history.Call {
	return history.Call{Client: w.name, Lock: lock, Start: time.Now()}
}

func done(c history.Call) history.Call {
	c.End = time.Now()
	return c
}

// inSession uses a session of its own from two goroutines, and closes it at their end or under their hands.
func (w *worker) inSession(n *quorumlock.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c := w.call("")
	session, err := n.NewSession(ctx, []time.Duration{quorumlock.MinSessionTTL, 7 * time.Second, defaultTTL}[w.rng.IntN(3)])
	if err != nil {
		w.expected("new session", err)
		return
	}
	w.history.SessionOpened(done(c), int64(session.ID()))
	var both sync.WaitGroup
	for k := range 2 {
		sub := w.sub(k)
		both.Go(func() { sub.once(session) })
	}
	if w.rng.IntN(3) == 0 {
		time.Sleep(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
		w.in.thawed()
	} else {
		both.Wait()
	}
	bound := 2*time.Second + deafWork + lateBound // callbacks of Do end soon after their ctx
	w.endsWithin("close of a session", bound, func() {
		c := w.call("")
		err := session.Close()
		w.history.SessionClosed(done(c), int64(session.ID()), outcomeOf(err))
		w.expected("close session", err)
		w.in.thawed()
	}, w.in)
	both.Wait()
}

func outcomeOf(err error) history.Outcome {
	switch {
	case err == nil:
		return history.Clean
	case errors.Is(err, quorumlock.ErrLost):
		return history.Lost
	}
	return history.Unknown
}

// patience is how long a call may wait. Half of them are so short that many end while their claim is on the way, or while its grant is.
func (w *worker) patience() time.Duration {
	switch w.rng.IntN(4) {
	case 0, 1:
		return time.Millisecond + time.Duration(w.rng.Int64N(int64(49*time.Millisecond)))
	case 2:
		return time.Duration(1 + w.rng.Int64N(int64(time.Second)))
	}
	return time.Duration(1 + w.rng.Int64N(int64(20*time.Second)))
}

// once takes one lock in one of the three ways.
func (w *worker) once(o quorumlock.Owner) {
	name := locks[[]int{0, 0, 0, 1, 1, 2}[w.rng.IntN(6)]]
	m := quorumlock.NewMutex(o, name, quorumlock.Note(w.name))
	bound := w.patience()
	length := time.Duration(w.rng.Int64N(int64(400 * time.Millisecond)))
	if w.rng.IntN(10) == 0 {
		length = time.Duration(w.rng.Int64N(int64(2 * defaultTTL)))
	}
	way := w.rng.IntN(5)
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	switch way {
	case 0:
		w.do(ctx, m, name, length, w.rng.IntN(4) == 0)
		return
	case 1:
		w.inspectOnce(name)
		return
	}
	c := w.call(name)
	var h *quorumlock.Hold
	var err error
	if way == 2 {
		h, err = m.TryLock(ctx)
	} else {
		h, err = m.Lock(ctx)
	}
	c = done(c)
	if late := c.End.Sub(c.Start) - bound; late > lateBound {
		w.t.Errorf("a lock returned %v after its ctx: %v", late, err)
	}
	if err != nil {
		w.failed(c, err)
		return
	}
	w.use(c, h, w.in, length)
}

// failed notes an acquire that gave no hold.
func (s *schedule) failed(c history.Call, err error) {
	s.expected("lock", err)
	if locked := (*quorumlock.LockedError)(nil); errors.As(err, &locked) {
		s.history.Refused(c, int64(locked.Holder.Token))
		return
	}
	s.history.Failed(c)
}

// use works under a hold for a while, as long as it is held.
func (s *schedule) use(c history.Call, h *quorumlock.Hold, in *instance, length time.Duration) {
	held := s.enter(c, h.Token(), in, length, func() bool { return h.Err() == nil })
	s.busy(held, length, func() bool { return closed(h.Done()) })
	s.leave(held)
	u := history.Call{Client: c.Client, Lock: c.Lock, Start: time.Now()}
	err := h.Unlock()
	s.history.Unlocked(done(u), int64(h.Token()), outcomeOf(err))
	s.expected("unlock", err)
}

// do is use by way of Do; a callback that is deaf goes on for a while after its ctx has ended.
func (w *worker) do(ctx context.Context, m *quorumlock.Mutex, name string, length time.Duration, deaf bool) {
	c := w.call(name)
	var token quorumlock.Token
	var u history.Call
	err := m.Do(ctx, func(held context.Context, t quorumlock.Token) error {
		token = t
		h := w.enter(done(c), t, w.in, length, func() bool { return held.Err() == nil && !w.in.drowsy() })
		w.busy(h, length, func() bool { return held.Err() != nil })
		if deaf {
			time.Sleep(deafWork)
			w.in.thawed()
		}
		w.leave(h)
		u = w.call(name)
		return nil
	})
	if token == 0 {
		w.failed(done(c), err)
		return
	}
	w.history.Unlocked(done(u), int64(token), outcomeOf(err))
	w.expected("do", err)
}

// busy writes until the time is over or the hold is. Who is frozen does nothing at all.
func (s *schedule) busy(h *holding, length time.Duration, over func() bool) {
	for stop := time.Now().Add(length); time.Now().Before(stop) && !closed(s.quit); {
		if h.in.thawed(); over() {
			return
		}
		s.update(h)
	}
	h.in.thawed()
}

// update reads what the lock protects and writes it back a while later. Whoever is held must not be refused.
func (s *schedule) update(h *holding) {
	held := s.ask(h)
	seen := s.store.read(h.name, h.token)
	time.Sleep(sampling)
	h.in.thawed()
	if seen.refusal == nil {
		held = s.ask(h)
	}
	switch err := s.store.write(h.name, h.token, seen); {
	case err == nil:
	case !errors.Is(err, quorumlock.ErrStaleToken):
		s.t.Error(err)
	case held && !s.overlapsAllowed() && !h.refused:
		h.refused = true
		s.t.Errorf("%v: %q: the fence refused %v, which was held on instance %d: %v", time.Since(s.started), h.name, h.token, h.in.index, err)
	}
}

// overlapsAllowed: beyond A3, and where somebody takes locks by force at once, a holder may be the last to know.
func (s *schedule) overlapsAllowed() bool { return s.Wild || s.ForceNow }

// force takes a lock from whoever holds it.
func (w *worker) force(n *quorumlock.Node) {
	name := locks[w.rng.IntN(len(locks))]
	info, err := w.inspect(n, w.name, name, 3*time.Second)
	if err != nil {
		w.expected("inspect", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for _, h := range info.Holders {
		opt := quorumlock.ForceOptions{Actor: w.name, Reason: "simulation", Now: w.ForceNow && w.rng.IntN(2) == 0}
		if opt.Now {
			w.history.ForcedNow(int64(h.Token))
		}
		w.expected("force release", n.ForceRelease(ctx, name, h.Token, opt))
	}
}

func (w *worker) inspectOnce(name string) {
	if n := w.node(w.in); n != nil {
		_, err := w.inspect(n, w.name, name, time.Second)
		w.expected("inspect", err)
	}
}

// inspect notes what a linearizable read shows.
func (s *schedule) inspect(n *quorumlock.Node, client, name string, bound time.Duration) (quorumlock.LockInfo, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	c := history.Call{Client: client, Lock: name, Start: time.Now()}
	info, err := n.Inspect(ctx, name)
	if err != nil {
		return info, err
	}
	var holder quorumlock.Token
	if len(info.Holders) > 0 {
		holder = info.Holders[0].Token
	}
	if len(info.Holders) > 1 {
		s.t.Errorf("%q has %d holders: %v", name, len(info.Holders), info.Holders)
	}
	s.history.Inspected(done(c), int64(holder), info.Waiting)
	return info, nil
}

// lockAtTheEnd takes a lock when all is well; a session that was out of touch for too long is replaced by the next call.
func (s *schedule) lockAtTheEnd(in *instance, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), liveBound)
	defer cancel()
	m := quorumlock.NewMutex(in.node, name, quorumlock.Note("the end"))
	for {
		c := history.Call{Client: fmt.Sprintf("%d/the end", in.index), Lock: name, Start: time.Now()}
		h, err := m.Lock(ctx)
		if err == nil {
			s.use(done(c), h, in, 0)
			return
		}
		s.failed(done(c), err)
		if !errors.Is(err, quorumlock.ErrLost) {
			s.t.Errorf("instance %d, %v after all is well, lock %q: %v (node: %v)", in.index, liveBound, name, err, in.node.Err())
			return
		}
	}
}

// answers are the errors that a caller of the API may meet; whatever else comes out has leaked from below.
var answers = []error{
	context.DeadlineExceeded, context.Canceled, quorumlock.ErrLocked, quorumlock.ErrLost, quorumlock.ErrUnlocked, quorumlock.ErrClosed,
	quorumlock.ErrNoQuorum, quorumlock.ErrOverloaded, quorumlock.ErrUnsure, quorumlock.ErrFailed,
}

// expected fails the test for an error that a caller cannot branch on.
func (s *schedule) expected(op string, err error) {
	if err == nil {
		return
	}
	for _, one := range answers {
		if errors.Is(err, one) && !errors.Is(err, quorumlock.ErrClusterChanged) {
			return
		}
	}
	s.t.Errorf("%s: %T: %v", op, err, err)
}
