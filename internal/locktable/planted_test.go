package locktable

import (
	"testing"
)

// planted are faults as a rule forgotten in the implementation would make them: each changes the table around a command, says so, and undoes what was
// needed only for that.
var planted = map[string]func(t *Table, c *Command, bite func()) func(){
	"a reader goes past a waiting writer": func(t *Table, c *Command, bite func()) func() {
		u, used := use{}, false
		if c.Op == OpClaim {
			u, used = t.uses.Get(c.Names[0])
		}
		n := 0
		if used && c.Mode == Shared && u.mode == Shared {
			n = t.waiters(c.Names[0])
		}
		if n == 0 {
			return nil
		}
		bite()
		t.waiting.Delete(c.Names[0])
		return func() { more, _ := t.waiting.Get(c.Names[0]); t.waiting.Set(c.Names[0], n+more) }
	},
	"one permit too many": func(t *Table, c *Command, bite func()) func() {
		if c.Op != OpClaim || c.Mode != Permits {
			return nil
		}
		u, ok := t.semaphore(c.Names[0])
		if !ok || uint64(u.inUse)+uint64(c.Count) != uint64(u.limit)+1 {
			return nil
		}
		bite()
		u.inUse--
		t.setUse(c.Names[0], u)
		return func() { u, _ := t.uses.Get(c.Names[0]); u.inUse++; t.setUse(c.Names[0], u) }
	},
	"a reader that joins gets a token of its own": func(t *Table, c *Command, bite func()) func() {
		if c.Op != OpClaim || c.Mode != Shared {
			return nil
		}
		u, ok := t.uses.Get(c.Names[0])
		if !ok || u.mode != Shared {
			return nil
		}
		bite()
		u.token = Token(t.counter + 1)
		t.setUse(c.Names[0], u)
		return nil
	},
	"an expiry skips the lock delay": func(t *Table, c *Command, bite func()) func() {
		if c.Op != OpExpire {
			return nil
		}
		for _, old := range t.claimsOf(c.Session) {
			if old.grant != 0 && old.delay() != 0 {
				bite()
				next := *old
				next.terms = old.with(func(t *terms) { t.delay = 0 })
				t.replace(old, &next)
			}
		}
		return nil
	},
	"an unlock is taken for an involuntary end": func(t *Table, c *Command, bite func()) func() {
		if c.Op != OpUnlock || c.Barring {
			return nil
		}
		old := (&step{Table: t}).held(c.Session, c)
		if old == nil || old.delay() == 0 {
			return nil
		}
		bite()
		x := step{Table: t, index: t.index, eff: new(Effects)}
		x.fail(old, EventReleased, old.note)
		return nil
	},
	"an involuntary end is taken for an unlock": func(t *Table, c *Command, bite func()) func() {
		if c.Op != OpUnlock || !c.Barring {
			return nil
		}
		old := (&step{Table: t}).held(c.Session, c)
		if old == nil || old.delay() == 0 {
			return nil
		}
		bite()
		next := *old
		next.terms = old.with(func(t *terms) { t.delay = 0 })
		t.replace(old, &next)
		return nil
	},
	"what was handed over keeps its old place": func(t *Table, c *Command, bite func()) func() {
		if c.Op != OpHandOver {
			return nil
		}
		before := t.counter
		return func() {
			t.holds.Scan(func(e holdEntry) bool {
				if e.grant <= before || e.claim.pos == e.claim.rev {
					return true
				}
				bite()
				next := *e.claim
				next.pos = next.rev
				t.replace(e.claim, &next)
				return false
			})
		}
	},
	"a set is granted in part": func(t *Table, c *Command, bite func()) func() {
		if c.Op != OpUnlock && c.Op != OpCancel {
			return nil
		}
		return func() {
			t.claims.Scan(func(e claimEntry) bool {
				if c := e.claim; c.grant != 0 || len(c.names) == 1 || t.first(c.names[0]) != c {
					return true
				}
				bite()
				x := step{Table: t, eff: new(Effects)}
				x.grant(e.claim)
				return false
			})
		}
	},
	"a restart forgets a session": func(t *Table, c *Command, bite func()) func() {
		if c.Op != OpRestart {
			return nil
		}
		var spared session
		t.sessions.Scan(func(_ SessionID, s session) bool {
			if s.owner.node == c.Node && s.owner.incarnation == c.Incarnation && s.renewIndex <= c.RenewIndex {
				spared = s
			}
			return spared.owner == nil
		})
		if spared.owner == nil {
			return nil
		}
		bite()
		hidden, seen := spared, *spared.owner
		seen.incarnation += "x"
		hidden.owner = &seen
		t.sessions.Set(spared.owner.id, hidden)
		return func() { t.sessions.Set(spared.owner.id, spared) }
	},
	"an offer is not used up": func(t *Table, c *Command, bite func()) func() {
		if c.Op != OpAccept {
			return nil
		}
		old := (&step{Table: t}).held(c.From, c)
		if old == nil || old.terms == nil || old.terms.offer == "" {
			return nil
		}
		offer := old.terms.offer
		return func() {
			if next := t.claim(c.Session, c.Seq); next != nil && next.moved() {
				bite()
				again := *next
				again.terms = next.with(func(t *terms) { t.offer = offer })
				t.replace(next, &again)
			}
		}
	},
	"the former limit is forgotten": func(t *Table, c *Command, bite func()) func() {
		if c.Op != OpResize {
			return nil
		}
		return func() {
			if u, ok := t.semaphore(c.Names[0]); ok && u.former != 0 {
				bite()
				u.former = 0
				t.setUse(c.Names[0], u)
			}
		}
	},
	"what comes before an idle limit is not taken over": func(t *Table, c *Command, bite func()) func() {
		if c.Op != OpResize || c.Former == 0 {
			return nil
		}
		if _, used := t.semaphore(c.Names[0]); used {
			return nil
		}
		return func() {
			if u, ok := t.semaphore(c.Names[0]); ok {
				bite()
				u.former = 0
				t.setUse(c.Names[0], u)
			}
		}
	},
	"a forgotten limit stays set": func(t *Table, c *Command, bite func()) func() {
		if c.Op != OpResize || c.Limit != 0 {
			return nil
		}
		u, _ := t.semaphore(c.Names[0])
		return func() {
			if u.set {
				bite()
				t.setUse(c.Names[0], u)
			}
		}
	},
}

// TestPlantedFaults: each is found within a few seeds, or the comparison with the model is worth nothing.
func TestPlantedFaults(t *testing.T) {
	if raceDetector {
		t.Skip("one goroutine, and minutes with the race detector: it runs without")
	}
	for name, fault := range planted {
		t.Run(name, func(t *testing.T) {
			bites := 0
			for seed := uint64(1); seed <= 20; seed++ {
				tr := newTrial(limitsOf(seed))
				tr.plant = func(table *Table, c *Command) func() {
					if Check(c) != nil || table.clusterID == "" {
						return func() {}
					}
					undo := fault(table, c, func() { bites++ })
					return func() {
						if undo != nil {
							undo()
						}
					}
				}
				if script, err := tr.explore(seed, perSeed/2, tally{}); err != nil {
					if bites == 0 {
						t.Errorf("an error without the fault: %v", err)
					}
					last := script[len(script)-1]
					t.Logf("seed %d, %d times, found at %v", seed, bites, describe(last.c))
					return
				}
			}
			t.Errorf("not found, though it bit %d times", bites)
		})
	}
	if names := len(planted); names < 12 {
		t.Errorf("%d planted faults", names)
	}
}
