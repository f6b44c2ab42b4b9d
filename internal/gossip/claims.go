package gossip

import "time"

// This file is what the book believes against its failure detector. See duel.go for where the answers come from.

// claim records that rec says of itself to be id, while the failure detector still believes in another address. The later start
// is believed, so a restarted instance is found at once; but not against a process that has just answered for itself, nor if it is known for a copy.
func (b *book) claim(id string, rec record, now time.Time) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.copied(id, rec) {
		return false
	}
	e := b.entries[id]
	if e == nil {
		return b.put(id, &entry{rec: rec, touched: now, claim: &claim{rec, now}})
	}
	if known, alive := e.seen(); alive {
		switch {
		case rec.sameProcess(known):
			if e.claim != nil {
				e.claim.touched = now
			}
			return false
		case rec.before(known), e.alive && now.Sub(e.answered) < provesLife:
			return false
		}
	}
	next := *e
	next.claim = &claim{rec, now}
	return b.put(id, &next)
}

// dispute is a process that claims to be a server id against the failure detector's word.
type dispute struct {
	id              string
	known, claimant record
}

// disputes lists those on which only answers of the two can tell.
func (b *book) disputes() []dispute {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []dispute
	for id, e := range b.entries {
		if e.alive && e.claim != nil {
			list = append(list, dispute{id, e.rec, e.claim.rec})
		}
	}
	return list
}

// attest records that the process rec answered a question, as the first to start of those that did: it lives, and is believed whatever the failure
// detector says. If it is the one that the detector believes in, it has no successor, and whoever claimed to be one is a copy or has the address of another. If it is not, the
// detector's may be a copy that is gone again, and whose death is yet to be noticed.
func (b *book) attest(id string, rec record, now time.Time) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[id]
	if e == nil || b.copied(id, rec) {
		return false
	}
	next := *e
	if e.alive && rec.sameProcess(e.rec) {
		next.answered, next.claim = now, nil
	} else {
		next.claim = &claim{rec, now}
	}
	return b.put(id, &next)
}

// settle records that original and another live process use one server id: the other one is a copy and never believed again. All members
// settle alike, whichever of the two they met first: the order of the two is in their records.
func (b *book) settle(id string, original, other record, now time.Time) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.copies[copyKey(id, other)] = now
	dropOldest(b.copies, maxCopies)
	e := b.entries[id]
	if e == nil {
		return b.put(id, &entry{rec: original, touched: now, claim: &claim{original, now}})
	}
	next := *e
	if next.claim != nil && next.claim.rec.sameProcess(other) {
		next.claim = nil
	}
	if next.rec.sameProcess(other) {
		next.alive, next.rec = false, original // the detector has to find the original first
		next.claim = &claim{original, now}
	}
	return b.put(id, &next)
}

// isCopy tells whether settle has found the process to be a copy.
func (b *book) isCopy(id string, rec record) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.copied(id, rec)
}

// copied is isCopy with the lock held.
func (b *book) copied(id string, rec record) bool {
	_, found := b.copies[copyKey(id, rec)]
	return found
}

func copyKey(id string, rec record) string { return id + " " + processKey(rec) }

// lapse gives up a claim: the detector's word counts again, or if it has none, the claimed address is the last known one.
func (e *entry) lapse() (changed bool) {
	before := *e
	if !e.alive {
		e.rec, e.touched = e.claim.rec, e.claim.touched
	}
	e.claim = nil
	return !e.same(&before)
}
