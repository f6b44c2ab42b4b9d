package main

// kindBugs are mistakes in what is special to one kind of lock.
var kindBugs = []bug{
	{
		name: "reader-past-waiting-writer",
		what: "a reader joins the readers that hold although a writer waits: writers starve, and grants are not in turn (I7)",
		edit: edit{
			file: "internal/locktable/queue.go",
			old:  "		return holder == nil || holder.mode == Shared && s.waiters(c.Names[0]) == 0\n",
			new:  "		return holder == nil || holder.mode == Shared\n",
		},
		tests: []string{"internal/locktable", "internal/scenario"},
	},
	{
		name: "reader-token-of-its-own",
		what: "each reader is given a token of its own: the last one's mark on a fenced resource refuses those who hold beside it (I2, I15)",
		edit: edit{
			file: "internal/locktable/queue.go",
			old:  "		c.token = u.token\n",
			new:  "		u.token = c.token // every grant has its own\n",
		},
		tests: []string{"internal/locktable", "internal/scenario"},
	},
	{
		name: "permits-over-limit",
		what: "permits are granted while any is free, however many are wanted (I1)",
		edit: edit{
			file: "internal/locktable/queue.go",
			old:  "func (u use) fits(count uint32) bool { return uint64(u.inUse)+uint64(count) <= uint64(u.limit) }\n",
			new:  "func (u use) fits(count uint32) bool { return count > 0 && u.inUse < u.limit }\n",
		},
		tests: []string{"internal/locktable", "internal/scenario"},
	},
	{
		name: "set-in-part",
		what: "a waiting set is granted when it is the first in line for one of its names (I1)",
		edit: edit{
			file: "internal/locktable/queue.go",
			old:  "	for _, name := range c.names {\n		if s.first(name) != c {\n			return false\n		}\n	}\n	return true\n",
			new:  "	return s.first(c.names[0]) == c // the others follow in the same order\n",
		},
		tests: []string{"internal/locktable", "internal/scenario"},
	},
	{
		name: "downgrade-with-a-gap",
		what: "a downgrade releases and then claims: another writer is granted the lock in between (I1, as the contract of Downgrade)",
		edit: edit{
			file: "internal/locktable/move.go",
			old:  "	next := x.successor(old, s.owner, c)\n	next.mode = Shared\n	x.succeed(s, old, next)\n	x.promote(old.names)\n	return Result{Code: CodeGranted, Rev: next.rev, Token: next.token}\n",
			new: "	x.retire(s, old, EventReleased, old.note)\n" +
				"	return x.admit(s, &Command{Names: old.names, Mode: Shared, Note: c.Note, Seq: c.Seq}) // a claim like any other\n",
		},
		tests: []string{"internal/locktable", "internal/scenario"},
	},
	{
		name: "delay-skipped-on-expiry",
		what: "the lock delay applies to forced releases only: what a dead holder has under way meets its successor (I3, as the contract of Delay)",
		edit: edit{
			file: "internal/locktable/force.go",
			old:  "	if held.delay() == 0 {\n",
			new:  "	if held.delay() == 0 || kind == EventExpired {\n",
		},
		tests: []string{"internal/locktable", "internal/scenario"},
	},
	{
		name: "hand-over-keeps-the-former",
		what: "a hand over grants to the candidate and leaves it to the former leader to unlock (I1)",
		edit: edit{
			file: "internal/locktable/move.go",
			old:  "	next := *chosen\n	x.remove(chosen)\n	next.pos = old.pos\n	x.succeed(s, old, &next)\n",
			new:  "	x.grant(chosen) // the former unlocks by itself\n",
		},
		tests: []string{"internal/locktable", "internal/scenario"},
	},
	{
		name: "transfer-accepted-twice",
		what: "an accepted hold is given to the new session and left with the old one, until that lets go: the ticket stays good (I1, I6)",
		edit: edit{
			file: "internal/locktable/move.go",
			old:  "	from := x.borrow(s, c.From)\n	x.succeed(&from, old, next)\n	x.settle(s, from)\n",
			new: "	next.rev, next.pos = x.counter+1, x.counter+1\n" +
				"	x.hold(next)\n	x.insert(next)\n	x.emitGrant(next)\n",
		},
		tests: []string{"internal/locktable", "internal/scenario"},
	},
	{
		name: "cap-only-in-jeopardy",
		what: "MaxHold is looked at only when renewals fail: a healthy holder keeps its lock for ever (I9, as the contract of MaxHold)",
		edit: edit{
			file: "maxhold.go",
			old:  "	return h.limit != nil && h.limit.state(now) == leaseLost\n",
			new:  "	return h.limit != nil && h.limit.state(now) == leaseLost && h.session().lease.failing(now)\n",
		},
		tests: []string{".", "internal/scenario"},
	},
}
