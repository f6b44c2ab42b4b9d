package quorumlock

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestHashPointsDependOnIndexAndSizeAlone(t *testing.T) {
	for _, test := range []struct {
		objects int
		want    uint64
	}{
		{0, 1024}, {16 * 1024, 1024}, {16*1024 + 16, 2048}, {100_000, 8192}, {1_000_000, 65536}, {4_000_000, 1 << 18},
	} {
		got := hashInterval(hashEvery, test.objects)
		if got != test.want || bits.OnesCount64(got) != 1 || got*objectsPerEntry+objectsPerEntry <= uint64(test.objects) {
			t.Errorf("%d objects: every %d entries, want %d", test.objects, got, test.want)
		}
	}
	small, large := 0, 0
	for index := uint64(1); index <= 1<<18; index++ {
		isLarge := isHashPoint(index, hashEvery, 1_000_000)
		if isLarge && !isHashPoint(index, hashEvery, 0) {
			t.Fatalf("%d is a point of the large state only", index)
		}
		if isLarge {
			large++
		}
		if isHashPoint(index, hashEvery, 0) {
			small++
		}
	}
	if small != 256 || large != 4 {
		t.Errorf("%d points of a small state, %d of a large one", small, large)
	}
}

// pts writes hashes as letters: "b:aB" is voter b with hash a at the first index and B at the second; a dot is no hash there.
func pts(letters string) []wire.HashPoint {
	var list []wire.HashPoint
	for i, c := range letters {
		if c != '.' {
			list = append(list, wire.HashPoint{Index: uint64(i+1) * hashEvery, Hash: [32]byte{byte(c)}})
		}
	}
	return list
}

func TestJudge(t *testing.T) {
	const at1, at2 = hashEvery, 2 * hashEvery
	for _, test := range []struct {
		name    string
		voters  string // one letter each; s is this member
		mine    string
		answers string
		at      uint64 // 0: goes on
		split   bool
		settled bool
		differs string
	}{
		{name: "alone", voters: "s", mine: "a", settled: true},
		{name: "no voters known", voters: "", mine: "a", settled: true},
		{name: "all agree", voters: "sbc", mine: "a", answers: "b:a c:a", settled: true},
		{name: "a majority agrees with me", voters: "sbc", mine: "a", answers: "b:a", settled: true},
		{name: "nobody answers", voters: "sbc", mine: "a"},
		{name: "others have other indexes", voters: "sbc", mine: "a", answers: "b:.a c:.x"},
		{name: "a majority differs", voters: "sbc", mine: "a", answers: "b:x c:x", at: at1, settled: true, differs: "bc"},
		{name: "one of three differs, one is silent", voters: "sbc", mine: "a", answers: "b:x"},
		{name: "one of three differs, one agrees", voters: "sbc", mine: "a", answers: "b:x c:a", settled: true},
		{name: "three of three differ", voters: "sbc", mine: "a", answers: "b:x c:y", at: at1, split: true, settled: true, differs: "bc"},
		{name: "two voters differ", voters: "sb", mine: "a", answers: "b:x", at: at1, split: true, settled: true, differs: "b"},
		{name: "two voters agree", voters: "sb", mine: "a", answers: "b:a", settled: true},
		{name: "one of two is silent", voters: "sb", mine: "a"},
		{name: "half of four differ", voters: "sbcd", mine: "a", answers: "b:a c:x d:x", at: at1, split: true, settled: true, differs: "cd"},
		{name: "two of four differ, one is silent", voters: "sbcd", mine: "a", answers: "b:x c:x"},
		{name: "three of four differ", voters: "sbcd", mine: "a", answers: "b:x c:x d:x", at: at1, settled: true, differs: "bcd"},
		{name: "two of five differ", voters: "sbcde", mine: "a", answers: "b:x c:x d:a e:a", settled: true},
		{name: "two of five differ, two are silent", voters: "sbcde", mine: "a", answers: "b:x c:x"},
		{name: "three of five differ", voters: "sbcde", mine: "a", answers: "b:x c:x d:x", at: at1, settled: true, differs: "bcd"},
		{name: "two, two, one", voters: "sbcde", mine: "a", answers: "b:a c:x d:x e:y", at: at1, split: true, settled: true, differs: "cde"},
		{name: "two, two, one silent", voters: "sbcde", mine: "a", answers: "b:a c:x d:x"},
		{name: "two, one, one, one silent", voters: "sbcde", mine: "a", answers: "b:a c:x d:y"},
		{name: "one each, one silent", voters: "sbcde", mine: "a", answers: "b:w c:x d:y", at: at1, split: true, settled: true, differs: "bcd"},
		{name: "without a vote, voters differ", voters: "bcd", mine: "a", answers: "b:x c:x d:a", at: at1, settled: true, differs: "bc"},
		{name: "without a vote, one differs", voters: "bcd", mine: "a", answers: "b:x"},
		{name: "without a vote, the only voter differs", voters: "b", mine: "a", answers: "b:x", at: at1, settled: true, differs: "b"},
		{name: "without a vote, voters are split", voters: "bc", mine: "a", answers: "b:a c:x", at: at1, split: true, settled: true, differs: "c"},
		{name: "without a vote, voters agree", voters: "bcd", mine: "a", answers: "b:a c:a", settled: true},
		{name: "my own answer does not count twice", voters: "sbc", mine: "a", answers: "s:x b:x"},
		{name: "who does not vote does not count", voters: "sbc", mine: "a", answers: "b:x z:x y:x"},
		{name: "at the second index", voters: "sbc", mine: "aa", answers: "b:ax c:ax", at: at2, settled: true, differs: "bc"},
		{name: "at an older index only", voters: "sbc", mine: "aaa", answers: "b:x. c:x", at: at1, settled: true, differs: "bc"},
		{name: "the first of two is told", voters: "sbc", mine: "ab", answers: "b:xx c:xx", at: at1, settled: true, differs: "bc"},
		{name: "two answers at different indexes", voters: "sbc", mine: "aa", answers: "b:x. c:.x"},
		{name: "the newest is not settled by an older one", voters: "sbc", mine: "aa", answers: "b:a c:a"},
	} {
		answers := make(map[string][]wire.HashPoint)
		for _, a := range strings.Fields(test.answers) {
			answers[a[:1]] = pts(a[2:])
		}
		got := judge("s", strings.Split(test.voters, ""), pts(test.mine), answers)
		if got.settled != test.settled {
			t.Errorf("%s: settled %v", test.name, got.settled)
		}
		if test.at == 0 {
			if got.diverged != nil {
				t.Errorf("%s: %v", test.name, got.diverged)
			}
			continue
		}
		d := got.diverged
		if d == nil || d.Index != test.at || d.Split != test.split || strings.Join(d.Differs, "") != test.differs || d.Voters != len(test.voters) {
			t.Errorf("%s: %+v", test.name, d)
		}
	}
}

