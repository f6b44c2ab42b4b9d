package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

const (
	comparePace   = 100 * time.Millisecond // doubled from round to round; a follower applies an entry some 75 ms after the leader
	compareRounds = 7                      // at each point, while voters that are slower have no hash of theirs yet: 6 s
	condemnBound  = 2 * time.Second        // for the mark on the disk; a disk that hangs must not hide the failure from the host
	// lingerBound is how long a member that stops because nobody can know who is right answers with its hashes before its host learns of it, so that the others
	// come to the same end even if the host then ends the process. It is longer than the longest pause between two rounds of a member that asks.
	lingerBound = 4 * time.Second
)

// runDivergence compares this member's state hashes with those of the voters.
func (n *Node) runDivergence() {
	inRounds(n.life, n.fsm.hashes.fresh, func() bool { return n.failed() != nil || n.compareHashes() })
}

// inRounds calls compare at each fresh hash at once, and then again in rounds, until compare says that it is settled or the rounds are over. ctx ends it.
func inRounds(ctx context.Context, fresh <-chan struct{}, compare func() bool) {
	round := 0
	again := time.NewTimer(0)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-fresh:
			round = 0
		case <-again.C:
		case <-ctx.Done():
			return
		}
		again.Stop()
		if compare() {
			continue
		}
		if round++; round < compareRounds {
			again.Reset(comparePace << (round - 1))
		}
	}
}

// compareHashes makes one comparison and acts on it; true means that there is nothing to learn from another one at this point.
func (n *Node) compareHashes() bool {
	group := n.fsm.electorate()
	mine := since(n.fsm.hashes.last(), group)
	if len(mine) == 0 {
		return true
	}
	v := n.askAndJudge(group.voters, mine)
	n.log.Debug("state hashes compared", "index", mine[len(mine)-1].Index, "settled", v.settled)
	if v.diverged != nil {
		n.diverge(v.diverged)
	}
	return v.settled
}

// since leaves the points at which the voters were those of group. At a point from before, others had a say; and a configuration that is not committed may never
// be. A voter that left may have taken the majority along that was right.
func since(points []wire.HashPoint, group electorate) []wire.HashPoint {
	if len(group.voters) == 0 {
		return nil
	}
	first := slices.IndexFunc(points, func(p wire.HashPoint) bool { return p.Index >= group.since })
	if first < 0 {
		return nil
	}
	return points[first:]
}

// askAndJudge asks the other voters at once and judges with each answer that comes, until none that is still out could change the verdict: one that is
// silent must not hold it up.
func (n *Node) askAndJudge(voters []string, mine []wire.HashPoint) verdict {
	answers := make(map[string][]wire.HashPoint)
	v := judge(n.id, voters, mine, answers)
	if v.settled {
		return v
	}
	for a := range n.askHashes(voters) {
		answers[a.id] = a.points
		if v = judge(n.id, voters, mine, answers); v.settled {
			break
		}
	}
	return v
}

type hashAnswer struct {
	id     string
	points []wire.HashPoint
}

// askHashes gives the hashes of the other voters that answer in time with hashes that are comparable. When the loop ends, so do the calls.
func (n *Node) askHashes(voters []string) iter.Seq[hashAnswer] {
	return func(yield func(hashAnswer) bool) {
		ctx, cancel := context.WithTimeout(n.life, probeTimeout)
		answers := make(chan hashAnswer, len(voters))
		var asked sync.WaitGroup
		for _, id := range voters {
			if id != n.id {
				asked.Go(func() { n.askOne(ctx, id, answers) })
			}
		}
		go func() {
			asked.Wait()
			close(answers)
		}()
		defer func() {
			cancel()
			for range answers { // until it is closed
			}
		}()
		for a := range answers {
			if !yield(a) {
				return
			}
		}
	}
}

func (n *Node) askOne(ctx context.Context, id string, to chan<- hashAnswer) {
	reply, err := n.callHashes(ctx, id)
	if err == nil {
		err = checkComparable(&reply, n.clusterIDNow(), n.binary.Highest())
	}
	if err != nil {
		n.log.Debug("no state hashes to compare with", "server", id, "error", err)
		return
	}
	to <- hashAnswer{id: id, points: reply.Points}
}

func (n *Node) callHashes(ctx context.Context, id string) (wire.HashesReply, error) {
	addr, ok := n.resolve(id)
	if !ok {
		return wire.HashesReply{}, fmt.Errorf("no address known for server %s", id)
	}
	b, err := n.calls.Call(ctx, addr, id, methodHashes, nil)
	if err != nil {
		return wire.HashesReply{}, err
	}
	return wire.DecodeHashesReply(b)
}

func (n *Node) hashesReply() wire.HashesReply {
	return wire.HashesReply{
		ClusterID: n.clusterIDNow(), Level: n.binary.Highest(), HashVersion: locktable.HashVersion, Points: n.fsm.hashes.last(),
	}
}

