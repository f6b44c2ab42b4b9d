package quorumlock

import (
	"container/list"
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/router"
)

// A sequence is a request's number within its session, by which the cluster knows a copy from a new one (docs/design/session.md).

// beginLocked takes the next sequence. It stays open, and the floor at or below it, until answered.
func (s *Session) beginLocked() uint64 {
	s.seq++
	s.open[s.seq] = struct{}{}
	return s.seq
}

// maxAhead bounds how far requests that ask for something run ahead of the floor: half of the answers that the cluster remembers for a session. Releases and withdrawals have the other half.
// One slow request holds the floor down, and without this bound a crowd beside it would be refused, each one withdrawn by a command of its own, and that refused again.
const maxAhead = locktable.MaxFinished / 2

// begin takes the next sequence of a request that asks for something. While there are too many ahead of the floor it waits its turn, at most until ctx ends. Unless it returns an error,
// mu is held afterwards, and at tells when it looked at the lease.
func (s *Session) begin(ctx context.Context, op, name string) (seq uint64, at clock.Reading, err error) {
	s.mu.Lock()
	at = s.node.clock.Now()
	if err := s.errLocked(at); err != nil && err != ErrUnsure {
		s.mu.Unlock()
		return 0, at, err
	}
	if s.line.Len() == 0 && s.roomLocked() {
		return s.beginLocked(), at, nil
	}
	turn := make(chan uint64, 1)
	place := s.line.PushBack(turn)
	s.mu.Unlock()
	select {
	case seq := <-turn:
		s.mu.Lock()
		at = s.node.clock.Now()
		if err := s.errLocked(at); err != nil && err != ErrUnsure {
			s.finishLocked(seq) // nothing was sent
			s.mu.Unlock()
			return 0, at, err
		}
		return seq, at, nil
	case <-s.taking.Done():
	case <-ctx.Done():
	}
	s.leaveLine(place)
	if err := s.Err(); err != nil && err != ErrUnsure {
		return 0, at, err
	}
	return 0, at, s.withQuorum(&WaitError{Op: op, Name: name, Waiting: "many requests of the session have no answer yet", Err: ended(ctx), unsent: true})
}

func (s *Session) roomLocked() bool { return s.seq+1-s.floor < maxAhead }

// admitLocked gives those who wait their turn as much as there is room for.
func (s *Session) admitLocked() {
	for first := s.line.Front(); first != nil && s.roomLocked(); first = s.line.Front() {
		s.line.Remove(first).(chan uint64) <- s.beginLocked()
	}
}

func (s *Session) leaveLine(place *list.Element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case seq := <-place.Value.(chan uint64):
		s.finishLocked(seq) // nothing was sent
	default:
		s.line.Remove(place)
	}
}

// finishLocked notes that a sequence has its first answer. A claim that waits counts as answered: live claims are found whatever the floor
// is, so a long wait does not make the cluster remember everything that was answered after it.
func (s *Session) finishLocked(seq uint64) {
	delete(s.open, seq)
	for s.floor <= s.seq {
		if _, open := s.open[s.floor]; open {
			break
		}
		s.floor++
	}
	s.admitLocked()
}

func (s *Session) finish(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishLocked(seq)
}

// once sends a command under a sequence of its own and waits for the answer, at most until ctx ends or the session takes no requests any more. A
// command without an answer, or that was refused for want of room, is withdrawn, so that no copy of it takes effect later.
func (s *Session) once(ctx context.Context, op, name string, cmd *locktable.Command) (locktable.Result, error) {
	return s.onceThen(ctx, op, name, cmd, func() {})
}

// onceThen is once, and calls over as soon as no copy of the command can take effect any more: at its answer, or after it was withdrawn.
func (s *Session) onceThen(ctx context.Context, op, name string, cmd *locktable.Command, over func()) (locktable.Result, error) {
	seq, c0, err := s.begin(ctx, op, name)
	if err != nil {
		over()
		return locktable.Result{}, err
	}
	cmd.Seq, cmd.Floor = seq, s.floor
	s.mu.Unlock()
	both, stop := s.during(ctx)
	defer stop()
	res, err := s.do(both, c0, op, name, cmd)
	if err == nil && res.Code == locktable.CodeOverloaded {
		err = refusal(op, name, &res)
	}
	if err == nil {
		s.finish(cmd.Seq)
		over()
		return res, nil
	}
	s.withdrawThen(cmd.Seq, name, err, over)
	return res, s.lossOr(ctx, err)
}

