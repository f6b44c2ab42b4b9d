package locktable

import (
	"errors"
	"fmt"
)

// checkInvariants holds a table against what must be true of it after any sequence of commands, looking at everything.
func checkInvariants(t *Table) error {
	return errors.Join(checkNamesOf(t), t.checkQueues(), checkIndexes(t), checkSessions(t), checkValues(t), checkSizes(t))
}

// checkNamesOf counts holders per name over the claims alone, without trusting the order of the queue.
func checkNamesOf(t *Table) error {
	holder := map[string]Rev{}
	waiting := map[string]int{}
	entries := 0
	var err error
	t.claims.Scan(func(e claimEntry) bool {
		for _, name := range e.claim.names {
			entries++
			if e.claim.token == 0 {
				waiting[name]++
				continue
			}
			if other, ok := holder[name]; ok {
				err = fmt.Errorf("%q is held by claims %d and %d", name, other, e.claim.rev)
			}
			holder[name] = e.claim.rev
		}
		return true
	})
	if entries != t.queue.Len() {
		return fmt.Errorf("%d queue entries for %d names of claims", t.queue.Len(), entries)
	}
	if len(waiting) != t.waiting.Len() {
		return fmt.Errorf("waiting counts for %d names, want %d", t.waiting.Len(), len(waiting))
	}
	for name, n := range waiting {
		if t.waiters(name) != n {
			return fmt.Errorf("%q has %d waiters, counted %d", name, n, t.waiters(name))
		}
	}
	return err
}

// checkIndexes says whether every tree points at the same version of each claim.
func checkIndexes(t *Table) error {
	held, draining := 0, 0
	var err error
	t.claims.Scan(func(e claimEntry) bool {
		c := e.claim
		for _, name := range c.names {
			if q, _ := t.queue.Get(queueEntry{name: name, rev: c.rev}); q.claim != c {
				err = fmt.Errorf("queue of %q has another version of claim %d", name, c.rev)
			}
		}
		if h, _ := t.holds.Get(holdEntry{session: c.owner.id, token: c.token}); c.token != 0 && h.claim != c {
			err = fmt.Errorf("holds have another version of claim %d", c.rev)
		}
		if c.token != 0 {
			held++
		}
		if c.drain != nil {
			draining++
			if d, _ := t.drains.Get(c.token); d != c || c.token == 0 {
				err = fmt.Errorf("drains have another version of claim %d", c.rev)
			}
		}
		return true
	})
	if held != t.holds.Len() || draining != t.drains.Len() {
		return fmt.Errorf("%d holds indexed of %d, %d drains of %d", t.holds.Len(), held, t.drains.Len(), draining)
	}
	return err
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
		if s, ok := t.sessions.Get(e.session); !ok || s.owner != e.claim.owner {
			err = fmt.Errorf("claim %d belongs to no live session", e.claim.rev)
		}
		return true
	})
	t.sessions.Scan(func(id SessionID, s session) bool {
		if s.finished != finished[id] || s.lost != lost[id] || id != s.owner.id {
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
	t.claims.Scan(func(e claimEntry) bool {
		c := e.claim
		use(c.rev, "create revision")
		if c.token != 0 && Rev(c.token) != c.rev {
			use(Rev(c.token), "token")
		}
		if c.drain != nil {
			use(c.drain.rev, "drain revision")
		}
		if c.rev <= Rev(c.owner.id) || c.token != 0 && Rev(c.token) < c.rev {
			err = fmt.Errorf("claim %d is older than its session %d or younger than its token %d", c.rev, c.owner.id, c.token)
		}
		return true
	})
	return err
}

func checkSizes(t *Table) error {
	h := t.Header()
	if h.Sessions > t.limits.sessions || h.Claims > t.limits.claims || h.Audit > t.limits.audit {
		return fmt.Errorf("over a limit: %+v", h)
	}
	return nil
}
