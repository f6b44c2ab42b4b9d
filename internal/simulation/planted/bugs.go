package main

import "slices"

// bug is one mistake as somebody might really make it: late in the day, with a reason that sounds good.
type bug struct {
	name  string
	what  string // what is wrong and which guarantees of the contract it breaks
	edit  edit
	tests []string // folders whose tests lie nearest
	// pure is a bug of a part that clusters do not run, or run through another door: its own tests come first.
	pure bool
	// waits says which other form of the bug needs a part that does not exist yet; "" if this is all of it.
	waits string
}

// bugs are the ones that the bench must find. Where an edit stops applying because the code around it has changed, the same mistake is to be made in
// the new code; a bug is not taken out because it is hard to find.
var bugs = slices.Concat(commonBugs, kindBugs)

// commonBugs are mistakes in what all kinds of locks rest on.
var commonBugs = []bug{
	{
		name: "deadline-from-reply",
		what: "a lease is counted from the answer instead of from before the renewal was queued (I3)",
		edit: edit{
			file: "renewals.go",
			old:  "	noQuorum := errors.Is(err, ErrNoQuorum)\n",
			new:  "	noQuorum := errors.Is(err, ErrNoQuorum)\n	c0 = n.clock.Now()\n",
		},
		tests: []string{".", "internal/scenario"},
	},
	{
		name: "expiry-without-cas",
		what: "an expiry does not look whether the session renewed since it was decided (I3)",
		edit: edit{
			file: "internal/locktable/session.go",
			old:  "case c.Term != x.term || c.RenewIndex != s.renewIndex:",
			new:  "case c.Term != x.term:",
		},
		tests: []string{"internal/locktable", "internal/scenario"},
	},
	{
		name: "renewal-without-log",
		what: "a leader acknowledges renewals at once and lets the entry follow: a deposed one keeps holders believing, and drains go unheard (I3)",
		edit: edit{
			file: "renewals.go",
			old:  "	results, err := l.batch.RenewAll(ctx, cmds)\n",
			new: "	n.spawn(func() { _, _ = l.batch.RenewAll(n.life, cmds) }) // nobody has to wait for the disk for that\n" +
				"	results, err := make([]locktable.Result, len(cmds)), error(nil)\n	for i, c := range cmds {\n" +
				"		results[i] = locktable.Result{Code: locktable.CodeOK, Session: c.Session, Renewed: true}\n	}\n",
		},
		tests: []string{".", "internal/scenario"},
	},
	{
		name: "unlock-without-token",
		what: "an unlock releases the session's first hold, not the grant it names (I6)",
		edit: edit{
			file: "internal/locktable/claim.go",
			old:  "	if h := x.held(s.owner.id, c); h != nil {\n		code = CodeReleased\n",
			new: "	var h *claim\n" +
				"	x.holds.Ascend(holdEntry{session: s.owner.id}, func(e holdEntry) bool { h = e.claim; return false })\n" +
				"	if h != nil && h.owner.id == s.owner.id {\n		code = CodeReleased\n",
		},
		tests: []string{"internal/locktable", "internal/scenario"},
	},
	{
		name: "retry-without-sequence",
		what: "a retry is a request of its own: what the lost answer was about takes effect twice (I2, I6)",
		edit: edit{
			file: "internal/router/trip.go",
			old:  "	a := t.router.try(ctx, to, t.load, t.opt.Attempt)\n",
			new: "	cmd := *t.load.cmd\n	if t.sent && cmd.Seq != 0 {\n		cmd.Seq++ // a new try, a new request\n	}\n" +
				"	a := t.router.try(ctx, to, load{cmd: &cmd}, t.opt.Attempt)\n",
		},
		tests: []string{"internal/router", "internal/scenario"},
	},
	{
		name: "no-tombstone-on-cancel",
		what: "a cancel that overtakes its claim leaves nothing behind, so the claim arrives and is granted to nobody (I4)",
		edit: edit{
			file: "internal/locktable/claim.go",
			old:  "	x.finish(s, c.Seq, OpClaim, CodeCancelled, 0)\n	return Result{Code: CodeCancelled}\n",
			new:  "	return Result{Code: CodeCancelled} // there is nothing to cancel\n",
		},
		tests: []string{"internal/locktable", "internal/scenario"},
	},
	{
		name: "restore-keeps-counter",
		what: "a cluster that lost everything and is founded anew counts from the start: its tokens lie below the old ones (I2)",
		edit: edit{
			file: "leader.go",
			old:  "				Rev: locktable.Rev(l.node.clock.Now().Wall.UnixMicro()),\n",
			new:  "				Rev: 1,\n",
		},
		tests: []string{".", "internal/scenario"},
		waits: "a restore from backup that keeps the backup's counter waits for backups",
	},
	{
		name: "fence-check-outside-transaction",
		what: "the fence judges a token and writes in two steps: a stale write can end after a newer one has begun (I15)",
		edit: edit{
			file: "fence/guard.go",
			old:  "	defer e.leave()\n	if err := g.accept(resource, e, grant); err != nil {\n		return err\n	}\n	return write(ctx)\n",
			new: "	err = g.accept(resource, e, grant)\n	e.leave() // no turn is held while foreign code runs\n" +
				"	if err != nil {\n		return err\n	}\n	return write(ctx)\n",
		},
		tests: []string{"fence", "internal/scenario"},
		pure:  true,
	},
	{
		name: "fence-check-outside-transaction-in-postgres",
		what: "the claim of a resource commits before the write begins: a stale write can end after a newer one (I15)",
		edit: edit{
			file: "fence/pgfence/tx.go",
			old:  "	if err := c.claim(ctx, tx, resource); err != nil {\n		return false, err\n	}\n",
			new: "	check, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: c.isolation})\n	if err != nil {\n		return false, err\n	}\n" +
				"	if err := errors.Join(c.claim(ctx, check, resource), check.Commit()); err != nil {\n		_ = check.Rollback()\n		return false, err\n	}\n",
		},
		tests: []string{"fence/pgfence/pgtest"}, // skipped, so blind, where no PostgreSQL is installed
		pure:  true,
	},
	{
		name: "map-order-in-expiry",
		what: "the names that a dead session frees are gone through as a map: members grant in different orders (I10)",
		edit: edit{
			file: "internal/locktable/session.go",
			old:  "	slices.Sort(names)\n	x.promote(slices.Compact(names))\n",
			new: "	freed := make(map[string]bool, len(names))\n	for _, name := range slices.Clone(names) {\n		freed[name] = true\n	}\n" +
				"	for name := range freed { // each once\n		x.promote([]string{name})\n	}\n",
		},
		tests: []string{"internal/locktable", "internal/scenario"},
	},
	{
		name: "swallowed-fsync-error",
		what: "a write to the log that failed is taken for done unless the store is closed: entries are acknowledged that are not there (I5, I11)",
		edit: edit{
			file: "internal/store/logs.go",
			old:  "	if err := l.base.StoreLogs(sealed); err != nil {\n",
			new:  "	if err := l.base.StoreLogs(sealed); errors.Is(err, ErrClosed) || errors.Is(err, ErrCrashed) {\n",
		},
		tests: []string{"internal/store", "internal/scenario"},
	},
	{
		name: "monotonic-instead-of-boottime",
		what: "a lease is judged by a clock that stands still in suspend, as Go's monotonic one does: who slept goes on believing (I3, I9)",
		edit: edit{
			file: "lease.go",
			old:  "	if now.Raw >= l.rawEnd || now.Boot >= l.bootEnd {\n",
			new:  "	if now.Raw >= l.rawEnd {\n",
		},
		tests: []string{".", "internal/scenario"},
	},
	{
		name: "dropped-grant-event",
		what: "a grant that arrives while renewals are failing is dropped, and no later answer tells of it again (I8)",
		edit: edit{
			file: "claim.go",
			old:  "	if s.judgeLocked(now) == leaseLost {\n		return\n	}\n	c.hold = newHold(c, t, now)\n",
			new:  "	if s.judgeLocked(now) != leaseHeld {\n		return\n	}\n	c.hold = newHold(c, t, now)\n",
		},
		tests: []string{".", "internal/scenario"},
	},
	{
		name: "promotion-of-dead-waiter",
		what: "a dying session's claims are released one by one, each with its promotion, which can pick another claim of the same session (I1)",
		edit: edit{
			file: "internal/locktable/session.go",
			old:  "		names = append(names, c.names...)\n	}\n	return names\n",
			new:  "		x.promote(c.names)\n	}\n	return nil\n",
		},
		tests: []string{"internal/locktable", "internal/scenario"},
	},
	{
		name: "server-id-from-host-name",
		what: "a member is called by its name: one that comes back without its memory votes a second time in one term (I5, I12)",
		edit: edit{
			file: "node.go",
			old:  "	n.store, n.id = s, s.ServerID()\n",
			new:  "	n.store, n.id = s, n.cfg.Name // people can read that\n",
		},
		tests: []string{".", "internal/scenario"},
	},
}

// find gives the bug of a name.
func find(list []bug, name string) (bug, bool) {
	for _, b := range list {
		if b.name == name {
			return b, true
		}
	}
	return bug{}, false
}
