package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// record is one record of a history, as data, so that it can be changed before it is played.
type record struct {
	kind     kind
	call     Call
	token    int64 // or session
	waiting  int
	outcome  Outcome
	at       time.Time
	observer int
	event    watch.Event
}

// play records a tape.
func play(tape []record) *History {
	h := New(epoch)
	var watchers []*Observer
	for _, r := range tape {
		switch r.kind {
		case kindObserver:
			watchers = append(watchers, h.Observer(fmt.Sprint("n", r.observer)))
		case kindEvent:
			watchers[r.observer].Event(r.event, r.at)
		case kindAcquired:
			h.Acquired(r.call, r.token)
		case kindRefused:
			h.Refused(r.call, r.token)
		case kindFailed:
			h.Failed(r.call)
		case kindUnlocked:
			h.Unlocked(r.call, r.token, r.outcome)
		case kindInspected:
			h.Inspected(r.call, r.token, r.waiting)
		case kindSessionOpened:
			h.SessionOpened(r.call, r.token)
		case kindSessionClosed:
			h.SessionClosed(r.call, r.token, r.outcome)
		case kindForcedNow:
			h.ForcedNow(r.token)
		case kindHeld:
			h.Held(r.token, r.at)
		case kindEnded:
			h.Ended(r.token, r.at)
		}
	}
	return h
}

// world is a sequential lock service with clients, made of chance: each command is applied at an instant, calls begin before and end after it, and
// observers see it a while later. What it records is right by construction.
type world struct {
	rng      *rand.Rand
	now      time.Time
	rev      int64
	index    uint64
	sessions []int64
	locks    []*worldLock
	shown    [3]time.Time // how far each observer is
	tape     []record
}

type worldLock struct {
	name  string
	hold  *worldHold
	queue []worldClaim
}

type worldClaim struct {
	session int64
	start   time.Time
}

type worldHold struct {
	token, session int64
	given          time.Time // when its caller got it
	orphan         bool      // its caller had given up
	drained        bool
}

// newWorld's locks are used less the later they come.
func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), now: ms(50), rev: 1_000_000, index: 7}
	for _, name := range []string{"hot", "warm", "cool"} {
		w.locks = append(w.locks, &worldLock{name: name})
	}
	for i := range w.shown {
		w.tape = append(w.tape, record{kind: kindObserver, observer: i})
	}
	return w
}

// generate is a tape of some commands.
func generate(seed uint64, commands int) []record {
	w := newWorld(seed)
	for range commands {
		w.command()
	}
	return w.tape
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d) + 1)) }

const jitter = 5 * time.Millisecond

// around is a call that was applied now.
func (w *world) around(lock string, notBefore time.Time) Call {
	start := w.now.Add(-w.upTo(jitter))
	if start.Before(notBefore) {
		start = notBefore
	}
	return Call{Client: "c", Lock: lock, Start: start, End: w.now.Add(w.upTo(jitter))}
}

func (w *world) note(r record) { w.tape = append(w.tape, r) }

// emit shows an event to all observers, to each at its own time.
func (w *world) emit(kind watch.Kind, lock string, token, session int64, note string) int64 {
	w.rev++
	e := watch.Event{Rev: w.rev, Kind: kind, Name: lock, Token: token, Session: session, NodeID: "n", Index: w.index, Time: w.now, Note: note}
	switch kind {
	case watch.SessionOpened:
		e.Session = e.Rev
	case watch.Granted:
		e.Token = e.Rev
	}
	for i := range w.shown {
		if at := w.now.Add(w.upTo(jitter)); at.After(w.shown[i]) {
			w.shown[i] = at
		}
		w.note(record{kind: kindEvent, observer: i, event: e, at: w.shown[i]})
	}
	return e.Rev
}

func (w *world) command() {
	if w.rng.IntN(4) > 0 { // some commands share an instant, and an entry
		w.now = w.now.Add(w.upTo(2 * time.Millisecond))
		w.index++
	}
	if len(w.sessions) == 0 {
		w.open()
		return
	}
	lock := w.locks[[]int{0, 0, 0, 0, 0, 1, 1, 1, 2}[w.rng.IntN(9)]]
	switch p := w.rng.IntN(100); {
	case p < 2 && len(w.sessions) < 8:
		w.open()
	case p < 3:
		w.end(watch.SessionExpired, watch.Expired)
	case p < 4:
		w.end(watch.SessionClosed, watch.Released)
	case p < 35:
		w.claim(lock)
	case p < 38:
		w.cancel(lock)
	case p < 42:
		w.force(lock)
	case p < 60:
		w.inspect(lock)
	default:
		w.unlock(lock)
	}
}

func (w *world) open() {
	id := w.emit(watch.SessionOpened, "", 0, 0, "")
	w.sessions = append(w.sessions, id)
	w.note(record{kind: kindSessionOpened, call: w.around("", epoch), token: id})
}

