package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
)

// The ledger as a fenced resource, and the fields of an append; the grant is in the header.
const (
	resource      = "ledger"
	fieldInstance = "instance"
	fieldSeq      = "seq"
)

// entry is a write that the ledger has accepted.
type entry struct {
	Index    int              `json:"index"` // place in the ledger, from 1
	Token    quorumlock.Token `json:"token"`
	Instance string           `json:"instance"`
	Seq      int              `json:"seq"` // place in the leader's term, from 1
}

// refusal is a write that came too late.
type refusal struct {
	Token    quorumlock.Token `json:"token"`
	Highest  quorumlock.Token `json:"highest"` // the token accepted before, which is why
	Instance string           `json:"instance"`
	Seq      int              `json:"seq"`
}

// errOutOfOrder is a write that does not fit what the ledger has: the writer and the ledger disagree about what was accepted.
var errOutOfOrder = errors.New("write out of order")

// ledger is a fenced resource: it refuses a write whose token is lower than one it has accepted. It lives in memory, which is why
// an in-memory guard is enough; a ledger in a database must judge and write in one transaction there.
type ledger struct {
	guard fence.Guard

	mu      sync.Mutex
	entries []entry
	refused []refusal
	faults  []error       // writes that no correct instance sends
	changed chan struct{} // closed, and replaced, at each change
}

func newLedger() *ledger { return &ledger{changed: make(chan struct{})} }

// append adds a write, or refuses it with a *StaleTokenError. It is for who writes in this process; others use ServeHTTP.
func (l *ledger) append(t quorumlock.Token, instance string, seq int) (int, error) {
	var index int
	ctx := fence.NewContext(context.Background(), fence.Grant{Cluster: "leader-example", Lock: electionName, Token: t})
	err := l.guard.Do(ctx, resource, func(context.Context) error {
		var err error
		index, err = l.add(entry{Token: t, Instance: instance, Seq: seq})
		return err
	})
	l.note(err, instance, seq)
	return index, err
}

// note keeps what the guard refused.
func (l *ledger) note(err error, instance string, seq int) {
	var stale *quorumlock.StaleTokenError
	if errors.As(err, &stale) {
		l.refuse(refusal{Token: stale.Token, Highest: stale.Highest, Instance: instance, Seq: seq})
	}
}

// add checks what a correct leader cannot get wrong: its term's writes follow each other, and nobody else has its token.
func (l *ledger) add(e entry) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	want, owner := 1, e.Instance
	if n := len(l.entries); n > 0 && l.entries[n-1].Token == e.Token {
		want, owner = l.entries[n-1].Seq+1, l.entries[n-1].Instance
	}
	if e.Seq != want || e.Instance != owner {
		fault := fmt.Errorf("%w: %s sent %d under token %v, expected %d of %s",
			errOutOfOrder, e.Instance, e.Seq, e.Token, want, owner)
		l.faults = append(l.faults, fault)
		l.raise()
		return 0, fault
	}
	e.Index = len(l.entries) + 1
	l.entries = append(l.entries, e)
	l.raise()
	return e.Index, nil
}

func (l *ledger) refuse(r refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = append(l.refused, r)
	l.raise()
}

func (l *ledger) raise() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// ledgerView is the ledger at one moment. Entries and refusals are never changed once they are there, so the view shares them.
type ledgerView struct {
	entries []entry
	refused []refusal
	faults  []error
	changed <-chan struct{} // closed when it is out of date
}

func (l *ledger) view() ledgerView {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ledgerView{entries: l.entries, refused: l.refused, faults: l.faults, changed: l.changed}
}

// await waits until done says so of the ledger. When ctx ends first the error is its cause.
func (l *ledger) await(ctx context.Context, done func(ledgerView) bool) error {
	for {
		v := l.view()
		if done(v) {
			return nil
		}
		select {
		case <-v.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// last is the newest entry, zero if there is none.
func (v ledgerView) last() entry {
	if len(v.entries) == 0 {
		return entry{}
	}
	return v.entries[len(v.entries)-1]
}

// term is the writes of one leader under one token.
type term struct {
	Token    quorumlock.Token `json:"token"`
	Instance string           `json:"instance"`
	Accepted int              `json:"accepted"`
}

// terms lists the terms of leadership in the order in which they wrote.
func (v ledgerView) terms() []term {
	list := []term{}
	for _, e := range v.entries {
		if n := len(list); n == 0 || list[n-1].Token != e.Token {
			list = append(list, term{Token: e.Token, Instance: e.Instance})
		}
		list[len(list)-1].Accepted++
	}
	return list
}

// accepted is how many writes were accepted under a token.
func (v ledgerView) accepted(t quorumlock.Token) int {
	n := 0
	for _, e := range v.entries {
		if e.Token == t {
			n++
		}
	}
	return n
}

// refusals is how many writes under a token were refused.
func (v ledgerView) refusals(t quorumlock.Token) int {
	n := 0
	for _, r := range v.refused {
		if r.Token == t {
			n++
		}
	}
	return n
}