// lossOr prefers the session's end over the error that it caused, unless ctx has ended too.
func (s *Session) lossOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if lost := s.Err(); lost != nil && lost != ErrUnsure {
		return lost
	}
	return err
}

// withdraw gives a sequence up that got no answer. If it certainly never left there is nothing to remove in the cluster. Otherwise it is cancelled in the background, until that is
// answered or the session is over: whatever of it is or will be in the cluster is removed, and a copy that arrives later does nothing.
func (s *Session) withdraw(seq uint64, name string, err error) {
	s.withdrawThen(seq, name, err, func() {})
}

// withdrawThen is withdraw, and calls over when that is done.
func (s *Session) withdrawThen(seq uint64, name string, err error, over func()) {
	var wait *WaitError
	if errors.As(err, &wait) && wait.unsent {
		s.finish(seq)
		over()
		return
	}
	s.part(+1)
	started := s.life.Err() == nil && s.node.spawn(func() {
		defer over()
		cmd := locktable.Command{Op: locktable.OpCancel, Seq: seq}
		if _, err := s.persist(s.life, s.node.clock.Now(), "cancel", name, cmd); err == nil {
			s.finish(seq)
			s.part(-1)
			return
		}
		s.forsake(seq, name)
	})
	if !started {
		s.forsake(seq, name)
		over()
	}
}

// forsake cancels a sequence of a session that was lost here and cannot be ended in the cluster yet, since a callback still works under another of its holds: until it
// expires, what waits would be granted to nobody. The cancel does not extend the session. In all other cases the session's end takes everything with it.
func (s *Session) forsake(seq uint64, name string) {
	s.mu.Lock()
	needed := s.life.Err() != nil && s.closing == nil && s.work > 0
	s.mu.Unlock()
	if !needed {
		return
	}
	n := s.node
	n.spawn(func() {
		for n.life.Err() == nil {
			cmd := &locktable.Command{Op: locktable.OpCancel, Session: s.id, Seq: seq, Now: true}
			res, err := n.do(n.life, "cancel", name, cmd, router.Options{})
			if !errors.Is(err, ErrOverloaded) && (err != nil || res.Code != locktable.CodeOverloaded) {
				return
			}
			pause(n.life, persistPause)
		}
	})
}

// part counts what was given up here and may yet be in the cluster.
func (s *Session) part(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parted += by
}

// persist repeats a command until it is answered or ctx ends: neither an overloaded leader nor a session with too many open sequences is a reason to
// leave something behind. Each round is a command of its own with the floor as it is then, under the one sequence.
//
// c0 is a reading of before; each later round reads the clocks anew.
func (s *Session) persist(ctx context.Context, c0 clock.Reading, op, name string, cmd locktable.Command) (locktable.Result, error) {
	for ; ; c0 = s.node.clock.Now() {
		s.mu.Lock()
		cmd.Floor = min(s.floor, cmd.Seq)
		s.mu.Unlock()
		round := cmd
		res, err := s.do(ctx, c0, op, name, &round)
		switch {
		case err != nil && !errors.Is(err, ErrOverloaded):
			return res, err
		case err == nil && res.Code != locktable.CodeOverloaded:
			return res, nil
		}
		if pause(ctx, persistPause); ctx.Err() != nil {
			return res, &WaitError{Op: op, Name: name, Waiting: ErrOverloaded.Error(), Err: ended(ctx)}
		}
	}
}

const persistPause = 200 * time.Millisecond

// during is a context that ends with ctx or when the session takes no requests any more.
func (s *Session) during(ctx context.Context) (context.Context, func()) {
	both, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.taking, cancel)
	return both, func() { stop(); cancel() }
}