// Whatever the states of the voters are and whichever of them answer: a member stops only if another one's state really differs; with all answers heard, the
// voters that go on all have one state, which a majority has; and two that would stop each other with some answers out do so with all.
func TestJudgeOverAllAnswers(t *testing.T) {
	stopped, cases := 0, 0
	for n := 1; n <= 5; n++ {
		voters := strings.Split("abcde"[:n], "")
		for states := range pow(3, n) {
			hash := func(i int) string { return "xyz"[states/pow(3, i)%3:][:1] }
			var on []string
			for i, self := range voters {
				full := stops(t, voters, i, hash, 1<<n-1)
				if !full {
					on = append(on, hash(i))
				}
				for heard := range 1 << n {
					cases++
					if stops(t, voters, i, hash, heard) {
						stopped++
						if !full {
							t.Fatalf("%s of %v stops by the answers %b and not by all", self, voters, heard)
						}
						if n > 2 && bits.OnesCount(uint(heard&^(1<<i))) < 2 {
							t.Fatalf("%s of %v stops by a lone answer", self, voters)
						}
					}
				}
			}
			if slices.Sort(on); len(slices.Compact(slices.Clone(on))) > 1 || len(on) > 0 && len(on) <= n/2 {
				t.Fatalf("%d voters go on with the states %v", n, on)
			}
		}
	}
	if stopped == 0 {
		t.Errorf("nobody stopped in %d cases", cases)
	}
}

func stops(t *testing.T, voters []string, self int, hash func(int) string, heard int) bool {
	t.Helper()
	answers := make(map[string][]wire.HashPoint)
	agree := true
	for i, id := range voters {
		if heard&(1<<i) != 0 {
			answers[id] = pts(hash(i))
			agree = agree && hash(i) == hash(self)
		}
	}
	d := judge(voters[self], voters, pts(hash(self)), answers).diverged
	if d != nil && agree {
		t.Fatalf("stops though all that it heard have its state: %v", d)
	}
	return d != nil
}

func pow(base, exp int) int {
	p := 1
	for range exp {
		p *= base
	}
	return p
}

