package history

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkReads checks each read by itself: some state of its lock that it can have seen must have stood at some instant of the call. It says whether all
// were possible; whether they are so together is for the linearizability checker.
func (q *queue) checkReads(reads []*read, f *findings) bool {
	good := true
	for _, r := range reads {
		if !q.possible(r) {
			good = false
			f.add(Linearizable, "%s", q.impossible(r))
		}
	}
	return good
}

// state is what the name showed after n changes, and the span in which that may have stood.
func (q *queue) state(n int) (*view, span) {
	v, stood := &q.first, span{ever, never}
	if n > 0 {
		v, stood.from = &q.changes[n-1].after, q.changes[n-1].span().from
	}
	if n < len(q.changes) {
		stood.to = q.changes[n].span().to
	}
	return v, stood
}

func (q *queue) possible(r *read) bool {
	// Both ends of the spans rise, so the states that can have stood during the call are neighbours.
	for n := sort.Search(len(q.changes), func(n int) bool { return q.changes[n].span().to >= r.from }); n <= len(q.changes); n++ {
		v, stood := q.state(n)
		if stood.from > r.to {
			return false
		}
		if v.shows(r) {
			return true
		}
	}
	return false
}

func (q *queue) impossible(r *read) string {
	text := r.String() + fmt.Sprintf("; %q can have shown", q.name)
	for n := 0; n <= len(q.changes); n++ {
		if v, stood := q.state(n); stood.to >= r.from && stood.from <= r.to && !v.between {
			text += " " + v.String()
		}
	}
	return text
}

// span is the instants between which the change was committed.
func (c *change) span() span {
	if c.entry != nil {
		return c.commit
	}
	return span{c.before.commit.from, c.resume.commit.to}
}

// operation is one operation for the checker: a change of what a name shows, or a read.
type operation struct {
	span
	change int // position in queue.changes
	read   *read
}

// operations are the changes and the reads of a name by their begin.
func (q *queue) operations(reads []*read) []operation {
	ops := make([]operation, 0, len(q.changes)+len(reads))
	for i := range q.changes {
		ops = append(ops, operation{span: q.changes[i].span(), change: i})
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

// stepsPerPiece bounds the search in one piece, with the memory that it takes (about 200 bytes a step), however much time there is. A good
// history takes about one or two steps per operation.
const stepsPerPiece = 2_000_000

// search is the search for an order of one piece, from the state after so many changes on.
type search struct {
	queue *queue
	from  int
	steps atomic.Int64 // of the checker's goroutine, which may outlive a timeout
	limit int64
}

// model is the sequential specification of what can be read of a name: the changes come in the order of the log, which the replay has found to obey the rules, so
// that the state is how many there were. When the limit is reached nothing is legal any more, which ends the search.
func (s *search) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return s.from },
		Step: func(state, input, _ any) (bool, any) {
			changes, op := state.(int), input.(*operation)
			if s.steps.Add(1) > s.limit {
				return false, changes
			}
			if op.read == nil {
				return op.change == changes, changes + 1
			}
			v, _ := s.queue.state(changes)
			return v.shows(op.read), changes
		},
	}
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

// linearizable checks a name whose log obeys the rules and whose reads are possible one by one.
func (q *queue) linearizable(reads []*read, deadline time.Time, limit int64, f *findings) {
	at := 0
	for ops := q.operations(reads); len(ops) > 0; {
		var piece []operation
		piece, ops = cut(ops)
		s := &search{queue: q, from: at, limit: limit}
		from, to := piece[0].from, piece[len(piece)-1].from
		switch s.linearize(piece, deadline) {
		case porcupine.Illegal:
			f.add(Linearizable, "%q: no order of the %d operations that began between %v and %v fits", q.name, len(piece), from, to)
		case porcupine.Unknown:
			f.add(Undecided, "%q: %d operations that began between %v and %v", q.name, len(piece), from, to)
		}
		for i := range piece {
			if piece[i].read == nil {
				at++
			}
		}
	}
}
