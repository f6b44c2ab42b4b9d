package wire

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// story is an hour in the life of a small cluster, as bytes: what its log, its answers, its calls and its snapshots hold. The fuzzers start from
// it, because bytes that make sense together lead them deeper than one value of each kind.
type story struct {
	testing.TB
	table     *locktable.Table
	index     uint64
	seq       map[locktable.SessionID]uint64
	batches   [][]byte
	pushes    [][]byte
	snapshots [][]byte
	results   kinds[resultKind]
	proposals kinds[locktable.Op]
}

// kinds keeps the first encoding of each kind.
type kinds[K comparable] struct {
	seen map[K]bool
	all  [][]byte
}

func (k *kinds[K]) add(kind K, b []byte) {
	if k.seen[kind] {
		return
	}
	if k.seen == nil {
		k.seen = map[K]bool{}
	}
	k.seen[kind] = true
	k.all = append(k.all, b)
}

type resultKind struct {
	op     locktable.Op
	code   locktable.Code
	fields uint64
}

// entry applies commands as one entry of the log and returns their answers.
func (s *story) entry(commands ...locktable.Command) []locktable.Result {
	s.index++
	wall := int64(goldenWall + s.index*150)
	var eff locktable.Effects
	var results []locktable.Result
	for i := range commands {
		c := &commands[i]
		r := s.table.Apply(s.index, 4, wall, c, &eff)
		results = append(results, r)
		s.results.add(resultKind{c.Op, r.Code, resultFieldsOf(&r)}, AppendResult(nil, &r))
		s.proposals.add(c.Op, kindEncode("propose request", ProposeRequest{Timeout: time.Second, Command: *c}))
	}
	s.batches = append(s.batches, kindEncode("batch", Batch{Wall: wall, Level: 1, Commands: commands}))
	var push GrantPush
	for _, e := range eff.Events {
		if e.Kind == locktable.EventGranted {
			push.Events = append(push.Events, GrantEvent{e.Session, e.Seq, e.Token, PushGranted, e.Index, e.Rev})
		}
	}
	if len(push.Events) > 0 {
		s.pushes = append(s.pushes, AppendGrantPush(nil, &push))
	}
	return results
}

func kindEncode(name string, v any) []byte {
	for _, k := range valueKinds {
		if k.name == name {
			return k.encode(nil, v)
		}
	}
	return nil
}

// does is an entry of one command, with the answer without which the story would not go on as it is told.
func (s *story) does(want locktable.Code, c locktable.Command) locktable.Result {
	s.Helper()
	r := s.entry(c)[0]
	if r.Code != want {
		s.Fatalf("%+v is answered %+v, want code %d", c, r, want)
	}
	return r
}

// request gives a command the next sequence of its session.
func (s *story) request(c locktable.Command) locktable.Command {
	s.seq[c.Session]++
	c.Seq, c.Floor = s.seq[c.Session], s.seq[c.Session]
	return c
}

func (s *story) claim(id locktable.SessionID, note string, names ...string) locktable.Command {
	return s.request(locktable.Command{Op: locktable.OpClaim, Session: id, Names: names, Note: note})
}

func (s *story) shared(id locktable.SessionID, name string) locktable.Command {
	return s.request(locktable.Command{Op: locktable.OpClaim, Session: id, Names: []string{name}, Mode: locktable.Shared})
}

func (s *story) permits(id locktable.SessionID, name string, count, limit uint32) locktable.Command {
	return s.request(locktable.Command{
		Op: locktable.OpClaim, Session: id, Names: []string{name}, Mode: locktable.Permits, Count: count, Limit: limit,
	})
}

// about is a request about the hold of a claim.
func (s *story) about(claim locktable.Command, op locktable.Op, token locktable.Token) locktable.Command {
	return s.request(locktable.Command{Op: op, Session: claim.Session, Of: claim.Seq, Token: token})
}

func (s *story) unlock(claim locktable.Command, token locktable.Token) locktable.Command {
	return s.about(claim, locktable.OpUnlock, token)
}

// wait ends the drains and the lock delays that are going on.
func (s *story) wait() {
	for _, d := range slices.Collect(s.table.Drains()) {
		s.does(locktable.CodeOK, locktable.Command{Op: locktable.OpDrained, Rev: d.Grant, RenewIndex: d.Index, Term: 4})
	}
}

func (s *story) snapshot() {
	b := encodeState(s, s.table.Snapshot())
	s.snapshots = append(s.snapshots, b[:len(b)-len(seal(nil))])
}

