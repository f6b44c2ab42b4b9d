package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock"
)

// gift is a hold that somebody gives away.
type gift struct {
	ticket quorumlock.Ticket
	of     *holding
	taken  bool // by somebody, as far as he knows
}

// give locks something and gives it away by a ticket that others find, sometimes two at once. Whoever is left with it takes it back, so that it does not stay for as
// long as the session.
func (w *worker) give(o quorumlock.Owner) {
	h := w.something(o)
	if h == nil {
		return
	}
	w.busy(h, w.length())
	w.leave(h)
	ctx, cancel := context.WithTimeout(context.Background(), w.patience())
	defer cancel()
	ticket, err := h.hold.Transfer(ctx)
	if w.schedule.ended(h, "transfer", err); err != nil {
		return
	}
	p := &gift{ticket: ticket, of: h}
	w.post(p, 1+w.rng.IntN(2))
	w.rest(time.Duration(w.rng.Int64N(int64(2 * time.Second))))
	for n := w.node(w.in); n != nil && n == w.node(w.in) && !w.taken(p); {
		if w.receive(n, p, 5*time.Second); !w.taken(p) {
			time.Sleep(100 * time.Millisecond)
			w.in.thawed()
		}
	}
}

// something is a hold of any kind.
func (w *worker) something(o quorumlock.Owner) (h *holding) {
	switch w.rng.IntN(5) {
	case 0:
		a := w.attempt(quorumlock.Shared, shelf)
		h, _ = w.ask(a, quorumlock.NewRWMutex(o, shelf, a.options()...).RLock)
	case 1:
		a := w.attempt(quorumlock.Exclusive, w.someSet()...)
		h, _ = w.ask(a, quorumlock.NewMultiMutex(o, a.Names...).With(a.options()...).Lock)
	case 2:
		a := w.somePermits()
		h, _ = w.ask(a, func(ctx context.Context) (*quorumlock.Hold, error) { return w.semaphore(o, a).Acquire(ctx, a.Permits) })
	default:
		a := w.attempt(quorumlock.Exclusive, w.someLock())
		h, _ = w.ask(a, quorumlock.NewMutex(o, a.name(), a.options()...).Lock)
	}
	return h
}

// post lets others find the ticket, so many of them.
func (s *schedule) post(p *gift, copies int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range copies {
		s.gifts = append(s.gifts, p)
	}
}

func (s *schedule) taken(p *gift) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.taken
}

// take uses a ticket, waiting a while for one.
func (w *worker) take(o quorumlock.Owner) {
	for range 5 {
		w.mu.Lock()
		var p *gift
		if last := len(w.gifts) - 1; last >= 0 { // the newest, which nobody may have taken yet
			p, w.gifts = w.gifts[last], w.gifts[:last]
		}
		w.mu.Unlock()
		if p != nil {
			w.receive(o, p, w.patience())
			return
		}
		w.rest(200 * time.Millisecond)
	}
}

// receive takes over what a ticket gives, and uses it.
func (w *worker) receive(o quorumlock.Owner, p *gift, bound time.Duration) {
	a := w.claim(w.name, w.in, quorumlock.Mode(p.of.Mode), p.of.Names...)
	a.Permits, a.Limit, a.Delay, a.From = p.of.Permits, p.of.Limit, p.of.Delay, p.of.ID
	a.MaxHold, a.bound = w.someCap(), bound
	h, err := w.ask(a, func(ctx context.Context) (*quorumlock.Hold, error) {
		return quorumlock.Receive(ctx, o, p.ticket, quorumlock.Note(a.ID), quorumlock.MaxHold(a.MaxHold))
	})
	if h != nil || errors.Is(err, quorumlock.ErrTicket) {
		w.mu.Lock()
		p.taken = true
		w.mu.Unlock()
	}
	if h != nil {
		w.use(h, w.length())
	}
}

// lead campaigns, proclaims while it leads, and resigns or hands over.
func (w *worker) lead(o quorumlock.Owner) {
	a := w.attempt(quorumlock.Exclusive, throne)
	a.bound *= 3 // candidates are patient, so that there is somebody to hand over to
	w.history.Asks(a.Claim)
	ctx, cancel := context.WithTimeout(context.Background(), a.bound)
	defer cancel()
	c := a.call()
	e := quorumlock.NewElection(o, throne, a.options()...)
	l, err := e.Campaign(ctx, a.ID)
	if c = done(c); err != nil {
		w.failed(c, a, err)
		return
	}
	h := w.enter(c, a, l.Token(), nil, func() bool { return l.Err() == nil })
	h.ended = l.Done()
	w.busy(h, w.length())
	for range w.rng.IntN(3) {
		w.proclaim(h, l)
	}
	w.abdicate(h, e, l)
}

func (w *worker) proclaim(h *holding, l *quorumlock.Leadership) {
	value := fmt.Sprintf("value %d", w.serial.Add(1))
	ctx, cancel := context.WithTimeout(context.Background(), w.patience())
	defer cancel()
	c := h.call()
	err := l.Proclaim(ctx, value)
	w.history.Proclaimed(done(c), h.ID, value, outcomeOf(err))
	w.expected("proclaim", err)
	w.in.thawed()
	w.look(h)
}

// abdicate ends a leadership: for somebody, or in line.
func (w *worker) abdicate(h *holding, e *quorumlock.Election, l *quorumlock.Leadership) {
	if w.rng.IntN(3) > 0 && w.handThrone(h, e, l) {
		return
	}
	w.leave(h)
	u := h.call()
	err := l.Resign()
	w.history.Unlocked(done(u), h.ID, outcomeOf(err))
	w.schedule.ended(h, "resign", err)
}

// handThrone hands over to some candidate, if one waits; it may have gone away since.
func (w *worker) handThrone(h *holding, e *quorumlock.Election, l *quorumlock.Leadership) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond+w.patience())
	defer cancel()
	list, err := e.Candidates(ctx)
	w.expected("candidates", err)
	if w.in.thawed(); len(list) == 0 {
		return false
	}
	to := list[w.rng.IntN(len(list))].ServerID
	w.history.HandsOver(h.ID)
	c := h.call()
	err = l.HandOver(ctx, to)
	w.schedule.ended(h, "hand over", err)
	if l.Err() == nil {
		w.look(h)
		return false // nobody waits there, and nothing was done
	}
	w.drop(h) // it ended by its own word at some moment of the call
	w.history.HandedOver(done(c), h.ID, to, outcomeOf(err))
	return true
}