func (w *world) claim(l *worldLock) {
	session := w.sessions[w.rng.IntN(len(w.sessions))]
	c := w.around(l.name, epoch)
	switch {
	case l.hold == nil:
		w.grant(l, worldClaim{session, c.Start})
	case w.rng.IntN(3) == 0:
		holder := l.hold.token
		if w.rng.IntN(20) == 0 {
			holder = 0
		}
		w.note(record{kind: kindRefused, call: c, token: holder})
	case len(l.queue) < 6:
		l.queue = append(l.queue, worldClaim{session, c.Start})
		w.emit(watch.Queued, l.name, 0, session, "")
	}
}

func (w *world) grant(l *worldLock, c worldClaim) {
	l.hold = &worldHold{token: w.emit(watch.Granted, l.name, 0, c.session, ""), session: c.session, orphan: w.rng.IntN(10) == 0}
	call := Call{Client: "c", Lock: l.name, Start: c.start, End: w.now.Add(w.upTo(jitter))}
	l.hold.given = call.End
	if l.hold.orphan {
		w.note(record{kind: kindFailed, call: call})
		return
	}
	w.note(record{kind: kindAcquired, call: call, token: l.hold.token})
	w.note(record{kind: kindHeld, token: l.hold.token, at: call.End})
}

// pass promotes the next.
func (w *world) pass(l *worldLock) {
	l.hold = nil
	if len(l.queue) > 0 {
		c := l.queue[0]
		l.queue = l.queue[1:]
		w.grant(l, c)
	}
}

func (w *world) unlock(l *worldLock) {
	h := l.hold
	if h == nil || h.given.After(w.now) {
		return
	}
	c := w.around(l.name, h.given)
	if !h.orphan {
		w.note(record{kind: kindHeld, token: h.token, at: c.Start})
		w.note(record{kind: kindEnded, token: h.token, at: c.Start})
		o := []Outcome{Clean, Clean, Clean, Unknown, Lost}[w.rng.IntN(5)]
		w.note(record{kind: kindUnlocked, call: c, token: h.token, outcome: o})
	}
	w.emit(watch.Released, l.name, h.token, h.session, "")
	w.pass(l)
}

func (w *world) cancel(l *worldLock) {
	if len(l.queue) == 0 {
		return
	}
	i := w.rng.IntN(len(l.queue))
	c := l.queue[i]
	l.queue = slices.Delete(l.queue, i, i+1)
	w.note(record{kind: kindFailed, call: Call{Client: "c", Lock: l.name, Start: c.start, End: w.now}})
	w.emit(watch.Cancelled, l.name, 0, c.session, "")
}

func (w *world) force(l *worldLock) {
	h := l.hold
	switch {
	case h == nil:
	case !h.drained && w.rng.IntN(2) == 0:
		h.drained = true
		w.emit(watch.Draining, l.name, h.token, h.session, "stuck")
	case h.drained && w.rng.IntN(2) == 0:
		w.wait() // a drain takes longer than any call
		w.emit(watch.Forced, l.name, h.token, h.session, "stuck")
		w.pass(l)
	default:
		w.note(record{kind: kindForcedNow, token: h.token})
		w.emit(watch.Forced, l.name, h.token, h.session, "stuck")
		w.note(record{kind: kindHeld, token: h.token, at: w.now.Add(w.upTo(jitter))}) // the last to know
		w.pass(l)
	}
}

// wait lets all end that has begun.
func (w *world) wait() {
	w.now = w.now.Add(2 * jitter)
	w.index++
}

func (w *world) inspect(l *worldLock) {
	r := record{kind: kindInspected, call: w.around(l.name, epoch), waiting: len(l.queue)}
	if l.hold != nil {
		r.token = l.hold.token
	}
	w.note(r)
}

// end ends a session with all it has, when no call under it is left that has not returned.
func (w *world) end(kind, holds watch.Kind) {
	i := w.rng.IntN(len(w.sessions))
	id := w.sessions[i]
	w.sessions = slices.Delete(w.sessions, i, i+1)
	w.wait()
	w.emit(kind, "", 0, id, "")
	var free []*worldLock
	for _, l := range w.locks {
		for _, c := range l.queue {
			if c.session == id {
				w.emit(watch.Cancelled, l.name, 0, id, "")
			}
		}
		l.queue = slices.DeleteFunc(l.queue, func(c worldClaim) bool { return c.session == id })
		if h := l.hold; h != nil && h.session == id {
			w.emit(holds, l.name, h.token, id, "")
			free = append(free, l)
			if !h.orphan {
				w.note(record{kind: kindUnlocked, call: Call{Lock: l.name, Start: w.now.Add(time.Second), End: w.now.Add(time.Second)}, token: h.token, outcome: Lost})
			}
		}
	}
	for _, l := range free {
		w.pass(l)
	}
	if kind == watch.SessionClosed {
		w.note(record{kind: kindSessionClosed, call: w.around("", epoch), token: id, outcome: Clean})
	}
}
