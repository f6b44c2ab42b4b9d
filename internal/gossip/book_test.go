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
