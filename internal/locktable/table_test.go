package locktable

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// founded is a table with n sessions, and their ids.
func founded(t testing.TB, n int) (*Table, []SessionID) {
	t.Helper()
	table := New()
	mustApply(t, table, CodeOK, &Command{Op: OpFound, ClusterID: "c", Rev: 1000, TTL: time.Minute})
	ids := make([]SessionID, n)
	for i := range ids {
		ids[i] = mustApply(t, table, CodeOK, &Command{Op: OpOpen, Node: fmt.Sprint("n", i), TTL: 10 * time.Second}).Session
	}
	return table, ids
}

func mustApply(t testing.TB, table *Table, want Code, c *Command) Result {
	t.Helper()
	r := table.Apply(table.index+1, 1, 0, c, nil)
	if r.Code != want {
		t.Fatalf("%+v: %v %s, want %v", *c, r.Code, r.Detail, want)
	}
	return r
}

func TestNames(t *testing.T) {
	table, ids := founded(t, 2)
	for i, name := range []string{"b", "job/1", "job/10", "job/2", "job", "jobs", "a"} {
		mustApply(t, table, CodeGranted, &Command{Op: OpClaim, Session: ids[0], Seq: uint64(i + 1), Names: []string{name}})
		mustApply(t, table, CodeWaiting, &Command{Op: OpClaim, Session: ids[1], Seq: uint64(i + 1), Names: []string{name}})
	}
	for _, test := range []struct {
		prefix, after string
		limit         int
		want          []string
	}{
		{"", "", 100, []string{"a", "b", "job", "job/1", "job/10", "job/2", "jobs"}},
		{"", "", 2, []string{"a", "b"}},
		{"", "b", 2, []string{"job", "job/1"}},
		{"job/", "", 9, []string{"job/1", "job/10", "job/2"}},
		{"job/", "job/1", 1, []string{"job/10"}},
		{"job/", "job/2", 9, nil},
		{"job/", "zzz", 9, nil},
		{"job/", "a", 9, []string{"job/1", "job/10", "job/2"}},
		{"x", "", 9, nil},
		{"", "", 0, nil},
		{"", "", -1, nil},
	} {
		if got := table.Names(test.prefix, test.after, test.limit); !slices.Equal(got, test.want) {
			t.Errorf("Names(%q, %q, %d) = %q, want %q", test.prefix, test.after, test.limit, got, test.want)
		}
	}
}

func TestGrantOfAndDrains(t *testing.T) {
	table, ids := founded(t, 2)
	claim := Command{Op: OpClaim, Session: ids[0], Seq: 1, Names: []string{"a"}}
	token := mustApply(t, table, CodeGranted, &claim).Token
	claim.Session = ids[1]
	mustApply(t, table, CodeWaiting, &claim)
	if ttl, ok := table.TTL(ids[0]); !ok || ttl != 10*time.Second {
		t.Errorf("TTL %v %v", ttl, ok)
	}
	if ttl, ok := table.TTL(1); ok || ttl != 0 {
		t.Errorf("TTL of no session: %v", ttl)
	}
	if got, ok := table.GrantOf(ids[0], 1); !ok || got != token {
		t.Errorf("GrantOf the holder: %d %v", got, ok)
	}
	for _, missing := range [][2]uint64{{uint64(ids[1]), 1}, {uint64(ids[0]), 2}, {1, 1}} {
		if got, ok := table.GrantOf(SessionID(missing[0]), missing[1]); ok {
			t.Errorf("GrantOf %v: %d", missing, got)
		}
	}
	r := mustApply(t, table, CodeDraining, &Command{Op: OpForce, Names: []string{"a"}, Token: token})
	if _, ok := table.GrantOf(ids[0], 1); ok {
		t.Error("GrantOf reports a hold that is being drained")
	}
	want := []Drain{{Grant: Rev(token), Wait: 10 * time.Second, Index: r.DrainIndex}}
	if got := slices.Collect(table.Drains()); !slices.Equal(got, want) {
		t.Errorf("drains %v, want %v", got, want)
	}
	if got := slices.Collect(restored(t, table).Drains()); !slices.Equal(got, want) {
		t.Errorf("drains after a restore %v, want %v", got, want)
	}
}

