package quorumlocktest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
)

// defaultTimeLimit is far beyond what a test of a lock's life needs. For three nodes it passes in about ten seconds, with the race detector in
// about one minute or two: in time before go test's own timeout of ten minutes.
const defaultTimeLimit = time.Hour

// TimeLimit fails the test when the cluster has lived for d of fake time: the test waits for something that does not
// come, and since the nodes renew their sessions for ever, fake time would go on until go test's own timeout. The
// failure reports which instances are up, and which locks are held by whom and who waits for them. Then the cluster is
// closed, as at the end of the test, so that calls that wait in its nodes return. Default one hour, which three nodes
// live through in about ten seconds of real time, or a minute or two with the race detector; 0 or less is no limit.
func TimeLimit(d time.Duration) Option { return func(o *options) { o.timeLimit = d } }

// limit ends a cluster whose test does not.
type limit struct {
	timer *time.Timer   // nil without a limit
	over  chan struct{} // closed when the report has been given and the cluster has been ended
}

// newLimit starts to count. stop must be called before the test is over: nothing may be reported of it afterwards.
func newLimit(c *Cluster) *limit {
	l := &limit{over: make(chan struct{})}
	if d := c.opt.timeLimit; d > 0 {
		l.timer = time.AfterFunc(d, func() {
			defer close(l.over)
			c.t.Errorf("the test goes on after %v of fake time, which is its TimeLimit\n%s", d, c.report())
			c.end()
		})
	}
	return l
}

// stop ends the counting, or waits until the cluster that had its time has ended.
func (l *limit) stop() {
	if l.timer != nil && !l.timer.Stop() {
		<-l.over
	}
}

// mostReported is how many locks a report shows.
const mostReported = 50

// report tells who is up, who holds what, and who waits for it.
func (c *Cluster) report() string {
	var b strings.Builder
	var witness *quorumlock.Node // the one that is ahead of the others
	var who int
	var newest uint64
	for i, in := range c.all() {
		node := c.running(in)
		switch {
		case node == nil:
			fmt.Fprintf(&b, "instance %d is down\n", i)
			continue
		case node.Err() != nil:
			fmt.Fprintf(&b, "instance %d: %v\n", i, node.Err())
			continue
		case sim.Leading(node):
			fmt.Fprintf(&b, "instance %d leads\n", i)
		default:
			fmt.Fprintf(&b, "instance %d is up\n", i)
		}
		if index, _ := sim.State(node); index >= newest {
			witness, who, newest = node, i, index
		}
	}
	if witness == nil {
		return b.String() + "no instance can tell which locks are held"
	}
	fmt.Fprintf(&b, "locks held or waited for, as instance %d knows them:\n", who)
	reportLocks(&b, witness)
	b.WriteString("The cluster is closed, so that calls that wait for it return.")
	return b.String()
}

func reportLocks(b *strings.Builder, node *quorumlock.Node) {
	shown := 0
	for info, err := range node.Locks(context.Background(), "", quorumlock.Local()) {
		if err != nil {
			fmt.Fprintf(b, "  %v\n", err)
			return
		}
		if shown++; shown > mostReported {
			b.WriteString("  and more\n")
			return
		}
		reportLock(b, &info)
	}
	if shown == 0 {
		b.WriteString("  none\n")
	}
}

func reportLock(b *strings.Builder, info *quorumlock.LockInfo) {
	fmt.Fprintf(b, "  %q", info.Name)
	if info.Limit > 0 {
		fmt.Fprintf(b, ", semaphore with %d of %d permits in use", info.InUse, info.Limit)
	}
	b.WriteString("\n")
	for _, h := range info.Holders {
		fmt.Fprintf(b, "    %v, %v, session %d, token %v\n", h, claimed(h.Mode, h.Permits), h.Session, h.Token)
	}
	reportMore(b, info.Holding-len(info.Holders), "hold it")
	for _, w := range info.Queue {
		fmt.Fprintf(b, "    waited for by %s since %s", w.Node, w.Since.UTC().Format(time.RFC3339))
		if w.Note != "" {
			fmt.Fprintf(b, " (%s)", w.Note)
		}
		fmt.Fprintf(b, ", %s, session %d\n", claimed(w.Mode, w.Permits), w.Session)
	}
	reportMore(b, info.Waiting-len(info.Queue), "wait for it")
}

func reportMore(b *strings.Builder, n int, what string) {
	if n > 0 {
		fmt.Fprintf(b, "    and %d more %s\n", n, what)
	}
}

func claimed(mode quorumlock.Mode, permits int) string {
	if mode == quorumlock.Permits {
		return fmt.Sprintf("%d permits", permits)
	}
	return mode.String()
}