// checkComparable refuses hashes that may differ from ours without anything being wrong: of another cluster's log, or by another state machine, which
// is met during a rolling upgrade.
func checkComparable(r *wire.HashesReply, clusterID string, level uint32) error {
	switch {
	case r.ClusterID != clusterID:
		return fmt.Errorf("hashes of cluster %q, this is %q", r.ClusterID, clusterID)
	case r.Level != level || r.HashVersion != locktable.HashVersion:
		return fmt.Errorf("hashes of level %d, form %d; these are %d, %d", r.Level, r.HashVersion, level, locktable.HashVersion)
	}
	return nil
}

// verdict is what one comparison says about this member.
type verdict struct {
	diverged *DivergedError // nil: nothing speaks against it
	settled  bool           // at the newest point: no answer that is still out could change it
}

// judge compares mine with what the voters answered; self may be a voter or not. The rule, at each index of mine:
//
//   - A majority of all voters has another hash: this member differs.
//   - No hash can get a majority any more, whatever the voters answer that are still out: nobody can know who is right. Each voter then differs
//     from enough others, so all of them stop, and so does a member without a vote.
//   - Otherwise there is no verdict. So with three voters or more one answer stops nobody.
func judge(self string, voters []string, mine []wire.HashPoint, answers map[string][]wire.HashPoint) verdict {
	var v verdict
	for _, p := range mine {
		c := count(self, voters, p, answers)
		if v.diverged == nil && c.against(p.Hash) {
			v.diverged = &DivergedError{
				Index: p.Index, Hash: fmt.Sprintf("%x", p.Hash), Differs: c.differ, Voters: len(voters), Split: !c.decided(),
			}
		}
		v.settled = v.diverged != nil || c.out == 0 || c.votes[p.Hash] >= c.majority
	}
	return v
}

// tally is what the voters have at one index.
type tally struct {
	votes    map[[32]byte]int
	most     int      // votes of the hash that has most
	out      int      // voters of which nothing is known at this index
	majority int      // of all voters
	differ   []string // voters that have another hash than this member
}

func count(self string, voters []string, p wire.HashPoint, answers map[string][]wire.HashPoint) tally {
	t := tally{votes: make(map[[32]byte]int), majority: len(voters)/2 + 1}
	for _, id := range voters {
		hash, known := p.Hash, true
		if id != self {
			hash, known = hashAt(answers[id], p.Index)
		}
		if !known {
			t.out++
			continue
		}
		t.votes[hash]++
		t.most = max(t.most, t.votes[hash])
		if hash != p.Hash {
			t.differ = append(t.differ, id)
		}
	}
	return t
}

func hashAt(points []wire.HashPoint, index uint64) ([32]byte, bool) {
	i := slices.IndexFunc(points, func(p wire.HashPoint) bool { return p.Index == index })
	if i < 0 {
		return [32]byte{}, false
	}
	return points[i].Hash, true
}

// decided tells that a majority agrees on one hash.
func (t *tally) decided() bool { return t.most >= t.majority }

// against tells that a member with this hash must stop.
func (t *tally) against(hash [32]byte) bool {
	if t.decided() {
		return t.votes[hash] < t.majority
	}
	return len(t.differ) > 0 && t.most+t.out < t.majority
}

// diverge stops this member for good. What counts comes first: it applies nothing any more and takes no part in raft, so that nothing more comes of its state. Then its
// directory is marked, and only then do its sessions and its host learn of it, since either word may end the process at once.
func (n *Node) diverge(why *DivergedError) {
	n.verdict.Store(why)
	n.fsm.stop(why)
	n.cuts.end()
	n.condemn(why)
	if why.Split {
		pause(n.life, lingerBound)
	}
	for _, s := range n.sessions.turn() {
		s.lose(&LostError{Cause: CauseDiverged, Reason: fmt.Sprintf("found at index %d", why.Index)})
	}
	n.fail(why)
}

// withVerdict keeps a failure that comes while diverge is under way (a full disk refuses the mark, and raft's own writes too) from hiding the reason
// that weighs more.
func (n *Node) withVerdict(err error) error {
	why := n.verdict.Load()
	if why == nil || errors.Is(err, ErrDiverged) {
		return err
	}
	return fmt.Errorf("%w; meanwhile: %w", why, err)
}

// condemn marks the data directory, so that a restart does not bring the member back with the same state, or with the fault that made it.
func (n *Node) condemn(why error) {
	if !n.store.Durable() {
		return
	}
	marked := make(chan error, 1)
	if !n.spawn(func() { marked <- n.store.Condemn(why.Error()) }) {
		return // the node is being closed
	}
	bound := time.NewTimer(condemnBound)
	defer bound.Stop()
	select {
	case err := <-marked:
		if err != nil {
			n.log.Error("data directory not marked: do not start with it again", "error", err)
		}
	case <-bound.C:
		n.log.Error("data directory not marked yet, its disk hangs: do not start with it again")
	case <-n.life.Done():
	}
}