// TestAnswersTellOfDrains: whatever command renews a session tells of a drain until a renewal says that it was heard.
func TestAnswersTellOfDrains(t *testing.T) {
	table, ids := founded(t, 1)
	s := ids[0]
	token := mustApply(t, table, CodeGranted, &Command{Op: OpClaim, Session: s, Seq: 1, Names: []string{"a"}}).Token
	mustApply(t, table, CodeDraining, &Command{Op: OpForce, Names: []string{"a"}, Token: token})
	for _, test := range []struct {
		code  Code
		c     Command
		tells bool
	}{
		{CodeGranted, Command{Op: OpClaim, Session: s, Seq: 2, Names: []string{"b"}}, true},
		{CodeMismatch, Command{Op: OpClaim, Session: s, Seq: 2, Names: []string{"c"}}, true},
		{CodeCancelled, Command{Op: OpCancel, Session: s, Seq: 2}, true},
		{CodeNotHeld, Command{Op: OpUnlock, Session: s, Seq: 3, Of: 2, Token: 7}, true},
		{CodeMalformed, Command{Op: OpRenew, Session: s, Since: 1 << 50}, true},
		{CodeOK, Command{Op: OpRenew, Session: s, Since: Rev(token)}, true},
		{CodeOK, Command{Op: OpRenew, Session: s, Since: Rev(token) + 1}, false},
		{CodeCancelled, Command{Op: OpCancel, Session: s, Seq: 9}, false},
	} {
		r := mustApply(t, table, test.code, &test.c)
		if !r.Renewed || (len(r.Lost) == 1) != test.tells || test.tells && r.Lost[0].Token != token {
			t.Errorf("%v: renewed %v, lost %+v", test.c.Op, r.Renewed, r.Lost)
		}
	}
}

// TestLongQueue: the place in a queue is right at every end of it, and the queue is served in order.
func TestLongQueue(t *testing.T) {
	const n = 5_000
	table, ids := founded(t, n)
	for i, id := range ids {
		code := CodeWaiting
		if i == 0 {
			code = CodeGranted
		}
		r := mustApply(t, table, code, &Command{Op: OpClaim, Session: id, Seq: 1, Names: []string{"job"}})
		if r.Waiters != i || r.Ahead != max(0, i-1) {
			t.Fatalf("claim %d: %d ahead of %d", i, r.Ahead, r.Waiters)
		}
	}
	for _, i := range []int{1, 2, n / 2, n - 1} {
		r := mustApply(t, table, CodeWaiting, &Command{Op: OpClaim, Session: ids[i], Seq: 1, Names: []string{"job"}})
		if r.Ahead != i-1 || r.Waiters != n-1 || r.Blocker == nil || r.Blocker.Session != ids[0] {
			t.Errorf("claim %d again: %d ahead of %d", i, r.Ahead, r.Waiters)
		}
	}
	info := table.Inspect("job")
	if info.Waiting != n-1 || len(info.Waiters) != MaxInspect || len(info.Holders) != 1 {
		t.Errorf("%d waiting, %d listed, %d holders", info.Waiting, len(info.Waiters), len(info.Holders))
	}
	for i := 0; i < n; i++ {
		token, ok := table.GrantOf(ids[i], 1)
		if !ok {
			t.Fatalf("session %d was not promoted in its turn", i)
		}
		mustApply(t, table, CodeReleased, &Command{Op: OpUnlock, Session: ids[i], Seq: 2, Of: 1, Token: token})
	}
	if len(table.Names("", "", 1)) != 0 || table.waiting.Len() != 0 {
		t.Error("something is left of an empty queue")
	}
}

