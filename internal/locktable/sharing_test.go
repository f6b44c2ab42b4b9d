package locktable

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestListIsBounded: a page ends before its texts are too large for an answer, and the pages together show every name once.
func TestListIsBounded(t *testing.T) {
	table, ids := founded(t, 1)
	for i := range uint64(300) {
		mustApply(t, table, CodeGranted, &Command{
			Op: OpClaim, Session: ids[0], Seq: i + 1, Floor: i + 1, Names: []string{fmt.Sprintf("%03d", i)}, Value: strings.Repeat("v", MaxValueLen),
		})
	}
	seen, after := 0, ""
	for more := true; more; {
		r := mustApply(t, table, CodeOK, &Command{Op: OpList, Count: MaxList, After: after})
		size := 0
		for _, info := range r.Infos {
			if want := fmt.Sprintf("%03d", seen); info.Name != want {
				t.Fatalf("name %q, want %q", info.Name, want)
			}
			seen++
			size += len(info.Holders[0].Value)
		}
		if len(r.Infos) == 0 || size > maxPage || len(r.Infos) == MaxList {
			t.Fatalf("%d names with %d bytes", len(r.Infos), size)
		}
		after, more = r.Infos[len(r.Infos)-1].Name, r.More
	}
	if seen != 300 {
		t.Errorf("%d names", seen)
	}
}

// A name with more than a page of text is listed all the same.
func TestListShowsALargeName(t *testing.T) {
	table, ids := founded(t, 1)
	for i := range uint64(2 * MaxListed) {
		mustApply(t, table, CodeGranted, &Command{
			Op: OpClaim, Session: ids[0], Seq: i + 1, Names: []string{"large"}, Mode: Shared, Value: strings.Repeat("v", MaxValueLen),
			Note: strings.Repeat("n", MaxNoteLen),
		})
	}
	r := mustApply(t, table, CodeOK, &Command{Op: OpList, Count: 1})
	if len(r.Infos) != 1 || r.More || len(r.Infos[0].Holders) != MaxListed || r.Infos[0].Holding != 2*MaxListed {
		t.Errorf("%d names, more %v", len(r.Infos), r.More)
	}
}

// TestLargeSemaphoreEndsInOneCommand: a session with thousands of permits of one semaphore goes, and thousands that wait come in. It must not take
// time with the product of the two.
func TestLargeSemaphoreEndsInOneCommand(t *testing.T) {
	const n = 20_000
	table, ids := founded(t, 2)
	for i := range uint64(2 * n) {
		code := map[bool]Code{true: CodeGranted, false: CodeWaiting}[i < n]
		mustApply(t, table, code, &Command{
			Op: OpClaim, Session: ids[i/n], Seq: i + 1, Floor: i + 1, Names: []string{"pool"}, Mode: Permits, Count: 1, Limit: n,
		})
	}
	var eff Effects
	began := time.Now()
	r := table.Apply(table.index+1, 1, 0, &Command{Op: OpClose, Session: ids[0]}, &eff)
	if r.Code != CodeOK || len(eff.Events) != 1+2*n {
		t.Errorf("%v with %d events", r.Code, len(eff.Events))
	}
	if took := time.Since(began); took > 5*time.Second { // it takes a few hundredths of a second
		t.Errorf("took %v", took)
	}
	if err := checkInvariants(table); err != nil {
		t.Error(err)
	}
}

// TestBarredClaimsCount: a session that ends leaves its barred claims in the state, so they are claims to the limit, or sessions that come and go could
// fill the memory.
func TestBarredClaimsCount(t *testing.T) {
	table, ids := founded(t, 3)
	table.limits.claims = 2
	claim := func(want Code, id SessionID, name string) {
		mustApply(t, table, want, &Command{Op: OpClaim, Session: id, Seq: 1, Names: []string{name}, Delay: time.Second})
	}
	claim(CodeGranted, ids[0], "a")
	claim(CodeGranted, ids[1], "b")
	mustApply(t, table, CodeOK, &Command{Op: OpClose, Session: ids[0]})
	claim(CodeOverloaded, ids[2], "c")
	mustApply(t, table, CodeOK, &Command{Op: OpClose, Session: ids[1], Now: true})
	claim(CodeGranted, ids[2], "c")
}

