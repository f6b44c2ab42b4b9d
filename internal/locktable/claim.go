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
	if x.quarantine != (Quarantine{}) {
		return Result{Code: CodeQuarantined, Detail: x.quarantine.Wait.String()}
	}
	if code := x.refusal(c); code != CodeNone {
		x.finish(s, c.Seq, OpClaim, code, 0)
		return x.refused(code, c)
	}
	if x.claims.Len()+x.barred >= x.limits.claims {
		return overloaded("too many claims")
	}
	return x.admit(s, c)
}

// refusal is why a new claim is not taken, CodeNone if it is.
func (x *step) refusal(c *Command) Code {
	if _, wrong := x.misused(c.Names, c.Mode); wrong {
		return CodeKind
	}
	if c.Mode == Permits && x.limitAgainst(c) != 0 {
		return CodeLimit
	}
	if c.Try && !x.free(c) {
		return CodeLocked
	}
	return CodeNone
}

// refused tells of a refusal, the first time or again: only its code is remembered, and what stands in the way is told as it is now.
func (x *step) refused(code Code, c *Command) Result {
	switch code {
	case CodeKind:
		name, _ := x.misused(c.Names, c.Mode)
		return Result{Code: code, Detail: name}
	case CodeLimit:
		u, _ := x.semaphore(c.Names[0])
		return Result{Code: code, Limit: u.limit}
	}
	taken := x.taken(c.Names)
	return Result{Code: code, Detail: taken, Blocker: x.blocker(taken), Waiters: x.waiters(taken)}
}

// admit makes the claim. Its create revision is the revision of its first event, and so is the token of a grant at once.
func (x *step) admit(s *session, c *Command) Result {
	made := &claim{
		owner: s.owner, rev: x.counter + 1, pos: x.counter + 1, seq: c.Seq, created: x.wall,
		names: slices.Clone(c.Names), note: c.Note, mode: c.Mode, count: c.Count,
	}
	if c.Value != "" || c.Delay != 0 {
		made.terms = &terms{value: c.Value, delay: c.Delay}
	}
	free := x.free(c)
	if _, used := x.uses.Get(c.Names[0]); c.Mode == Permits && !used {
		x.setUse(c.Names[0], use{mode: Permits, limit: c.Limit})
	}
	if free {
		x.hold(made)
		x.insert(made)
		x.emitGrant(made)
		return Result{Code: CodeGranted, Rev: made.rev, Token: made.token}
	}
	ahead := x.mostWaiters(c.Names)
	x.insert(made)
	x.emitClaim(EventQueued, made, made.note)
	return x.queued(made, ahead)
}

// relink answers a claim that is live: the caller lost its connection or its answer and asks again.
func (x *step) relink(live *claim, c *Command) Result {
	if !live.sameAs(c) {
		return Result{Code: CodeMismatch, Rev: live.rev, Detail: "the sequence is a live claim with other content"}
	}
	return x.standing(live)
}

// standing is how a live claim stands. A hold being drained is not reported as granted, for the time at which its holder must stop has been counting since
// before this request.
func (x *step) standing(live *claim) Result {
	switch {
	case live.drain != nil:
		return Result{Code: CodeDraining, Rev: live.rev, Token: live.token, DrainIndex: live.drain.index}
	case live.grant != 0:
		return Result{Code: CodeGranted, Rev: live.rev, Token: live.token}
	}
	return x.queued(live, x.ahead(live))
}

// sameAs compares what a live claim remembers of its command. Whether it was a Try is not remembered, but a Try never waits. The limit of a semaphore and the
// published value may have changed since.
func (c *claim) sameAs(cmd *Command) bool {
	return c.mode == cmd.Mode && c.note == cmd.Note && c.count == cmd.Count && c.delay() == cmd.Delay &&
		slices.Equal(c.names, cmd.Names) && !(cmd.Try && c.grant == 0)
}

func (x *step) queued(c *claim, ahead int) Result {
	return Result{Code: CodeWaiting, Rev: c.rev, Blocker: x.blocker(c.names...), Ahead: ahead, Waiters: x.mostWaiters(c.names)}
}

