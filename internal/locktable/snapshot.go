package locktable

import "iter"

// Snapshot is the state as it was when it was taken. It may be read from any goroutine, by several at once, while Apply goes on.
type Snapshot struct{ state }

// Snapshot takes constant time. It belongs to the goroutine that applies: it marks the trees as shared.
func (t *Table) Snapshot() *Snapshot { return &Snapshot{t.share()} }

// Claims are all live claims, by (first name, place).
func (s *Snapshot) Claims() iter.Seq[ClaimRecord] {
	return func(yield func(ClaimRecord) bool) {
		s.queue.Scan(func(e queueEntry) bool {
			if e.name != e.claim.names[0] {
				return true // the claim comes under its first name
			}
			return yield(e.claim.record())
		})
	}
}

// Finished are the remembered answers, by (session, sequence).
func (s *Snapshot) Finished() iter.Seq[FinishedRecord] {
	return func(yield func(FinishedRecord) bool) { s.finished.Scan(yield) }
}

// Lost are the lost holds that sessions have not heard of, by (session, revision).
func (s *Snapshot) Lost() iter.Seq[LostRecord] {
	return func(yield func(LostRecord) bool) { s.lost.Scan(yield) }
}

// Audit are the operators' acts, by revision.
func (s *Snapshot) Audit() iter.Seq[AuditRecord] {
	return func(yield func(AuditRecord) bool) {
		s.audit.Scan(func(_ Rev, a AuditRecord) bool { return yield(a) })
	}
}

// Limits are the limits of the semaphores, by name.
func (s *Snapshot) Limits() iter.Seq[LimitRecord] {
	return func(yield func(LimitRecord) bool) {
		s.uses.Scan(func(name string, u use) bool { return u.mode != Permits || yield(u.record(name)) })
	}
}

func (u use) record(name string) LimitRecord {
	return LimitRecord{Name: name, Limit: u.limit, Former: u.former, Set: u.set}
}

// record shares the claim's names: the reader must not write to them.
func (c *claim) record() ClaimRecord {
	r := ClaimRecord{
		Rev: c.rev, Session: c.owner.id, Seq: c.seq, Names: c.names, Mode: c.mode, Note: c.note,
		Created: c.created, Token: c.token, Granted: c.granted, Pos: c.pos, Grant: c.grant, Count: c.count, Value: c.value(), Delay: c.delay(),
		Barred: c.barred,
	}
	if c.terms != nil {
		r.Offer = c.terms.offer
	}
	if c.barred {
		r.Node, r.NodeName = c.owner.node, c.owner.nodeName
	}
	if d := c.drain; d != nil {
		r.DrainIndex, r.DrainRev, r.DrainNote, r.DrainActor = d.index, d.rev, d.note, d.actor
	}
	return r
}
