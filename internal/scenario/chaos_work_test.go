package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
)

// calledLate is how much later than its ctx a call may return.
const calledLate = 100 * time.Millisecond

// work makes calls on one instance, whichever node runs there, until the schedule is over.
func (x *chaos) work(s *spot, rng *rand.Rand) {
	for !closed(x.quit) {
		n := x.node(s)
		if n == nil || s.frozen.Load() {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		switch rng.IntN(12) {
		case 0:
			x.force(n, rng)
		case 1, 2:
			x.inSession(n, s, rng)
		default:
			x.once(n, s, rng)
		}
		time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
	}
}

// inSession uses a session of its own from two goroutines, and closes it at their end or under their hands.
func (x *chaos) inSession(n *quorumlock.Node, s *spot, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	session, err := n.NewSession(ctx, []time.Duration{quorumlock.MinSessionTTL, 7 * time.Second, quorumTTL}[rng.IntN(3)])
	if err != nil {
		x.expected("new session", err)
		return
	}
	var both sync.WaitGroup
	for range 2 {
		sub := rand.New(rand.NewPCG(rng.Uint64(), 0))
		both.Go(func() { x.once(session, s, sub) })
	}
	if rng.IntN(3) == 0 {
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		s.thawed()
	} else {
		both.Wait()
	}
	bound := 2*time.Second + longWork + calledLate // callbacks of Do end soon after their ctx
	x.endsWithin("close of a session", bound, func() {
		x.expected("close session", session.Close())
		s.thawed()
	}, s)
	both.Wait()
}

// longWork is how long a callback goes on at most after its ctx has ended.
const longWork = time.Second

// once takes one lock in one of the three ways.
func (x *chaos) once(o quorumlock.Owner, s *spot, rng *rand.Rand) {
	name := chaosNames[[]int{0, 0, 0, 1, 1, 2}[rng.IntN(6)]]
	m := quorumlock.NewMutex(o, name, quorumlock.Note(fmt.Sprintf("instance %d", s.index)))
	bound := []time.Duration{time.Millisecond, 10 * time.Millisecond, time.Second, 20 * time.Second}[rng.IntN(4)]
	bound = time.Duration(1 + rng.Int64N(int64(bound)))
	length := time.Duration(rng.Int64N(int64(400 * time.Millisecond)))
	if rng.IntN(20) == 0 {
		length = time.Duration(rng.Int64N(int64(15 * time.Second)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	start := time.Now()
	var h *quorumlock.Hold
	var err error
	switch rng.IntN(4) {
	case 0:
		h, err = m.TryLock(ctx)
	case 1:
		x.do(ctx, m, name, s, length, rng.IntN(4) == 0)
		return
	default:
		h, err = m.Lock(ctx)
	}
	if late := time.Since(start) - bound; late > calledLate {
		x.t.Errorf("a lock returned %v after its ctx: %v", late, err)
	}
	if err != nil {
		x.expected("lock", err)
		return
	}
	x.use(h, s, length)
}

// use works under a hold for a while, as long as it is held.
func (x *chaos) use(h *quorumlock.Hold, s *spot, length time.Duration) {
	w := x.ledger.enter(h.Name(), h.Token(), s, func() bool { return h.Err() == nil })
	x.busy(w, length, func() bool { return closed(h.Done()) })
	end := time.Now()
	err := h.Unlock()
	x.expected("unlock", err)
	x.ledger.leave(w, end, err)
}

// do is use by way of Do; a callback that is deaf goes on for a while after its ctx has ended.
func (x *chaos) do(ctx context.Context, m *quorumlock.Mutex, name string, s *spot, length time.Duration, deaf bool) {
	var w *holding
	var end time.Time
	err := m.Do(ctx, func(held context.Context, token quorumlock.Token) error {
		w = x.ledger.enter(name, token, s, func() bool { return held.Err() == nil && !s.drowsy() })
		x.busy(w, length, func() bool { return held.Err() != nil })
		if deaf {
			time.Sleep(longWork)
			s.thawed()
		}
		end = time.Now()
		return nil
	})
	x.expected("do", err)
	if w != nil {
		x.ledger.leave(w, end, err)
	}
}

// busy writes until the time is over or the hold is. Who is frozen does nothing at all.
func (x *chaos) busy(w *holding, length time.Duration, over func() bool) {
	for stop := time.Now().Add(length); time.Now().Before(stop) && !closed(x.quit); time.Sleep(sampling) {
		if w.spot.thawed(); over() {
			return
		}
		x.ledger.write(w)
	}
	w.spot.thawed()
}

// drowsy tells that the instance woke up so lately that contexts need not have ended yet (I9). Err of a Hold reads the clocks itself.
func (s *spot) drowsy() bool { return time.Since(time.Unix(0, s.woke.Load())) < reportBound }

// thawed waits while the instance is frozen.
func (s *spot) thawed() {
	for s.frozen.Load() {
		time.Sleep(time.Millisecond)
	}
}

// force takes a lock from whoever holds it.
func (x *chaos) force(n *quorumlock.Node, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	name := chaosNames[rng.IntN(len(chaosNames))]
	info, err := n.Inspect(ctx, name)
	if err != nil {
		x.expected("inspect", err)
		return
	}
	if len(info.Holders) > 1 {
		x.t.Errorf("%q has %d holders: %v", name, len(info.Holders), info.Holders)
	}
	for _, h := range info.Holders {
		opt := quorumlock.ForceOptions{Actor: "ops", Reason: "chaos", Now: x.now && rng.IntN(2) == 0}
		x.expected("force release", n.ForceRelease(ctx, name, h.Token, opt))
	}
}

// expected fails the test for an error that a caller cannot branch on.
func (x *chaos) expected(op string, err error) {
	if err != nil && (!isOneOf(err, known) || isOneOf(err, raftErrors) || errors.Is(err, quorumlock.ErrClusterChanged)) {
		x.t.Errorf("%s: %T: %v", op, err, err)
	}
}
