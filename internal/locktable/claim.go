package locktable

import "slices"

// enqueue applies a claim: a sequence that is known gets its answer again, a new one is granted, queued or refused.
func (x *step) enqueue(s *session, c *Command) Result {
	if live := x.claim(s.owner.id, c.Seq); live != nil {
		return x.relink(live, c)
	}
	if f, ok := x.finished.Get(FinishedRecord{Session: s.owner.id, Seq: c.Seq}); ok {
		return x.finishedClaim(f, c)
	}
	if c.Seq < s.floor {
		return Result{Code: CodeBelowFloor}
	}
	if x.full(s, c.Seq) {
		return overloaded("too many finished sequences above the floor")
	}
	if c.Try && !x.free(c.Names) {
		x.finish(s, c.Seq, OpClaim, CodeLocked, 0)
		return x.locked(c.Names)
	}
	if x.claims.Len() >= x.limits.claims {
		return overloaded("too many claims")
	}
	return x.admit(s, c)
}

// admit makes the claim. Its create revision is the revision of its first event, and so is the token of a grant at once.
func (x *step) admit(s *session, c *Command) Result {
	made := &claim{
		owner: s.owner, rev: x.counter + 1, seq: c.Seq, created: x.wall,
		names: slices.Clone(c.Names), note: c.Note, mode: c.Mode,
	}
	if x.free(c.Names) {
		made.token, made.granted = Token(made.rev), x.wall
		x.insert(made)
		x.emitClaim(EventGranted, made, made.note)
		return Result{Code: CodeGranted, Rev: made.rev, Token: made.token}
	}
	ahead := x.mostWaiters(c.Names)
	x.insert(made)
	x.emitClaim(EventQueued, made, made.note)
	return x.queued(made, ahead)
}

// relink answers a claim that is live: the caller lost its connection or its answer and asks again. A hold being drained is not
// reported as granted, for the time at which its holder must stop has been counting since before this request.
func (x *step) relink(live *claim, c *Command) Result {
	switch {
	case !live.sameAs(c):
		return Result{Code: CodeMismatch, Rev: live.rev, Detail: "the sequence is a live claim with other content"}
	case live.drain != nil:
		return Result{Code: CodeDraining, Rev: live.rev, Token: live.token, DrainIndex: live.drain.index}
	case live.token != 0:
		return Result{Code: CodeGranted, Rev: live.rev, Token: live.token}
	}
	return x.queued(live, x.ahead(live))
}

// sameAs compares what a live claim remembers of its command. Whether it was a Try is not remembered, but a Try never waits.
func (c *claim) sameAs(cmd *Command) bool {
	return c.mode == cmd.Mode && c.note == cmd.Note && slices.Equal(c.names, cmd.Names) && !(cmd.Try && c.token == 0)
}

func (x *step) queued(c *claim, ahead int) Result {
	return Result{Code: CodeWaiting, Rev: c.rev, Blocker: x.blocker(c.names), Ahead: ahead, Waiters: x.waiters(c.names[0])}
}

func (x *step) locked(names []string) Result {
	return Result{Code: CodeLocked, Blocker: x.blocker(names), Waiters: x.waiters(names[0])}
}

// finishedClaim answers a copy of a claim whose sequence is finished. Only the code and the token are remembered; the blocker of a refused
// Try is whoever holds the lock now.
func (x *step) finishedClaim(f FinishedRecord, c *Command) Result {
	switch {
	case f.Op != OpClaim:
		return Result{Code: CodeMismatch, Detail: "the sequence was not a claim"}
	case f.Code == CodeLocked && c.Op == OpClaim:
		return x.locked(c.Names)
	}
	return Result{Code: f.Code, Token: f.Token}
}

// cancel ends the claim with the command's sequence, whether it waits, is held, or has not arrived yet.
func (x *step) cancel(s *session, c *Command) Result {
	if live := x.claim(s.owner.id, c.Seq); live != nil {
		kind := EventCancelled
		if live.token != 0 {
			kind = EventReleased
		}
		x.retire(s, live, kind, live.note)
		return Result{Code: CodeCancelled, Token: live.token}
	}
	if f, ok := x.finished.Get(FinishedRecord{Session: s.owner.id, Seq: c.Seq}); ok {
		return x.finishedClaim(f, c)
	}
	if c.Seq < s.floor {
		return Result{Code: CodeCancelled}
	}
	if x.full(s, c.Seq) {
		return overloaded("too many finished sequences above the floor")
	}
	x.finish(s, c.Seq, OpClaim, CodeCancelled, 0)
	return Result{Code: CodeCancelled}
}

// unlock ends a hold by its token. It has a sequence of its own, so that a repeat can tell "I released it" from "it was gone".
func (x *step) unlock(s *session, c *Command) Result {
	if x.claim(s.owner.id, c.Seq) != nil {
		return Result{Code: CodeMismatch, Detail: "the sequence is a live claim"}
	}
	if f, ok := x.finished.Get(FinishedRecord{Session: s.owner.id, Seq: c.Seq}); ok {
		if f.Op != OpUnlock || f.Token != c.Token {
			return Result{Code: CodeMismatch, Detail: "the sequence was another request"}
		}
		return Result{Code: f.Code, Token: f.Token}
	}
	if c.Seq < s.floor {
		return Result{Code: CodeBelowFloor}
	}
	if x.full(s, c.Seq) {
		return overloaded("too many finished sequences above the floor")
	}
	code := CodeNotHeld
	if h, ok := x.holds.Get(holdEntry{session: s.owner.id, token: c.Token}); ok {
		code = CodeReleased
		x.retire(s, h.claim, EventReleased, h.claim.note)
	}
	x.finish(s, c.Seq, OpUnlock, code, c.Token)
	return Result{Code: code, Token: c.Token}
}

// retire releases a live claim of a session that lives on, finishes its sequence, and promotes. A late copy of the claim is answered CodeCancelled, with
// the token if it ever had one.
func (x *step) retire(s *session, c *claim, kind EventKind, note string) Rev {
	rev := x.release(c, kind, note)
	x.finish(s, c.seq, OpClaim, CodeCancelled, c.token)
	x.promote(c.names)
	return rev
}