func newStory(t testing.TB) *story {
	s := &story{TB: t, table: locktable.New(), index: 1_000, seq: map[locktable.SessionID]uint64{}}
	s.entry(locktable.Command{Op: locktable.OpFound, ClusterID: "f81d4fae", Rev: 1_780_000_000_000_000, TTL: time.Minute})
	s.snapshot()
	var ids []locktable.SessionID
	for i := range 5 {
		ids = append(ids, s.does(locktable.CodeOK, locktable.Command{
			Op: locktable.OpOpen, Node: fmt.Sprintf("9c2f%04x", i*7919), NodeName: fmt.Sprint("web-", i), TTL: 10 * time.Second,
			Incarnation: "5d41402a",
		}).Session)
	}
	s.locks(ids)
	s.readers(ids)
	s.semaphore(ids)
	s.election(ids)
	s.delays(ids)
	s.departures(ids)
	return s
}

func (s *story) renew(ids []locktable.SessionID) {
	var renewals []locktable.Command
	for _, id := range ids {
		renewals = append(renewals, locktable.Command{Op: locktable.OpRenew, Session: id, Since: locktable.Rev(id)})
	}
	s.entry(renewals...)
}

// locks: one is granted, the others queue, and what can come between them does.
func (s *story) locks(ids []locktable.SessionID) {
	var rush []locktable.Command
	for _, id := range ids {
		rush = append(rush, s.claim(id, "nightly", "job/report"))
	}
	s.renew(ids)
	holder := s.entry(rush...)[0].Token
	s.does(locktable.CodeWaiting, rush[3]) // asked again after a reconnect
	s.snapshot()
	next := s.entry(s.unlock(rush[0], holder), s.claim(ids[0], "", "shard/17", "shard/18", "größe"))
	try := s.claim(ids[4], "", "shard/18")
	try.Try = true
	s.entry(try, locktable.Command{Op: locktable.OpInspect, Names: []string{"job/report"}})
	s.entry(locktable.Command{Op: locktable.OpCancel, Session: ids[2], Seq: 1, Floor: 1}, rush[2])
	s.does(locktable.CodeDraining, locktable.Command{
		Op: locktable.OpForce, Names: []string{"shard/17"}, Token: next[1].Token, Note: "stuck since noon", Actor: "ops@example.org",
	})
	s.renew(ids)
	s.snapshot()
	s.wait()
}

// readers: a writer waits behind two of them, and lets the next one in by becoming a reader.
func (s *story) readers(ids []locktable.SessionID) {
	first, second := s.shared(ids[0], "table/orders"), s.shared(ids[1], "table/orders")
	phase := s.entry(first, second)[1].Token
	writer := s.claim(ids[2], "migration", "table/orders")
	s.does(locktable.CodeWaiting, writer)
	s.does(locktable.CodeWaiting, s.shared(ids[3], "table/orders"))
	s.entry(s.unlock(first, phase), s.unlock(second, phase))
	down := s.about(writer, locktable.OpDowngrade, s.does(locktable.CodeGranted, writer).Token)
	down.Note = "checks"
	s.does(locktable.CodeGranted, down)
	s.does(locktable.CodeOK, locktable.Command{Op: locktable.OpInspect, Names: []string{"table/orders"}})
}

// semaphore: a large request waits for room, and ends when the limit falls below it.
func (s *story) semaphore(ids []locktable.SessionID) {
	held := s.permits(ids[0], "pool/gpu", 2, 3)
	s.does(locktable.CodeGranted, held)
	s.does(locktable.CodeGranted, s.permits(ids[1], "pool/gpu", 1, 3))
	s.does(locktable.CodeWaiting, s.permits(ids[2], "pool/gpu", 3, 3))
	s.does(locktable.CodeWaiting, s.permits(ids[3], "pool/gpu", 1, 3))
	s.does(locktable.CodeLimit, s.permits(ids[4], "pool/gpu", 1, 5))
	s.does(locktable.CodeKind, s.claim(ids[4], "", "pool/gpu"))
	s.snapshot()
	resize := s.request(locktable.Command{Op: locktable.OpResize, Session: ids[4], Names: []string{"pool/gpu"}, Limit: 2})
	s.does(locktable.CodeOK, resize)
	s.renew(ids)
	idle := s.request(locktable.Command{Op: locktable.OpResize, Session: ids[4], Names: []string{"pool/idle"}, Limit: 8, Former: 4})
	s.does(locktable.CodeOK, idle)
	s.does(locktable.CodeOK, locktable.Command{Op: locktable.OpList, Names: []string{"pool/"}, Count: 10})
	s.snapshot()
	forget := s.request(locktable.Command{Op: locktable.OpResize, Session: ids[4], Names: []string{"pool/idle"}})
	s.does(locktable.CodeOK, forget)
}

