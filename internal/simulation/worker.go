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
	sampling  = 20 * time.Millisecond  // between two looks at what a hold protects
)

// worker makes calls on one instance, whichever node runs there, until the schedule is over.
type worker struct {
	*schedule
	in   *instance
	name string
	rng  *rand.Rand
}

// deed is something that a worker does with a node or a session.
type deed struct {
	weight int
	f      func(*worker, quorumlock.Owner)
}

// deeds are what applications do, as often as the weight says. Mutexes come first: what they show is the simplest to judge.
var deeds = []deed{
	{12, (*worker).lock},
	{6, (*worker).tryLock},
	{6, (*worker).do},
	{6, (*worker).inspectOnce},
	{7, (*worker).readLock},
	{4, (*worker).writeLock},
	{5, (*worker).lockSet},
	{7, (*worker).acquire},
	{1, (*worker).resize},
	{3, (*worker).give},
	{3, (*worker).take},
	{4, (*worker).lead},
}

// once does one of them.
func (w *worker) once(o quorumlock.Owner) {
	all := 0
	for i := range deeds {
		all += deeds[i].weight
	}
	k := w.rng.IntN(all)
	for i := range deeds {
		if k -= deeds[i].weight; k < 0 {
			deeds[i].f(w, o)
			return
		}
	}
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

// inSession uses a session of its own from two goroutines, and closes it at their end or under their hands.
func (w *worker) inSession(n *quorumlock.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c := history.Call{Client: w.name, Start: time.Now()}
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
		c := history.Call{Client: w.name, Start: time.Now()}
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

// length is how long a hold is used.
func (w *worker) length() time.Duration {
	if w.rng.IntN(10) == 0 {
		return time.Duration(w.rng.Int64N(int64(2 * defaultTTL)))
	}
	return time.Duration(w.rng.Int64N(int64(400 * time.Millisecond)))
}

const (
	mostDelay = 3 * time.Second
	mostHold  = 2 * time.Second
)

// attempt is a claim of this worker, some of them with a lock delay or a cap.
func (w *worker) attempt(mode quorumlock.Mode, names ...string) *attempt {
	a := w.claim(w.name, w.in, mode, names...)
	a.bound = w.patience()
	if w.rng.IntN(6) == 0 {
		a.Delay = time.Duration(1+w.rng.IntN(int(mostDelay/time.Millisecond))) * time.Millisecond
	}
	a.MaxHold = w.someCap()
	return a
}

func (w *worker) someCap() time.Duration {
	if w.rng.IntN(6) == 0 {
		return time.Millisecond + time.Duration(w.rng.Int64N(int64(mostHold))) // shorter is refused
	}
	return 0
}

// someLock picks a name; the first ones are the most contended.
func (w *worker) someLock() string { return locks[[]int{0, 0, 0, 1, 1, 2, 3}[w.rng.IntN(7)]] }

// force takes a lock from whoever holds it.
func (w *worker) force(n *quorumlock.Node) {
	name := w.allNames()[w.rng.IntN(len(w.allNames()))]
	info, err := w.inspect(n, w.name, name, 3*time.Second)
	if err != nil {
		w.expected("inspect", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	var last quorumlock.Token
	for _, h := range info.Holders {
		if h.Token == last {
			continue // readers of one phase share it
		}
		last = h.Token
		opt := quorumlock.ForceOptions{Actor: w.name, Reason: "simulation", Now: w.ForceNow && w.rng.IntN(2) == 0}
		if opt.Now {
			w.history.ForcedNow(int64(h.Token))
		}
		w.expected("force release", n.ForceRelease(ctx, name, h.Token, opt))
	}
}

func (w *worker) inspectOnce(quorumlock.Owner) {
	if n := w.node(w.in); n != nil {
		_, err := w.inspect(n, w.name, w.allNames()[w.rng.IntN(len(w.allNames()))], time.Second)
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
	var holders []string
	for _, h := range info.Holders {
		holders = append(holders, h.Note)
	}
	s.history.Inspected(done(c), holders, info.Waiting)
	return info, nil
}

// answers are the errors that a caller of the API may meet; whatever else comes out has leaked from below.
var answers = []error{
	context.DeadlineExceeded, context.Canceled, quorumlock.ErrLocked, quorumlock.ErrLost, quorumlock.ErrUnlocked, quorumlock.ErrClosed,
	quorumlock.ErrNoQuorum, quorumlock.ErrOverloaded, quorumlock.ErrUnsure, quorumlock.ErrFailed, quorumlock.ErrLimit, quorumlock.ErrTicket,
	quorumlock.ErrResigned, quorumlock.ErrNoCandidate,
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
