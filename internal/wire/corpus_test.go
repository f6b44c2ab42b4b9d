package wire

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// story is an hour in the life of a small cluster, as bytes: what its log, its answers, its calls and its snapshots hold. The fuzzers start from
// it, because bytes that make sense together lead them deeper than one value of each kind.
type story struct {
	table             *locktable.Table
	index             uint64
	seq               map[locktable.SessionID]uint64
	drains            []locktable.Drain
	batches, results  [][]byte
	proposals, pushes [][]byte
	snapshots         [][]byte
}

// entry applies commands as one entry of the log and returns their answers.
func (s *story) entry(commands ...locktable.Command) []locktable.Result {
	s.index++
	wall := int64(goldenWall + s.index*150)
	var eff locktable.Effects
	var results []locktable.Result
	for i := range commands {
		r := s.table.Apply(s.index, 4, wall, &commands[i], &eff)
		results = append(results, r)
		s.results = append(s.results, AppendResult(nil, &r))
	}
	s.drains = append(s.drains, eff.Drains...)
	batch := kindEncode("batch", Batch{Wall: wall, Level: 1, Commands: commands})
	s.batches = append(s.batches, batch)
	s.proposals = append(s.proposals, kindEncode("propose request", ProposeRequest{Timeout: time.Second, Command: commands[0]}))
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

func (s *story) claim(id locktable.SessionID, note string, names ...string) locktable.Command {
	s.seq[id]++
	return locktable.Command{Op: locktable.OpClaim, Session: id, Seq: s.seq[id], Floor: s.seq[id], Names: names, Note: note}
}

func (s *story) unlock(id locktable.SessionID, token locktable.Token) locktable.Command {
	s.seq[id]++
	return locktable.Command{Op: locktable.OpUnlock, Session: id, Seq: s.seq[id], Floor: s.seq[id], Token: token}
}

func (s *story) snapshot(t testing.TB) {
	b := encodeState(t, s.table.Snapshot())
	s.snapshots = append(s.snapshots, b[:len(b)-len(seal(nil))])
}

func newStory(t testing.TB) *story {
	s := &story{table: locktable.New(), index: 1_000, seq: map[locktable.SessionID]uint64{}}
	s.entry(locktable.Command{Op: locktable.OpFound, ClusterID: "f81d4fae", Rev: 1_780_000_000_000_000, TTL: time.Minute})
	s.snapshot(t)
	var ids []locktable.SessionID
	var renewals, rush []locktable.Command
	for i := range 5 {
		open := locktable.Command{
			Op: locktable.OpOpen, Node: fmt.Sprintf("9c2f%04x", i*7919), NodeName: fmt.Sprint("web-", i), TTL: 10 * time.Second,
		}
		id := s.entry(open)[0].Session
		ids = append(ids, id)
		renewals = append(renewals, locktable.Command{Op: locktable.OpRenew, Session: id, Since: locktable.Rev(id)})
		rush = append(rush, s.claim(id, "nightly", "job/report"))
	}
	s.entry(renewals...)
	holder := s.entry(rush...)[0].Token // one is granted, the others queue
	s.entry(rush[3])                    // asked again after a reconnect
	s.snapshot(t)
	next := s.entry(s.unlock(ids[0], holder), s.claim(ids[0], "", "shard/17", "shard/18", "größe"))
	try := s.claim(ids[4], "", "shard/18")
	try.Try = true
	s.entry(try, locktable.Command{Op: locktable.OpInspect, Names: []string{"job/report"}})
	s.entry(locktable.Command{Op: locktable.OpCancel, Session: ids[2], Seq: 1, Floor: 1}, rush[2])
	force := locktable.Command{
		Op: locktable.OpForce, Names: []string{"shard/17"}, Token: next[1].Token, Note: "stuck since noon", Actor: "ops@example.org",
	}
	s.entry(force)
	s.entry(renewals...)
	s.snapshot(t)
	for _, d := range s.drains {
		s.entry(locktable.Command{Op: locktable.OpDrained, Token: d.Token, RenewIndex: d.Index, Term: 4})
	}
	s.entry(locktable.Command{Op: locktable.OpExpire, Session: ids[1], RenewIndex: s.index - 1, Term: 4})
	force.Names, force.Now = []string{"job/report"}, true
	force.Token = s.table.Inspect("job/report").Holders[0].Token
	s.entry(force, locktable.Command{Op: locktable.OpClose, Session: ids[4]}, locktable.Command{Op: locktable.OpBarrier})
	s.snapshot(t)
	return s
}

// corpusOf are the seeds of each fuzz target, as lines of a corpus file.
func corpusOf(s *story) map[string][]string {
	corpus := map[string][]string{}
	add := func(target string, all [][]byte, most int) {
		for i := 0; i < len(all) && i < most; i++ {
			corpus[target] = append(corpus[target], fmt.Sprintf("[]byte(%q)", all[i]))
		}
	}
	add("FuzzDecodeBatch", s.batches, 20)
	add("FuzzDecodeResult", s.results, 24)
	add("FuzzReadSnapshot", s.snapshots, 8)
	message := func(kind string, all [][]byte, most int) {
		for i, k := range valueKinds {
			for n := 0; k.name == kind && n < len(all) && n < most; n++ {
				corpus["FuzzMessages"] = append(corpus["FuzzMessages"], fmt.Sprintf("byte(%q)\n[]byte(%q)", rune(i), all[n]))
			}
		}
	}
	message("propose request", s.proposals, 12)
	message("grant push", s.pushes, 8)
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
