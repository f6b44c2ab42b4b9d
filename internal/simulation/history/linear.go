package history

import (
	"cmp"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkReads checks each read by itself: some state of its lock that it can have seen must have stood at some instant of the call. It says whether all
// were possible; whether they are so together is for the linearizability checker.
func (k *lock) checkReads(reads []*read, f *findings) bool {
	good := true
	for _, r := range reads {
		if !k.possible(r) {
			good = false
			f.add(Linearizable, "%s", k.impossible(r))
		}
	}
	return good
}

// state is the lock after n changes, and the span in which it may have stood.
func (k *lock) state(n int) (lockState, span) {
	s, stood := k.first, span{ever, never}
	if n > 0 {
		s, stood.from = k.changes[n-1].after, k.changes[n-1].span().from
	}
	if n < len(k.changes) {
		stood.to = k.changes[n].span().to
	}
	return s, stood
}

func (k *lock) possible(r *read) bool {
	// Both ends of the spans rise, so the states that can have stood during the call are neighbours.
	for n := sort.Search(len(k.changes), func(n int) bool { return k.changes[n].span().to >= r.from }); n <= len(k.changes); n++ {
		s, stood := k.state(n)
		if stood.from > r.to {
			return false
		}
		if s.shows(r) {
			return true
		}
	}
	return false
}

func (k *lock) impossible(r *read) string {
	text := r.String() + "; the lock can have been"
	for n := 0; n <= len(k.changes); n++ {
		if s, stood := k.state(n); stood.to >= r.from && stood.from <= r.to {
			text += " " + s.String()
		}
	}
	return text
}

// span is the instants between which the change was committed.
func (c *change) span() span {
	if c.entry != nil {
		return c.commit
	}
	return span{c.before.commit.from, c.resumed.commit.to}
}

// operation is one operation for the checker: a change of the lock, or a read.
type operation struct {
	span
	change int // position in lock.changes
	read   *read
}

// operations are the changes and the reads of a lock by their begin.
func (k *lock) operations(reads []*read) []operation {
	ops := make([]operation, 0, len(k.changes)+len(reads))
	for i := range k.changes {
		ops = append(ops, operation{span: k.changes[i].span(), change: i})
	}
	for _, r := range reads {
		ops = append(ops, operation{span: r.span, read: r})
	}
	slices.SortStableFunc(ops, func(a, b operation) int { return cmp.Compare(a.from, b.from) })
	return ops
}

// pieceSize is how many operations are checked at once at least. The checker remembers for each state that it met which operations led there, so
// its memory grows with the square of the number.
const pieceSize = 256

// cut takes off a first piece such that all of it is over before the rest begins. A lock is linearizable if its pieces are, one after the
// other, and how far a piece brought the lock is known, for changes come in the order of the log.
func cut(ops []operation) (piece, rest []operation) {
	to := ever
	for i := range ops {
		if i >= pieceSize && ops[i].from > to {
			return ops[:i], ops[i:]
		}
		to = max(to, ops[i].to)
	}
	return ops, nil
}

// progress is the state of the checker: how many changes there were, and the lock after them.
type progress struct {
	changes int
	lock    lockState
}

// stepsPerPiece bounds the search in one piece, with the memory that it takes (about 200 bytes a step), however much time there is. A good
// history takes about one or two steps per operation.
const stepsPerPiece = 2_000_000

// search is the search for an order of one piece.
type search struct {
	lock  *lock
	from  progress
	steps atomic.Int64 // of the checker's goroutine, which may outlive a timeout
	limit int64
}

// model is the sequential specification of a lock: a grant is legal if the lock is free and its token rises, a removal if that
// token holds; and a change must be the next one in the log. When the limit is reached nothing is legal any more, which ends the search.
func (s *search) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return s.from },
		Step: func(state, input, _ any) (bool, any) {
			p, op := state.(progress), input.(*operation)
			if s.steps.Add(1) > s.limit {
				return false, p
			}
			return s.lock.follow(p, op)
		},
	}
}

// follow takes one step of an order.
func (k *lock) follow(p progress, op *operation) (bool, progress) {
	switch {
	case op.read != nil:
		return p.lock.shows(op.read), p
	case op.change != p.changes:
		return false, p
	}
	c := &k.changes[op.change]
	if c.entry == nil {
		return true, progress{p.changes + 1, p.lock.unseen()}
	}
	next, _, problem := p.lock.step(&c.Event, c.promoted)
	return problem == "", progress{p.changes + 1, next}
}

// linearize looks for an order of a piece until the deadline, a zero one being none.
func (s *search) linearize(piece []operation, deadline time.Time) porcupine.CheckResult {
	var left time.Duration // none for the checker too
	if !deadline.IsZero() {
		if left = time.Until(deadline); left <= 0 {
			return porcupine.Unknown
		}
	}
	list := make([]porcupine.Operation, len(piece))
	for i := range piece {
		list[i] = porcupine.Operation{Input: &piece[i], Call: int64(piece[i].from), Return: int64(piece[i].to)}
	}
	result := porcupine.CheckOperationsTimeout(s.model(), list, left)
	if result == porcupine.Illegal && s.steps.Load() > s.limit {
		return porcupine.Unknown
	}
	return result
}

// linearizable checks a lock whose log obeys the rules and whose reads are possible one by one.
func (k *lock) linearizable(reads []*read, deadline time.Time, limit int64, f *findings) {
	at := progress{lock: k.first}
	for ops := k.operations(reads); len(ops) > 0; {
		var piece []operation
		piece, ops = cut(ops)
		s := &search{lock: k, from: at, limit: limit}
		from, to := piece[0].from, piece[len(piece)-1].from
		switch s.linearize(piece, deadline) {
		case porcupine.Illegal:
			f.add(Linearizable, "%q: no order of the %d operations that began between %v and %v fits", k.name, len(piece), from, to)
		case porcupine.Unknown:
			f.add(Undecided, "%q: %d operations that began between %v and %v", k.name, len(piece), from, to)
		}
		at = k.after(at, piece)
	}
}

// after is the lock after a piece.
func (k *lock) after(at progress, piece []operation) progress {
	for i := range piece {
		if piece[i].read == nil {
			at.changes++
		}
	}
	at.lock, _ = k.state(at.changes)
	return at
}
