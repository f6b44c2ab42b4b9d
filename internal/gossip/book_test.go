package gossip

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func at(addr string, started int64) record {
	return record{addr: addr, started: started, meta: Meta{Boot: fmt.Sprint(started)}}
}

func TestBookBelievesTheLaterStart(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBook("self", at("s:1", 1), nil)
	old, young := at("old:1", 10), at("young:1", 20)
	if !b.confirm("x", old, now) {
		t.Error("first sight is no change")
	}
	if b.confirm("x", old, now) {
		t.Error("the same again is a change")
	}
	if b.claim("x", at("older:1", 5), now) {
		t.Error("a claim of an earlier start was believed")
	}
	if !b.claim("x", young, now) {
		t.Error("a claim of a later start was not believed")
	}
	if b.lost("x", old, now) || b.confirm("x", old, now) {
		t.Error("news about the predecessor touched the successor")
	}
	if addr, _ := b.lookup("x"); addr != "young:1" {
		t.Errorf("Lookup gives %s", addr)
	}
	if got := b.missing(now); !slices.Equal(got, []string{"young:1"}) {
		t.Errorf("a claim is to be joined, missing is %v", got)
	}
	if b.confirm("x", young, now) {
		t.Error("confirming a claim changes nothing that is seen")
	}
	if b.sweep(now.Add(time.Hour)) {
		t.Error("a confirmed member lapsed")
	}
	// The failure detector overrules starts once nothing is claimed: clocks step.
	if !b.confirm("x", old, now) {
		t.Error("the detector's word for an earlier start did not count")
	}
}

func TestBookClaimLapses(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBook("self", at("s:1", 1), nil)
	b.claim("x", at("x:1", 2), now)
	if b.sweep(now.Add(claimLapses)) || len(b.members()) != 2 {
		t.Error("lapsed too early")
	}
	b.claim("x", at("x:1", 2), now.Add(claimLapses))
	if b.sweep(now.Add(2*claimLapses)) || len(b.members()) != 2 {
		t.Error("a repeated claim lapsed")
	}
	if !b.sweep(now.Add(3*claimLapses)) || len(b.members()) != 1 {
		t.Error("did not lapse")
	}
}

func TestBookClaimLapsesToTheDetectorsWord(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBook("self", at("s:1", 1), nil)
	old := at("old:1", 10)
	b.confirm("x", old, now)
	if !b.claim("x", at("young:1", 20), now) || !believes(b, "x", "young:1") {
		t.Fatal("the claim was not believed")
	}
	if !b.sweep(now.Add(claimLapses+1)) || !believes(b, "x", "old:1") {
		t.Error("after the lapse the process that the detector holds for alive is not believed in")
	}
}

// believes says whether x is alive and at addr.
func believes(b *book, id, addr string) bool {
	at, _ := b.lookup(id)
	return at == addr && slices.ContainsFunc(b.members(), func(m Member) bool { return m.ServerID == id && m.Addr == addr })
}

func TestBookBelievesWhoAnswers(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBook("self", at("s:1", 1), nil)
	old, young := at("old:1", 10), at("young:1", 20)
	b.confirm("x", old, now)
	b.claim("x", young, now)
	if b.attest("x", young, now) || !believes(b, "x", "young:1") {
		t.Error("the claimant's own answer changes something")
	}
	if !b.attest("x", old, now) || !believes(b, "x", "old:1") {
		t.Error("the living process has a successor")
	}
	if b.claim("x", young, now.Add(provesLife-1)) || !believes(b, "x", "old:1") {
		t.Error("a claim against a process that has just answered was believed")
	}
	b.confirm("x", old, now) // new metadata, say
	if b.claim("x", young, now.Add(provesLife-1)) {
		t.Error("word from the detector made the answer forgotten")
	}
	if !b.claim("x", young, now.Add(provesLife)) || !believes(b, "x", "young:1") {
		t.Error("the answer counts for ever")
	}
	b.attest("nobody", old, now)
	if _, known := b.lookup("nobody"); known {
		t.Error("an answer made a member")
	}
}

// TestBookSettles: in whichever order the failure detector and the claims bring the two, once they are known to live the original is believed and the copy
// never again.
func TestBookSettles(t *testing.T) {
	original, copied := at("original:1", 10), at("copy:1", 20)
	for name, before := range map[string]func(b *book, now time.Time){
		"nothing known":          func(*book, time.Time) {},
		"the original":           func(b *book, now time.Time) { b.confirm("x", original, now) },
		"the copy claims":        func(b *book, now time.Time) { b.confirm("x", original, now); b.claim("x", copied, now) },
		"the copy, claimed only": func(b *book, now time.Time) { b.claim("x", copied, now) },
		"the copy":               func(b *book, now time.Time) { b.confirm("x", copied, now) },
		"the copy after the original": func(b *book, now time.Time) {
			b.confirm("x", original, now)
			b.lost("x", original, now)
			b.confirm("x", copied, now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			b := newBook("self", at("s:1", 1), nil)
			before(b, now)
			b.settle("x", original, copied, now)
			check := func(when string) {
				t.Helper()
				if !believes(b, "x", "original:1") {
					addr, _ := b.lookup("x")
					t.Errorf("%s: at %q, members %v", when, addr, b.members())
				}
			}
			check("settled")
			if b.claim("x", copied, now.Add(claimLapses/2)) || b.confirm("x", copied, now) || b.lost("x", copied, now) {
				t.Error("news of the copy changes something")
			}
			check("with news of the copy")
			if b.claim("x", original, now.Add(claimLapses/2)) {
				t.Error("the same again is a change")
			}
			b.confirm("x", original, now)
			b.sweep(now.Add(time.Hour))
			check("when the detector knows it")
			b.settle("x", original, copied, now)
			b.sweep(now.Add(time.Hour))
			check("settled again")
			if !b.lost("x", original, now) || b.confirm("x", copied, now) || len(b.members()) != 1 {
				t.Error("the copy follows when the original has died")
			}
			if next := at("next:1", 30); !b.confirm("x", next, now) || !believes(b, "x", "next:1") {
				t.Error("the original's successor is not believed")
			}
		})
	}
}

