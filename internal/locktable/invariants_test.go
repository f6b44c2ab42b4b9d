package locktable

import (
	"errors"
	"fmt"
)

// checkInvariants holds a table against what must be true of it after any sequence of commands, looking at everything.
func checkInvariants(t *Table) error {
	return errors.Join(checkNamesOf(t), t.checkQueues(), checkIndexes(t), checkSessions(t), checkValues(t), checkSizes(t))
}

// everyClaim are the live claims, and the barred ones, which only the drains tell of.
func everyClaim(t *Table) []*claim {
	var all []*claim
	t.claims.Scan(func(e claimEntry) bool { all = append(all, e.claim); return true })
	t.drains.Scan(func(_ Rev, c *claim) bool {
		if c.barred {
			all = append(all, c)
		}
		return true
	})
	return all
}

// tallyOf is what is counted of one name over the claims alone, without trusting the order of the queue or any count.
type tallyOf struct {
	exclusive, readers, permits, waiting int
	inUse                                uint64
	phase                                Token
	lastHeld, firstWaiting               Rev
}

func (n *tallyOf) count(c *claim) error {
	if c.grant == 0 {
		n.waiting++
		if n.firstWaiting == 0 || c.pos < n.firstWaiting {
			n.firstWaiting = c.pos
		}
		return nil
	}
	n.lastHeld = max(n.lastHeld, c.pos)
	switch c.mode {
	case Exclusive:
		n.exclusive++
	case Shared:
		if n.readers++; n.readers > 1 && n.phase != c.token {
			return fmt.Errorf("claim %d: token %d beside readers with token %d", c.rev, c.token, n.phase)
		}
		n.phase = c.token
	case Permits:
		n.permits++
		n.inUse += uint64(c.count)
	}
	return nil
}

// checkNamesOf: who holds a name can hold it together and stands before all that wait for it, and the counts of the name are right.
func checkNamesOf(t *Table) error {
	names := map[string]*tallyOf{}
	entries, limits := 0, 0
	for _, c := range everyClaim(t) {
		for _, name := range c.names {
			entries++
			if names[name] == nil {
				names[name] = &tallyOf{}
			}
			if err := names[name].count(c); err != nil {
				return fmt.Errorf("%q: %w", name, err)
			}
		}
	}
	waited := 0
	for name, n := range names {
		if err := n.check(t, name); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		if n.waiting > 0 {
			waited++
		}
	}
	semaphores := 0
	var err error
	t.uses.Scan(func(name string, u use) bool {
		if u.mode == Permits {
			semaphores++
		}
		if u.set {
			limits++
		}
		if names[name] == nil && (!u.set || u.holders != 0 || u.inUse != 0) {
			err = fmt.Errorf("%q: nobody claims it, and its use is %+v", name, u)
		}
		return true
	})
	if entries != t.queue.Len() || waited != t.waiting.Len() || semaphores != t.semaphores || limits != t.limitsSet {
		return fmt.Errorf("queue %d, waiting %d, semaphores %d, limits %d; counted %d, %d, %d, %d",
			t.queue.Len(), t.waiting.Len(), t.semaphores, t.limitsSet, entries, waited, semaphores, limits)
	}
	return err
}

func (n *tallyOf) check(t *Table, name string) error {
	u, used := t.uses.Get(name)
	var kinds int
	for _, holders := range [...]int{n.exclusive, n.readers, n.permits} {
		if holders > 0 {
			kinds++
		}
	}
	switch {
	case n.exclusive > 1 || kinds > 1:
		return fmt.Errorf("held by %d alone, %d readers, %d with permits", n.exclusive, n.readers, n.permits)
	case n.firstWaiting != 0 && n.firstWaiting < n.lastHeld:
		return fmt.Errorf("the claim at place %d holds, the one at %d waits", n.lastHeld, n.firstWaiting)
	case t.waiters(name) != n.waiting || t.holders(name) != n.exclusive+n.readers+n.permits:
		return fmt.Errorf("counts %d waiting and %d holding: %+v", t.waiters(name), t.holders(name), *n)
	case u.holders != n.readers+n.permits || uint64(u.inUse) != n.inUse || u.mode == Shared && u.token != n.phase:
		return fmt.Errorf("its use is %+v: %+v", u, *n)
	case used && n.firstWaiting != 0 && u.last >= n.firstWaiting, used && u.last < n.lastHeld && n.exclusive == 0:
		return fmt.Errorf("waiting claims are sought after %d: %+v", u.last, *n)
	case n.permits > 0 && u.former == 0 && n.inUse > uint64(u.limit):
		return fmt.Errorf("%d permits of %d", n.inUse, u.limit)
	case used && u.mode == Exclusive:
		return errors.New("a use without a mode")
	}
	return nil
}