// TestForgottenLimitsMakeRoom: limits that were set are bounded, and one that is forgotten makes room for another, at once or when the last claim goes.
func TestForgottenLimitsMakeRoom(t *testing.T) {
	table, ids := founded(t, 1)
	table.limits.limits = 2
	seq := uint64(0)
	do := func(want Code, c Command) {
		t.Helper()
		seq++
		c.Session, c.Seq = ids[0], seq
		mustApply(t, table, want, &c)
	}
	set := func(want Code, name string, limit uint32) {
		t.Helper()
		do(want, Command{Op: OpResize, Names: []string{name}, Limit: limit})
	}
	set(CodeOK, "a", 2)
	set(CodeOK, "b", 2)
	set(CodeOverloaded, "c", 2)
	set(CodeOK, "a", 3) // is there already
	set(CodeOK, "a", 0)
	set(CodeOK, "c", 2)
	set(CodeOverloaded, "a", 2)
	do(CodeGranted, Command{Op: OpClaim, Names: []string{"c"}, Mode: Permits, Count: 1, Limit: 2})
	claim := seq
	set(CodeOK, "c", 0) // in use: its limit is that of the claim, and does not count
	set(CodeOK, "a", 2)
	set(CodeOverloaded, "c", 2)
	do(CodeReleased, Command{Op: OpUnlock, Of: claim, Token: Token(table.grantsSince(ids[0], 0)[0].Token)})
	if got := fmt.Sprint(table.Names("", "", 9)); got != "[a b]" {
		t.Errorf("in use are %s", got)
	}
	if err := checkInvariants(table); err != nil {
		t.Error(err)
	}
}

// TestAskingAgainForADrainNeedsNoRoom: whoever asks for a forced release again is told of the drain that goes on, however much news the holder has not heard.
func TestAskingAgainForADrainNeedsNoRoom(t *testing.T) {
	table, ids := founded(t, 1)
	table.limits.lost = 1
	token := mustApply(t, table, CodeGranted, &Command{Op: OpClaim, Session: ids[0], Seq: 1, Names: []string{"a"}}).Token
	force := Command{Op: OpForce, Names: []string{"a"}, Token: token}
	first := mustApply(t, table, CodeDraining, &force)
	if again := mustApply(t, table, CodeDraining, &force); again.DrainIndex != first.DrainIndex {
		t.Errorf("drain began at %d, then at %d", first.DrainIndex, again.DrainIndex)
	}
	force.Now = true
	mustApply(t, table, CodeOverloaded, &force)
}

// TestASequenceOfAnotherClaim: a request that would make a claim is not answered with one that was made otherwise.
func TestASequenceOfAnotherClaim(t *testing.T) {
	table, ids := founded(t, 1)
	s := ids[0]
	token := mustApply(t, table, CodeGranted, &Command{Op: OpClaim, Session: s, Seq: 1, Names: []string{"a"}}).Token
	mustApply(t, table, CodeGranted, &Command{Op: OpClaim, Session: s, Seq: 2, Names: []string{"b"}})
	down := Command{Op: OpDowngrade, Session: s, Seq: 2, Of: 1, Token: token}
	mustApply(t, table, CodeMismatch, &down)
	down.Seq = 3
	mustApply(t, table, CodeGranted, &down)
	mustApply(t, table, CodeGranted, &down)
	down.Note = "other"
	mustApply(t, table, CodeMismatch, &down)
}

// TestADowngradeEndsTheOffer: a ticket for the exclusive hold is not one for what it became.
func TestADowngradeEndsTheOffer(t *testing.T) {
	table, ids := founded(t, 2)
	s := ids[0]
	token := mustApply(t, table, CodeGranted, &Command{Op: OpClaim, Session: s, Seq: 1, Names: []string{"a"}}).Token
	mustApply(t, table, CodeOK, &Command{Op: OpOffer, Session: s, Seq: 2, Of: 1, Token: token, Secret: OfferHash("s")})
	shared := mustApply(t, table, CodeGranted, &Command{Op: OpDowngrade, Session: s, Seq: 3, Of: 1, Token: token}).Token
	for i, about := range []Command{{Of: 1, Token: token}, {Of: 3, Token: shared}} {
		mustApply(t, table, CodeNotHeld, &Command{
			Op: OpAccept, Session: ids[1], Seq: uint64(i + 1), From: s, Of: about.Of, Token: about.Token, Secret: "s",
		})
	}
}