func TestOnlyHashesOfThisStateMachineAndClusterAreCompared(t *testing.T) {
	good := wire.HashesReply{ClusterID: "c", Level: wire.Level, HashVersion: locktable.HashVersion}
	if err := checkComparable(&good, "c", wire.Level); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*wire.HashesReply){
		"cluster": func(r *wire.HashesReply) { r.ClusterID = "d" },
		"none":    func(r *wire.HashesReply) { r.ClusterID = "" },
		"level":   func(r *wire.HashesReply) { r.Level++ },
		"form":    func(r *wire.HashesReply) { r.HashVersion-- },
	} {
		r := good
		if change(&r); checkComparable(&r, "c", wire.Level) == nil {
			t.Errorf("other %s: compared", name)
		}
	}
}

// hashing is a machine whose background tasks run when the test says so.
type hashing struct {
	*machine
	tasks []func()
}

func newHashing(least uint64) *hashing {
	h := &hashing{machine: newMachine()}
	h.hashes.least = least
	h.hashes.run = func(f func()) bool { h.tasks = append(h.tasks, f); return true }
	h.hashes.goOn = func() bool { return true }
	return h
}

func (h *hashing) runTasks() {
	for _, f := range h.tasks {
		f()
	}
	h.tasks = nil
}

func indexesOf(points []wire.HashPoint) []uint64 {
	var list []uint64
	for _, p := range points {
		list = append(list, p.Index)
	}
	return list
}

// A hash is of the state at its point, however far the state has moved on when it is taken; and a point is passed over while one is taken.
func TestHashIsOfTheStateAtItsPoint(t *testing.T) {
	m := newHashing(4)
	m.commands(t, found())
	want := make(map[uint64][32]byte)
	for range 15 {
		m.commands(t, open("a"))
		want[m.index] = m.view().Hash()
		if m.index == 10 {
			m.runTasks()
		}
	}
	m.runTasks()
	got := m.hashes.last()
	if !slices.Equal(indexesOf(got), []uint64{4, 12}) {
		t.Errorf("points at %v", indexesOf(got))
	}
	for _, p := range got {
		if p.Hash != want[p.Index] {
			t.Errorf("another hash at %d", p.Index)
		}
	}
	for range 100 {
		m.commands(t, open("a"))
		m.runTasks()
	}
	if got := m.hashes.last(); len(got) != keptHashes || got[keptHashes-1].Index != 112 {
		t.Errorf("points at %v", indexesOf(got))
	}
}

func TestHashesOfAReplacedStateAreForgotten(t *testing.T) {
	m := newHashing(4)
	m.commands(t, found())
	for range 6 {
		m.commands(t, open("a"))
		if m.index == 5 {
			m.runTasks()
		}
	}
	m.commands(t, open("a")) // a hash is under way
	m.hashes.replaced()
	m.runTasks()
	if got := m.hashes.last(); len(got) != 0 {
		t.Errorf("points at %v", indexesOf(got))
	}
	for range 4 {
		m.commands(t, open("a"))
	}
	m.runTasks()
	if got := m.hashes.last(); !slices.Equal(indexesOf(got), []uint64{12}) {
		t.Errorf("points at %v", indexesOf(got))
	}
}

// A hash that nobody waits for, or that cannot be started, leaves the way free for the next one.
func TestUnfinishedHashIsNoHash(t *testing.T) {
	m := newHashing(4)
	m.commands(t, found())
	fill := func() {
		for range 2000 {
			m.commands(t, open(strings.Repeat("a", 200)))
		}
	}
	run := m.hashes.run
	m.hashes.run = func(func()) bool { return false }
	fill()
	m.hashes.run, m.hashes.goOn = run, func() bool { return false }
	fill()
	m.runTasks()
	if got := m.hashes.last(); len(got) != 0 {
		t.Fatalf("points at %v", indexesOf(got))
	}
	m.hashes.goOn = func() bool { return true }
	fill()
	m.runTasks()
	if got := m.hashes.last(); len(got) != 1 {
		t.Errorf("points at %v", indexesOf(got))
	}
}

func TestDivergedErrorSaysWhatAPersonNeeds(t *testing.T) {
	d := &DivergedError{Index: 2048, Differs: []string{"b", "c"}, Voters: 3}
	node := error(&nodeError{err: fmt.Errorf("x: %w", d)})
	var got *DivergedError
	if !errors.Is(node, ErrDiverged) || !errors.Is(node, ErrFailed) || !errors.As(node, &got) || got.Index != 2048 {
		t.Errorf("%v", node)
	}
	for _, word := range []string{"2048", "2 of 3", "b, c"} {
		if !strings.Contains(d.Error(), word) {
			t.Errorf("%q is not in %q", word, d)
		}
	}
	if d.Split = true; !strings.Contains(d.Error(), "all of them stop") || !strings.Contains(d.Error(), "found a new cluster") {
		t.Errorf("%q", d)
	}
	lost := &LostError{Cause: CauseDiverged}
	if !errors.Is(lost, ErrDiverged) || !errors.Is(lost, ErrLost) || errors.Is(lost, ErrClusterChanged) {
		t.Errorf("%v", lost)
	}
}