func TestBookRemembersCopiesWithinBounds(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBook("self", at("s:1", 1), nil)
	for i := range 2 * maxCopies {
		b.settle("x", at("x:1", 1), at("y:1", int64(2+i)), now.Add(time.Duration(i)))
	}
	if len(b.copies) != maxCopies || !b.isCopy("x", at("y:1", int64(1+2*maxCopies))) {
		t.Errorf("%d copies remembered, or not the latest", len(b.copies))
	}
}

func TestBookLookupOrder(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBook("self", at("s:1", 1), nil)
	b.learn("x", "told:1", now)
	want := func(addr string) {
		t.Helper()
		if got, _ := b.lookup("x"); got != addr {
			t.Errorf("Lookup gives %q, want %q", got, addr)
		}
	}
	want("told:1")
	b.confirm("x", at("seen:1", 2), now)
	want("seen:1")
	b.learn("x", "told:2", now)
	want("seen:1") // alive: its own word
	b.lost("x", at("seen:1", 2), now)
	want("seen:1")
	b.learn("x", "told:3", now)
	want("told:3")
	if got := b.missing(now); !slices.Equal(got, []string{"seen:1", "told:1", "told:2", "told:3"}) {
		t.Errorf("missing is %v", got)
	}
	b.learn("self", "wrong:1", now)
	if got, _ := b.lookup("self"); got != "s:1" {
		t.Errorf("own address is %q", got)
	}
}

func TestBookIsBounded(t *testing.T) {
	start := time.Unix(1000, 0)
	b := newBook("self", at("s:1", 1), nil)
	for i := range maxEntries + 500 {
		id, rec := fmt.Sprint("x", i), at(fmt.Sprintf("x:%d", i), int64(i))
		now := start.Add(time.Duration(i) * time.Millisecond)
		b.confirm(id, rec, now)
		b.lost(id, rec, now)
	}
	b.sweep(start.Add(time.Minute))
	if n := len(b.entries); n != maxEntries {
		t.Errorf("%d entries", n)
	}
	if _, ok := b.lookup("x499"); ok {
		t.Error("the longest dead was kept")
	}
	if _, ok := b.lookup("x500"); !ok {
		t.Error("one in the last hour was forgotten although there was room")
	}
	b.sweep(start.Add(2 * time.Hour))
	if n := len(b.entries); n != keepLostDead {
		t.Errorf("%d entries after two hours", n)
	}
	for i := range 2 * maxLearned {
		b.learn("", fmt.Sprintf("y:%d", i), start.Add(time.Duration(i)))
	}
	if n := len(b.learned); n != maxLearned {
		t.Errorf("%d learned addresses", n)
	}
}

func TestContactsBackOff(t *testing.T) {
	now := time.Unix(1000, 0)
	var c contacts
	var last time.Time
	var longest time.Duration
	for range 12 {
		now = c.nextTime(now, time.Minute)
		if got := c.due([]string{"a:1"}, 8, now); !slices.Equal(got, []string{"a:1"}) {
			now = now.Add(time.Minute)
			if got = c.due([]string{"a:1"}, 8, now); len(got) != 1 {
				t.Fatalf("due gives %v", got)
			}
		}
		if got := c.due([]string{"a:1"}, 8, now.Add(time.Hour)); len(got) != 0 {
			t.Fatal("tried twice at once")
		}
		c.done("a:1", now)
		if !last.IsZero() {
			longest = max(longest, now.Sub(last))
		}
		last = now
		if wait := c.nextTime(now, time.Minute).Sub(now); wait > lastRetry*6/5 || wait < firstRetry*4/5 {
			t.Fatalf("waits %v", wait)
		}
	}
	if got := c.due(nil, 8, now); len(got) != 0 || len(c.byAddr) != 0 {
		t.Error("an address that is not wanted any more was kept")
	}
	many := []string{"a:1", "b:1", "c:1", "d:1"}
	if got := c.due(many, 3, now); len(got) != 3 {
		t.Errorf("limit 3 gives %v", got)
	}
	if got := c.due(many, 3, now); len(got) != 0 {
		t.Errorf("busy ones do not count against the limit: %v", got)
	}
}