// TestLargeSessionEndsInOneCommand: ten thousand holds, each with a waiter of another session behind it (scenario S32).
func TestLargeSessionEndsInOneCommand(t *testing.T) {
	const n = 10_000
	table, ids := founded(t, 2)
	for i := range uint64(n) {
		name := []string{fmt.Sprint("lock-", i)}
		mustApply(t, table, CodeGranted, &Command{Op: OpClaim, Session: ids[0], Seq: i + 1, Floor: i + 1, Names: name})
		mustApply(t, table, CodeWaiting, &Command{Op: OpClaim, Session: ids[1], Seq: i + 1, Floor: i + 1, Names: name})
	}
	s, _ := table.sessions.Get(ids[0])
	var eff Effects
	r := table.Apply(table.index+1, 3, 0, &Command{Op: OpExpire, Session: ids[0], RenewIndex: s.renewIndex, Term: 3}, &eff)
	if r.Code != CodeOK || len(eff.Events) != 1+2*n || !slices.Equal(eff.Ended, ids[:1]) {
		t.Fatalf("%v with %d events", r.Code, len(eff.Events))
	}
	grants := mustApply(t, table, CodeOK, &Command{Op: OpRenew, Session: ids[1]}).Grants
	if len(grants) != n || !slices.IsSortedFunc(grants, func(a, b Grant) int { return int(a.Seq) - int(b.Seq) }) {
		t.Errorf("%d grants, or out of order", len(grants))
	}
	if err := checkInvariants(table); err != nil {
		t.Error(err)
	}
}

// TestApplyKeepsNothingOfTheCommand: the caller may reuse the command's slice of names.
func TestApplyKeepsNothingOfTheCommand(t *testing.T) {
	table, ids := founded(t, 1)
	names := []string{"a", "b"}
	mustApply(t, table, CodeGranted, &Command{Op: OpClaim, Session: ids[0], Seq: 1, Names: names})
	names[0], names[1] = "x", "y"
	if got := table.Names("", "", 9); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("names %q", got)
	}
	if err := checkInvariants(table); err != nil {
		t.Error(err)
	}
}

func TestTheRealLimits(t *testing.T) {
	table, ids := founded(t, 1)
	s := ids[0]
	for i := range uint64(MaxFinished) {
		mustApply(t, table, CodeNotHeld, &Command{Op: OpUnlock, Session: s, Seq: i + 1, Floor: 1, Of: 9_999, Token: 5})
	}
	next := Command{Op: OpClaim, Session: s, Seq: MaxFinished + 1, Floor: 1, Names: []string{"a"}}
	hash := func() any {
		v, _ := table.sessions.Get(s)
		return [3]any{v.finished, table.claims.Len(), table.counter}
	}
	before := hash()
	r := mustApply(t, table, CodeOverloaded, &next)
	if !r.Renewed || hash() != before {
		t.Errorf("renewed %v, state %v, was %v", r.Renewed, hash(), before)
	}
	next.Floor = 2
	mustApply(t, table, CodeGranted, &next)
}

// A session that is full because one request was held up on its way must take that very request: nothing else can raise its floor.
func TestAFullSessionTakesTheSequenceAtItsFloor(t *testing.T) {
	table, ids := founded(t, 1)
	s := ids[0]
	for i := range uint64(MaxFinished) {
		mustApply(t, table, CodeNotHeld, &Command{Op: OpUnlock, Session: s, Seq: i + 2, Floor: 1, Of: 9_999, Token: 5})
	}
	mustApply(t, table, CodeOverloaded, &Command{Op: OpClaim, Session: s, Seq: MaxFinished + 2, Floor: 1, Names: []string{"a"}})
	mustApply(t, table, CodeCancelled, &Command{Op: OpCancel, Session: s, Seq: 1, Floor: 1})
	mustApply(t, table, CodeGranted, &Command{Op: OpClaim, Session: s, Seq: MaxFinished + 2, Floor: MaxFinished + 2, Names: []string{"a"}})
	if err := checkInvariants(table); err != nil {
		t.Error(err)
	}
}

// TestRenewalsAllocateNothing: they are most of what an idle cluster does.
func TestRenewalsAllocateNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	table, ids := founded(t, 1)
	renew, eff := Command{Op: OpRenew, Session: ids[0]}, Effects{Renewed: make([]Renewal, 0, 1)}
	if n := testing.AllocsPerRun(100, func() {
		eff.Renewed = eff.Renewed[:0]
		table.Apply(9, 1, 0, &renew, &eff)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