// checkIndexes says whether every tree points at the same version of each claim.
func checkIndexes(t *Table) error {
	held, draining, barred := 0, 0, 0
	for _, c := range everyClaim(t) {
		for _, name := range c.names {
			if q, _ := t.queue.Get(queueEntry{name: name, pos: c.pos}); q.claim != c {
				return fmt.Errorf("queue of %q has another version of claim %d: a set holds all of its names or none", name, c.rev)
			}
		}
		switch h, _ := t.holds.Get(holdEntry{session: c.owner.id, grant: c.grant}); {
		case c.barred:
			barred++
			if h.claim == c || c.drain == nil {
				return fmt.Errorf("the barred claim %d is a hold of its session", c.rev)
			}
		case c.grant != 0:
			if held++; h.claim != c {
				return fmt.Errorf("holds have another version of claim %d", c.rev)
			}
		}
		if c.drain == nil {
			continue
		}
		draining++
		if d, _ := t.drains.Get(c.grant); d != c || c.grant == 0 {
			return fmt.Errorf("drains have another version of claim %d", c.rev)
		}
	}
	if held != t.holds.Len() || draining != t.drains.Len() || barred != t.barred {
		return fmt.Errorf("%d holds of %d, %d drains of %d, %d barred of %d", t.holds.Len(), held, t.drains.Len(), draining, t.barred, barred)
	}
	return nil
}

// checkSessions says whether everything belongs to a live session and the sessions' counts are right.
func checkSessions(t *Table) error {
	finished, lost := map[SessionID]int{}, map[SessionID]int{}
	var err error
	t.finished.Scan(func(f FinishedRecord) bool {
		finished[f.Session]++
		if s, _ := t.sessions.Get(f.Session); f.Seq < s.floor {
			err = fmt.Errorf("session %d remembers %d below its floor %d", f.Session, f.Seq, s.floor)
		}
		if t.claim(f.Session, f.Seq) != nil {
			err = fmt.Errorf("session %d: sequence %d is both live and finished", f.Session, f.Seq)
		}
		return true
	})
	t.lost.Scan(func(l LostRecord) bool { lost[l.Session]++; return true })
	t.claims.Scan(func(e claimEntry) bool {
		if s, ok := t.sessions.Get(e.session); !ok || s.owner != e.claim.owner || e.claim.barred {
			err = fmt.Errorf("claim %d belongs to no live session", e.claim.rev)
		}
		return true
	})
	t.sessions.Scan(func(id SessionID, s session) bool {
		if s.finished != finished[id] || s.lost != lost[id] || id != s.owner.id || s.lost > t.limits.lost {
			err = fmt.Errorf("session %d counts %d finished and %d lost, has %d and %d", id, s.finished, s.lost, finished[id], lost[id])
		}
		delete(finished, id)
		delete(lost, id)
		return true
	})
	if len(finished)+len(lost) != 0 {
		return fmt.Errorf("records of dead sessions: finished %v, lost %v", finished, lost)
	}
	return err
}

// checkValues says whether counter values are unique and in their order.
func checkValues(t *Table) error {
	seen := map[Rev]string{}
	var err error
	use := func(r Rev, what string) {
		if r <= 0 || r > t.counter {
			err = fmt.Errorf("%s %d is not from the counter %d", what, r, t.counter)
		}
		if other, ok := seen[r]; ok {
			err = fmt.Errorf("%s %d is also a %s", what, r, other)
		}
		seen[r] = what
	}
	t.sessions.Scan(func(id SessionID, _ session) bool { use(Rev(id), "session id"); return true })
	places := map[Rev]Rev{}
	for _, c := range everyClaim(t) {
		use(c.rev, "create revision")
		if c.grant != 0 && c.grant != c.rev {
			use(c.grant, "grant")
		}
		if c.drain != nil {
			use(c.drain.rev, "drain revision")
		}
		switch other, taken := places[c.pos]; {
		case taken:
			err = fmt.Errorf("claims %d and %d have one place", c.rev, other)
		case c.rev <= Rev(c.owner.id) || c.grant != 0 && c.grant < c.rev || c.pos > c.rev:
			err = fmt.Errorf("claim %d is older than its session %d or its place %d, or younger than its grant %d", c.rev, c.owner.id, c.pos, c.grant)
		case (c.grant == 0) != (c.token == 0) || c.mode != Shared && Rev(c.token) != c.grant || Rev(c.token) > c.grant:
			err = fmt.Errorf("claim %d has token %d of grant %d", c.rev, c.token, c.grant)
		}
		places[c.pos] = c.rev
	}
	return err
}

func checkSizes(t *Table) error {
	h := t.Header()
	if h.Sessions > t.limits.sessions || h.Claims > t.limits.claims || h.Audit > t.limits.audit || t.limitsSet > t.limits.limits {
		return fmt.Errorf("over a limit: %+v", h)
	}
	return nil
}
