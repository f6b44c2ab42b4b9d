package quorumlock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// answers is how many voters answered when this node, without a leader, last asked them.
type answers struct {
	at               time.Time
	voters, answered int
}

const (
	askVotersBound = 700 * time.Millisecond
	answersFresh   = 3 * time.Second
)

// askVoters counts the voters that answer now, this node included if it is one.
func (n *Node) askVoters(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askVotersBound)
	defer cancel()
	count := answers{at: time.Now()}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, s := range n.servers() {
		if !s.Voter {
			continue
		}
		count.voters++
		asked.Go(func() {
			if s.ID != n.id {
				if _, err := n.probe(ctx, s.ID); err != nil {
					return
				}
			}
			mu.Lock()
			count.answered++
			mu.Unlock()
		})
	}
	asked.Wait()
	n.answers.Store(&count)
}

// standingBy says what a node that belongs to no cluster yet waits for.
func (n *Node) standingBy() string {
	if n.cfg.caller() {
		return n.whyUnattached()
	}
	return n.founding.Status()
}

// why says for people why there may be no leader. It asks nobody: it is called when somebody's time is over. What runRejoin learned in the last seconds
// counts; before that there is only what gossip believes, which takes seconds to notice a death.
func (n *Node) why() string {
	if !n.isMember() {
		return n.standingBy()
	}
	if a := n.answers.Load(); a != nil && time.Since(a.at) < answersFresh {
		if 2*a.answered > a.voters {
			return fmt.Sprintf("no leader yet: %d of %d voters answer", a.answered, a.voters)
		}
		return fmt.Sprintf("no quorum: %d of %d voters answer%s", a.answered, a.voters, n.recoverHint())
	}
	alive := make(map[string]bool)
	for _, m := range n.gossip.Members() {
		alive[m.ServerID] = true
	}
	voters, believed := 0, 0
	for _, s := range n.servers() {
		if s.Voter {
			voters++
			if s.ID == n.id || alive[s.ID] {
				believed++
			}
		}
	}
	return fmt.Sprintf("no leader answers: %d of %d voters believed alive", believed, voters)
}

// hopeless is how long a node has been without a group when its errors begin to speak of recovery. Before, it is a deploy or a reboot that takes
// its time, and advice to give the others up would do harm.
const hopeless = time.Minute

// recoverHint says what there is if the others do not come back. It is for members with a directory only, and not while another cluster of the
// name is in sight: that is the one to go on with, as a rule.
func (n *Node) recoverHint() string {
	if n.isClient() || n.cfg.Dir == "" && n.cfg.sim.Disk == nil || n.foreignInSight() != "" || n.contactAge() < hopeless {
		return ""
	}
	return "; if the others are gone for good, Recover makes a new cluster of a survivor's data directory"
}

// noQuorum is ErrNoQuorum with the reason.
func (n *Node) noQuorum() error {
	return fmt.Errorf("%w: %s", ErrNoQuorum, strings.TrimPrefix(n.why(), ErrNoQuorum.Error()+": "))
}