// BenchmarkApply applies entries of 64 claims and unlocks to a state of 100,000 holds, with hash points and without. B/op and ns/op are of one entry.
func BenchmarkApply(b *testing.B) {
	for _, holds := range []int{1000, 100_000} {
		for _, least := range []uint64{1 << 62, hashEvery} {
			name := fmt.Sprintf("holds=%d/hashes=%v", holds, least == hashEvery)
			b.Run(name, func(b *testing.B) { benchmarkApply(b, holds, least) })
		}
	}
}

func benchmarkApply(b *testing.B, holds int, least uint64) {
	m := newMachine()
	m.hashes.least = least
	m.hashes.run = func(f func()) bool { go f(); return true }
	m.hashes.goOn = func() bool { return true }
	apply := func(cmds ...*locktable.Command) []locktable.Result {
		results, _ := resultsOf(m.entry(wire.AppendBatch(nil, 1, cmds)))
		return results
	}
	apply(found())
	id := apply(open("a"))[0].Session
	seq := uint64(0)
	claim := func(name string) *locktable.Command {
		seq++
		return &locktable.Command{Op: locktable.OpClaim, Session: id, Seq: seq, Floor: seq, Names: []string{name}}
	}
	for i := range holds {
		apply(claim(fmt.Sprintf("tenant/%07d", i*7919%holds)))
	}
	cmds := make([]*locktable.Command, 64)
	for b.Loop() {
		for i := range 32 {
			cmds[i] = claim(fmt.Sprintf("other/%02d", i))
		}
		var unlock []*locktable.Command
		for _, r := range apply(cmds[:32]...) {
			seq++
			unlock = append(unlock, &locktable.Command{Op: locktable.OpUnlock, Session: id, Seq: seq, Floor: seq, Token: r.Token})
		}
		apply(unlock...)
	}
}

func voterSet(ids ...string) (c raft.Configuration) {
	for _, id := range ids {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(id), Address: "x"})
	}
	return c
}

// A state is judged by the voters of its index: of the log's latest committed configuration, or of the snapshot that stands in its place.
func TestVotersAreThoseOfTheIndex(t *testing.T) {
	m := newMachine()
	if got := since(pts("aaa"), m.electorate()); got != nil {
		t.Errorf("voters not known: points at %v", indexesOf(got))
	}
	c := voterSet("a", "b", "c")
	c.Servers[1].Suffrage = raft.Nonvoter
	m.StoreConfiguration(hashEvery+1, c)
	e := m.electorate()
	if !slices.Equal(e.voters, []string{"a", "c"}) {
		t.Errorf("voters %v", e.voters)
	}
	for _, test := range []struct {
		points string
		from   uint64
		want   []uint64
	}{
		{"aaa", hashEvery + 1, []uint64{2 * hashEvery, 3 * hashEvery}},
		{"aaa", 2 * hashEvery, []uint64{2 * hashEvery, 3 * hashEvery}},
		{"aaa", 3*hashEvery + 1, nil},
		{"aaa", 1, []uint64{hashEvery, 2 * hashEvery, 3 * hashEvery}},
		{"", 1, nil},
	} {
		got := indexesOf(since(pts(test.points), electorate{since: test.from, voters: []string{"a"}}))
		if !slices.Equal(got, test.want) {
			t.Errorf("%q since %d: points at %v", test.points, test.from, got)
		}
	}

	s, err := store.Open(t.Context(), store.Options{Cluster: "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m.commands(t, found())
	good, _ := snapshotOf(t, m)
	keep := func(index, since uint64, c raft.Configuration) {
		sink, err := s.Snapshots().Create(1, index, 1, c, since, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sink.Write(good); err != nil || sink.Close() != nil {
			t.Fatal(err)
		}
	}
	keep(50, 40, voterSet("a"))
	keep(90, 70, voterSet("b", "c"))
	m.fsm.snapshots = s.Snapshots()
	if err := restore(m, good); err != nil {
		t.Fatal(err)
	}
	if e := m.electorate(); e.since != 70 || !slices.Equal(e.voters, []string{"b", "c"}) {
		t.Errorf("after a snapshot: %+v", e)
	}
	_ = s.Close()
	if err := restore(m, good); err != nil {
		t.Fatal(err)
	}
	if e := m.electorate(); len(e.voters) > 0 {
		t.Errorf("nobody knows the voters: %+v", e)
	}
}
