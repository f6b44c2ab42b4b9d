package history

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// record is one record of a history, as data, so that it can be changed before it is played.
type record struct {
	kind     kind
	claim    Claim // Asks
	call     Call
	id       string // of a claim, or an observer of an election
	other    string // Refused: the holder; HandedOver: the node; Proclaimed, Leads: the value
	holders  []string
	token    int64 // or session
	waiting  int   // or limit
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
		default:
			r.play(h)
		}
	}
	return h
}

func (r *record) play(h *History) {
	switch r.kind {
	case kindAsks:
		h.Asks(r.claim)
	case kindAcquired:
		h.Acquired(r.call, r.id, r.token)
	case kindRefused:
		h.Refused(r.call, r.id, r.other)
	case kindFailed:
		h.Failed(r.call, r.id)
	case kindUnlocked:
		h.Unlocked(r.call, r.id, r.outcome)
	case kindHandsOver:
		h.HandsOver(r.id)
	case kindHandedOver:
		h.HandedOver(r.call, r.id, r.other, r.outcome)
	case kindProclaimed:
		h.Proclaimed(r.call, r.id, r.other, r.outcome)
	case kindResized:
		h.Resized(r.call, r.waiting, r.outcome)
	case kindLeads:
		h.Leads(r.id, r.call.Lock, r.token, r.other, r.at)
	case kindInspected:
		h.Inspected(r.call, r.holders, r.waiting)
	case kindSessionOpened:
		h.SessionOpened(r.call, r.token)
	case kindSessionClosed:
		h.SessionClosed(r.call, r.token, r.outcome)
	case kindForcedNow:
		h.ForcedNow(r.token)
	case kindHeld:
		h.Held(r.id, r.at)
	case kindEnded:
		h.Ended(r.id, r.at)
	}
}
