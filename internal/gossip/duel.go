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
// Who has proof believes in the one that started first, whatever its failure detector says, and never again in the other one. The order is in the records (see
// Options.Started), so all members believe in the same one; it is also the one that is told to go on (see Options.OnConflict).
//
//	question: kind, server id asked about, nonce, record of who asks, its server id
//	answer:   kind, server id, nonce, record of who answers, its server id (the same)
//	hint:     kind, server id, nonce, record of the other process, server id of who found out
const (
	duelQuestion byte = 1
	duelAnswer   byte = 2
	duelHint     byte = 3

	duelEvery   = time.Second            // questions about one server id
	duelSoon    = 100 * time.Millisecond // the same, if a process is among the claimants that was not asked the last time
	duelFor     = 10 * time.Second       // answers to one question count this long
	maxDuels    = 256                    // server ids asked about at once
	duelBacklog = 64
)

// duel is one question and who answered it.
type duel struct {
	nonce    uint64
	asked    time.Time
	whom     []record
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

// run does the sending until ctx ends, and asks again while a dispute lasts: a datagram may be lost, and a claim may come just after a question about another.
func (d *duels) run(ctx context.Context) {
	again := time.NewTimer(duelEvery)
	defer again.Stop()
	armed := true
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-d.work:
			f()
			if !armed {
				again.Reset(duelEvery)
				armed = true
			}
		case <-again.C:
			if armed = d.askAgain(); armed {
				again.Reset(duelEvery)
			}
		}
	}
}

// askAgain says whether there are disputes.
func (d *duels) askAgain() bool {
	list := d.book.disputes()
	for _, q := range list {
		d.ask(q.id, q.known, q.claimant)
	}
	return len(list) > 0
}

// queue hands f to run, or drops it: the reason for it comes again as long as it lasts.
func (d *duels) queue(f func()) {
	select {
	case d.work <- f:
	default:
	}
}

// due says whether the claimants are to be asked now that q is open.
func (q *duel) due(claimants []record, now time.Time) bool {
	fresh := slices.ContainsFunc(claimants, func(c record) bool { return !slices.ContainsFunc(q.whom, c.sameProcess) })
	if fresh {
		return now.Sub(q.asked) >= duelSoon
	}
	return now.Sub(q.asked) >= duelEvery
}

// ask puts the question to both claimants of id, if it is time for it.
func (d *duels) ask(id string, claimants ...record) {
	now := time.Now()
	d.mu.Lock()
	q := d.open[id]
	if q != nil && !q.due(claimants, now) {
		d.mu.Unlock()
		return
	}
	maps.DeleteFunc(d.open, func(_ string, q *duel) bool { return now.Sub(q.asked) > duelFor })
	if len(d.open) >= maxDuels {
		d.mu.Unlock()
		return
	}
	q = &duel{nonce: rand.Uint64(), asked: now, whom: claimants, answered: map[string]record{}}
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
	inOrder := slices.SortedFunc(maps.Values(q.answered), func(x, y record) int {
		if x.before(y) {
			return -1
		}
		return 1
	})
	for _, other := range inOrder[1:] {
		d.settle(id, nonce, inOrder[0], other)
	}
	if d.book.attest(id, inOrder[0], time.Now()) {
		d.notify.change()
	}
}

// settle tells that two live processes use one server id.
func (d *duels) settle(id string, nonce uint64, original, other record) {
	if d.book.settle(id, original, other, time.Now()) {
		d.notify.change()
	}
	d.notify.conflict(newConflict(id, original, other))
	if id != d.book.id { // the two may never hear of each other by themselves: everybody sends to one of the addresses only
		d.post(original.addr, id, duelHint, id, nonce, other)
		d.post(other.addr, id, duelHint, id, nonce, original)
	}
}

func processKey(r record) string { return fmt.Sprintf("%d %s", r.started, r.meta.Boot) }
