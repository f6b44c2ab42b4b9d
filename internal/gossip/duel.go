package gossip

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// A server id at two addresses is either an instance that restarted elsewhere while the others still believe in its former
// address, or two live processes: a copied data directory. Neither heartbeats nor clocks can tell, so whoever sees it
// asks: a question goes to both addresses, and only answers given to that question by two different processes
// (different boots) prove a conflict. This process's own life needs no answer.
//
//	question: kind, server id asked about, nonce, record of who asks, its server id
//	answer:   kind, server id, nonce, record of who answers, its server id (the same)
//	hint:     kind, server id, nonce, record of the other process, server id of who found out
const (
	duelQuestion byte = 1
	duelAnswer   byte = 2
	duelHint     byte = 3

	duelEvery   = time.Second      // questions about one server id
	duelFor     = 10 * time.Second // answers to one question count this long
	maxDuels    = 256              // server ids asked about at once
	duelBacklog = 64
)

// duel is one question and who answered it.
type duel struct {
	nonce    uint64
	asked    time.Time
	answered map[string]record // by boot and start
}

// duels asks and judges. Its callers may hold locks of a failure detector, so sending is queued.
type duels struct {
	book   *book
	notify *notifier
	send   func(addr, serverID string, msg []byte) // serverID may be empty: whoever is there
	work   chan func()

	mu   sync.Mutex
	open map[string]*duel
}

func newDuels(b *book, n *notifier) *duels {
	return &duels{book: b, notify: n, work: make(chan func(), duelBacklog), open: map[string]*duel{}}
}

// run does the sending until ctx ends.
func (d *duels) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-d.work:
			f()
		}
	}
}

// queue hands f to run, or drops it: the reason for it comes again as long as it lasts.
func (d *duels) queue(f func()) {
	select {
	case d.work <- f:
	default:
	}
}

// ask puts the question to both claimants of id, at most once per duelEvery.
func (d *duels) ask(id string, claimants ...record) {
	now := time.Now()
	d.mu.Lock()
	q := d.open[id]
	if q != nil && now.Sub(q.asked) < duelEvery {
		d.mu.Unlock()
		return
	}
	maps.DeleteFunc(d.open, func(_ string, q *duel) bool { return now.Sub(q.asked) > duelFor })
	if len(d.open) >= maxDuels {
		d.mu.Unlock()
		return
	}
	q = &duel{nonce: rand.Uint64(), asked: now, answered: map[string]record{}}
	own := d.book.own()
	if id == d.book.id {
		q.answered[processKey(own)] = own
	}
	d.open[id] = q
	d.mu.Unlock()
	for _, c := range claimants {
		if id != d.book.id || !c.sameProcess(own) {
			d.post(c.addr, id, duelQuestion, id, q.nonce, own)
		}
	}
}

// post sends one message to the server id to, which must be at addr.
func (d *duels) post(addr, to string, kind byte, id string, nonce uint64, about record) {
	rec, err := about.encode()
	if err != nil {
		return
	}
	w := wire.NewWriter(nil)
	w.Byte(kind)
	w.String(id)
	w.Uvarint(nonce)
	w.Blob(rec)
	w.String(d.book.id)
	d.queue(func() { d.send(addr, to, w.Bytes()) })
}

// heard takes a message of a peer. Malformed ones are dropped, and those of other clusters.
func (d *duels) heard(b []byte) {
	rd := wire.NewReader(b)
	kind, id, nonce, raw, from := rd.Byte(), rd.String(), rd.Uvarint(), rd.Blob(), rd.String()
	if rd.Done() != nil || len(from) > maxServerID {
		return
	}
	rec, err := decodeRecord(raw)
	if err != nil || d.book.own().admits(rec) != nil {
		return
	}
	switch kind {
	case duelQuestion:
		d.answer(id, nonce, from, rec)
	case duelAnswer:
		if from == id {
			d.judge(id, nonce, rec)
		}
	case duelHint:
		if own := d.book.own(); id == d.book.id && !rec.sameProcess(own) {
			d.ask(id, own, rec)
		}
	}
}

// answer says who is here. If it was asked by another process under the same server id, that one is asked in turn, so that both
// learn of each other.
func (d *duels) answer(id string, nonce uint64, from string, asker record) {
	if id != d.book.id {
		return
	}
	own := d.book.own()
	d.post(asker.addr, from, duelAnswer, id, nonce, own)
	if from == id && !asker.sameProcess(own) {
		d.ask(id, own, asker)
	}
}

// judge counts an answer to the open question.
func (d *duels) judge(id string, nonce uint64, rec record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.open[id]
	if q == nil || q.nonce != nonce || time.Since(q.asked) > duelFor {
		return
	}
	q.answered[processKey(rec)] = rec
	if len(q.answered) < 2 {
		return
	}
	both := slices.Collect(maps.Values(q.answered))
	d.notify.conflict(newConflict(id, both[0], both[1]))
	if id != d.book.id { // the two may never hear of each other by themselves: everybody sends to one of the addresses only
		d.post(both[0].addr, id, duelHint, id, nonce, both[1])
		d.post(both[1].addr, id, duelHint, id, nonce, both[0])
	}
}

func processKey(r record) string { return fmt.Sprintf("%d %s", r.started, r.meta.Boot) }