// election: the leader publishes an address, hands over to a candidate of its choice, and that one's process to its successor.
func (s *story) election(ids []locktable.SessionID) {
	leader := s.claim(ids[0], "", "leader/billing")
	leader.Value = "10.0.0.1:8080"
	token := s.does(locktable.CodeGranted, leader).Token
	s.does(locktable.CodeWaiting, s.claim(ids[1], "", "leader/billing"))
	candidate := s.claim(ids[2], "", "leader/billing")
	chosen := s.does(locktable.CodeWaiting, candidate).Rev
	proclaim := s.about(leader, locktable.OpProclaim, token)
	proclaim.Value = "10.0.0.1:8081"
	s.does(locktable.CodeOK, proclaim)
	nobody := s.about(leader, locktable.OpHandOver, token)
	nobody.Rev = locktable.Rev(ids[4])
	s.does(locktable.CodeNoWaiter, nobody)
	handOver := s.about(leader, locktable.OpHandOver, token)
	handOver.Rev = chosen
	s.does(locktable.CodeReleased, handOver)
	token = s.does(locktable.CodeGranted, candidate).Token
	offer := s.about(candidate, locktable.OpOffer, token)
	offer.Secret = locktable.OfferHash("b5d4045c")
	s.does(locktable.CodeOK, offer)
	s.snapshot()
	accept := s.request(locktable.Command{
		Op: locktable.OpAccept, Session: ids[4], From: ids[2], Of: candidate.Seq, Token: token, Secret: "b5d4045c", Note: "new process",
	})
	s.does(locktable.CodeGranted, accept)
	s.does(locktable.CodeNotHeld, s.unlock(candidate, token))
}

// delays: a crane cannot check tokens, so it stays barred for a while after its holder is gone.
func (s *story) delays(ids []locktable.SessionID) {
	crane := s.claim(ids[1], "", "crane")
	crane.Delay = 15 * time.Second
	s.does(locktable.CodeGranted, crane)
	s.does(locktable.CodeWaiting, s.claim(ids[3], "", "crane"))
	s.does(locktable.CodeOK, locktable.Command{Op: locktable.OpExpire, Session: ids[1], RenewIndex: s.index - 1, Term: 4})
	s.does(locktable.CodeOK, locktable.Command{Op: locktable.OpInspect, Names: []string{"crane"}})
	s.snapshot()
	s.wait()
}

// departures: the last ways in which a hold ends.
func (s *story) departures(ids []locktable.SessionID) {
	s.does(locktable.CodeOK, locktable.Command{Op: locktable.OpList, Count: 3})
	s.does(locktable.CodeOK, locktable.Command{Op: locktable.OpList, Names: []string{"pool/"}, After: "pool/", Count: 100})
	s.does(locktable.CodeOK, locktable.Command{
		Op: locktable.OpForce, Names: []string{"crane"}, Token: s.table.Inspect("crane").Holders[0].Token, Session: ids[3], Now: true,
		Note: "wrong crane", Actor: "ops@example.org",
	})
	s.entry(locktable.Command{Op: locktable.OpClose, Session: ids[4], Now: true}, locktable.Command{Op: locktable.OpBarrier})
	s.does(locktable.CodeOK, locktable.Command{
		Op: locktable.OpRestart, Node: "9c2f0000", Incarnation: "5d41402a", RenewIndex: s.index,
	})
	s.snapshot()
}

// corpusOf are the seeds of each fuzz target, as lines of a corpus file.
func corpusOf(s *story) map[string][]string {
	corpus := map[string][]string{}
	add := func(target string, all [][]byte) {
		for _, b := range all {
			corpus[target] = append(corpus[target], fmt.Sprintf("[]byte(%q)", b))
		}
	}
	add("FuzzDecodeBatch", s.batches)
	add("FuzzDecodeResult", s.results.all)
	add("FuzzReadSnapshot", s.snapshots)
	message := func(kind string, all [][]byte) {
		i := slices.IndexFunc(valueKinds, func(k valueKind) bool { return k.name == kind })
		for _, b := range all {
			corpus["FuzzMessages"] = append(corpus["FuzzMessages"], fmt.Sprintf("byte(%q)\n[]byte(%q)", rune(i), b))
		}
	}
	message("propose request", s.proposals.all)
	message("grant push", s.pushes)
	return corpus
}

// TestCorpus holds the committed seeds against what is written today; -update writes them anew. A seed that cannot be read any more leads a fuzzer
// nowhere.
func TestCorpus(t *testing.T) {
	for target, seeds := range corpusOf(newStory(t)) {
		for i, seed := range seeds {
			path := filepath.Join("testdata", "fuzz", target, fmt.Sprintf("story-%02d", i))
			want := []byte("go test fuzz v1\n" + seed + "\n")
			if *update {
				if err := os.WriteFile(path, want, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is not what is written today (run with -update): %v", path, err)
			}
		}
	}
}