// finishedClaim answers a copy of a claim whose sequence is finished.
func (x *step) finishedClaim(f FinishedRecord, c *Command) Result {
	switch {
	case f.Op != OpClaim:
		return Result{Code: CodeMismatch, Detail: "the sequence was not a claim"}
	case f.Code != CodeCancelled && c.Op == OpClaim:
		return x.refused(f.Code, c)
	}
	return Result{Code: f.Code, Token: f.Token}
}

// cancel ends the claim with the command's sequence, whether it waits, is held, or has not arrived yet.
func (x *step) cancel(s *session, c *Command) Result {
	if live := x.claim(s.owner.id, c.Seq); live != nil {
		kind := EventCancelled
		if live.grant != 0 {
			kind = EventReleased
		}
		x.retire(s, live, kind, live.note)
		return Result{Code: CodeCancelled, Token: live.token}
	}
	if f, ok := x.finished.Get(FinishedRecord{Session: s.owner.id, Seq: c.Seq}); ok {
		if f.Op.makesClaim() { // refused: the answer again, but not the token that it had named
			return Result{Code: f.Code}
		}
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

// unlock ends a hold. It has a sequence of its own, so that a repeat can tell "I released it" from "it was gone".
func (x *step) unlock(s *session, c *Command) Result {
	if r, known := x.begun(s, c); known {
		return r
	}
	code := CodeNotHeld
	if h := x.held(s.owner.id, c); h != nil {
		code = CodeReleased
		x.unhold(s, h, c.Barring)
	}
	return x.done(s, c, code)
}

// unhold releases a hold by its owner's word. When that says that the hold ended against its will, the lock delay applies.
func (x *step) unhold(s *session, h *claim, barring bool) {
	if !barring {
		x.retire(s, h, EventReleased, h.note)
		return
	}
	x.finish(s, h.seq, OpClaim, CodeCancelled, h.token)
	if x.fail(h, EventReleased, h.note) {
		x.promote(h.names)
	}
}

// held is the hold that a command names by the sequence of its claim and its token, nil if there is no such hold.
func (x *step) held(id SessionID, c *Command) *claim {
	h := x.claim(id, c.Of)
	if h == nil || h.grant == 0 || h.token != c.Token {
		return nil
	}
	return h
}

// begun answers a request with a sequence of its own, other than a claim, whose sequence is known or may not begin.
func (x *step) begun(s *session, c *Command) (Result, bool) {
	if live := x.claim(s.owner.id, c.Seq); live != nil {
		if c.makesClaim() && live.moved() && live.note == c.Note {
			return x.standing(live), true
		}
		return Result{Code: CodeMismatch, Detail: "the sequence is a live claim"}, true
	}
	if f, ok := x.finished.Get(FinishedRecord{Session: s.owner.id, Seq: c.Seq}); ok {
		return x.repeated(f, c), true
	}
	switch {
	case c.Seq < s.floor:
		return Result{Code: CodeBelowFloor}, true
	case x.full(s, c.Seq):
		return overloaded("too many finished sequences above the floor"), true
	}
	return Result{}, false
}

// repeated answers a copy of a request, other than a claim, that is finished; one that made a claim is finished when that has ended.
func (x *step) repeated(f FinishedRecord, c *Command) Result {
	ended := c.makesClaim() && f.Op == OpClaim && f.Code == CodeCancelled
	switch {
	case !ended && (f.Op != c.Op || f.Token != c.Token):
		return Result{Code: CodeMismatch, Detail: "the sequence was another request"}
	case c.Op == OpResize:
		return x.resized(f.Code, c)
	}
	return Result{Code: f.Code, Token: f.Token}
}

// makesClaim says that the command's sequence becomes that of a claim when it succeeds.
func (c *Command) makesClaim() bool { return c.Op.makesClaim() }

func (o Op) makesClaim() bool { return o == OpDowngrade || o == OpAccept }

// moved says that the claim stands in the place of a hold that it took over.
func (c *claim) moved() bool { return c.pos != c.rev }

// done remembers and gives the answer to a request with a sequence of its own.
func (x *step) done(s *session, c *Command, code Code) Result {
	x.finish(s, c.Seq, c.Op, code, c.Token)
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
