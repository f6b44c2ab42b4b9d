package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

const (
	quarantine      = 80 * time.Second // of a cluster whose longest TTL is that of all
	quarantineBound = quarantine + 5*time.Second
)

// clockPassesTokens lets a while pass, for in fake time a cluster can grant more than a token in a microsecond.
func clockPassesTokens() { time.Sleep(time.Millisecond) }

// recoverable is usedDisk, of which the clock has passed the tokens.
func recoverable(t *testing.T) (*store.Disk, quorumlock.Token) {
	t.Helper()
	disk, last := usedDisk(t)
	clockPassesTokens()
	return disk, last
}

// loseMajority crashes all instances but one, which is no leader, and tells which.
func loseMajority(t *testing.T, c *quorumlocktest.Cluster) (survivor int, gone []int) {
	t.Helper()
	survivor = others(c, c.Leader())[0]
	gone = others(c, survivor)
	for _, i := range gone {
		c.Crash(i)
	}
	clockPassesTokens()
	return survivor, gone
}

// recovered stops an instance, if it is up, and recovers what it has.
func recovered(t *testing.T, c *quorumlocktest.Cluster, i int, floor quorumlock.Token) *quorumlock.Recovery {
	t.Helper()
	was, err := c.Recover(i, quorumlock.RecoverOptions{DryRun: true, TokenFloor: floor})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Recover(i, quorumlock.RecoverOptions{GiveUp: was.OldClusterID, TokenFloor: floor})
	if err != nil {
		t.Fatal(err)
	}
	if r.OldClusterID != was.OldClusterID || r.Index != was.Index || r.Holds != was.Holds || was.ClusterID != "" || was.ServerID != "" || r.DryRun || !was.DryRun {
		t.Errorf("the dry run said %+v, and then %+v was done", was, r)
	}
	return r
}

// lockAfter is a claim made now that must be granted when a quarantine of this length, begun at start, is over, and not before.
func lockAfter(t *testing.T, n *quorumlock.Node, name string, start time.Time, length time.Duration) *quorumlock.Hold {
	t.Helper()
	h := lockIn(t, n, name, length+quarantineBound-quarantine)
	if after := time.Since(start); after < length {
		t.Errorf("granted %v after the start, quarantine of %v", after, length)
	}
	return h
}

// inQuarantine checks what calls are told meanwhile.
func inQuarantine(t *testing.T, n *quorumlock.Node, name string) {
	t.Helper()
	begun := time.Now()
	h, err := quorumlock.NewMutex(n, name).TryLock(context.Background())
	var wait *quorumlock.WaitError
	if h != nil || !errors.Is(err, quorumlock.ErrQuarantine) || !errors.As(err, &wait) || time.Since(begun) > time.Second {
		t.Fatalf("TryLock: %v, %v after %v", h, err, time.Since(begun))
	}
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begun = time.Now()
	_, err = quorumlock.NewMutex(n, name).Lock(ctx)
	if !errors.Is(err, quorumlock.ErrQuarantine) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, quorumlock.ErrNoQuorum) || time.Since(begun) < patience {
		t.Fatalf("Lock: %v after %v", err, time.Since(begun))
	}
	if !strings.Contains(err.Error(), "recovered") {
		t.Errorf("Lock: %v", err)
	}
}

// S113, I2, I14: three voters, of which two are gone for good. The calls of the third say so and name the way out. Recovered, it
// is a cluster of its own that grants nothing in its quarantine, and then tokens above every old one; nothing is held any more,
// the limit of a semaphore stays. The others join with empty disks, and vote.
func TestRecoverAfterTheLossOfAMajority(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		leader := c.Leader()
		if err := quorumlock.NewSemaphore(c.Node(leader), "pool", 2).Resize(context.Background(), 7); err != nil {
			t.Fatal(err)
		}
		held := lockIn(t, c.Node(leader), "held", time.Second)
		waitQueued(t, c, c.Node(others(c, leader)[0]), "held", 1)
		last := grantMany(t, c.Node(leader), "k", 5)
		time.Sleep(time.Second) // followers have applied it
		oldID := c.Node(leader).ClusterID()
		survivor, gone := loseMajority(t, c)
		n := c.Node(survivor)
		oldServer, lost := n.ID(), time.Now()
		namesTheWayOut(t, n)
		if _, err := c.Node(survivor).Members(context.Background()); err != nil {
			t.Errorf("members without a quorum: %v", err)
		}
		c.Crash(survivor)

		r := recovered(t, c, survivor, 0)
		if r.OldClusterID != oldID || r.OldServerID != oldServer || !r.Voter || len(r.Others) != 2 || r.Holds != 1 || r.Waiting != 1 || r.Sessions == 0 ||
			r.Quarantine != quarantine || r.TokensAbove <= max(last, held.Token()) || r.LastEntry.After(lost) || lost.Sub(r.LastEntry) > time.Minute {
			t.Errorf("%+v", r)
		}
		for _, say := range []string{oldID, r.ClusterID, oldServer, r.ServerID, fmt.Sprint(r.Index), "1 holds", quarantine.String()} {
			if !strings.Contains(r.String(), say) {
				t.Errorf("the report does not say %q:\n%v", say, r)
			}
		}
		start := time.Now()
		n = c.Start(survivor)
		readyIn(t, n, restartBound)
		if n.ClusterID() != r.ClusterID || n.ID() != r.ServerID || n.ClusterID() == oldID || n.ID() == oldServer {
			t.Errorf("cluster %s, server %s; %+v", n.ClusterID(), n.ID(), r)
		}
		inQuarantine(t, n, "held")
		for _, i := range gone {
			c.Replace(i)
			c.Start(i)
		}
		c.WaitReady()
		inQuarantine(t, c.Node(gone[0]), "held")
		next := lockAfter(t, c.Node(gone[0]), "held", start, r.Quarantine)
		if next.Token() <= r.TokensAbove {
			t.Errorf("token %v, all were to be above %v", next.Token(), r.TokensAbove)
		}
		unlock(t, next)
		awaitVoters(t, c, 30*time.Second, 0, 1, 2)
		tr := trafficOn(t, c, "k")
		tr.flows(6, grantBound)
		tr.stop()
		var limit *quorumlock.LimitError
		if _, err := quorumlock.NewSemaphore(n, "pool", 9).Acquire(context.Background(), 1); !errors.As(err, &limit) || limit.Agreed != 7 {
			t.Errorf("another limit than the one set before: %v", err)
		}
		c.CheckState()
	})
}

// namesTheWayOut: the error of a call that waits in vain names the procedure, when the others have been away for so long that they
// are not just restarting.
func namesTheWayOut(t *testing.T, n *quorumlock.Node) {
	t.Helper()
	time.Sleep(quorumlock.MinSessionTTL * 3) // the node's own session is over
	for _, named := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
		h, err := quorumlock.NewMutex(n, "k").Lock(ctx)
		cancel()
		if h != nil || !errors.Is(err, quorumlock.ErrNoQuorum) || strings.Contains(err.Error(), "Recover") != named || !strings.Contains(err.Error(), "1 of ") {
			t.Errorf("without a majority: %v, %v", h, err)
		}
		time.Sleep(time.Minute)
	}
}

// S113: of two voters one is gone for good.
func TestRecoverOneOfTwo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 2)
		last := grantMany(t, c.Node(0), "k", 3)
		c.Crash(1)
		namesTheWayOut(t, c.Node(0))
		c.Crash(0)
		r := recovered(t, c, 0, 0)
		start := time.Now()
		c.Start(0)
		if h := lockAfter(t, c.Node(0), "k", start, r.Quarantine); h.Token() <= last {
			t.Errorf("token %v after %v", h.Token(), last)
		}
	})
}

// I3 beyond the end of a cluster: a holder that lost sight of the others believes in its hold up to its own deadline, as late as
// clocks and the longest TTL allow; by then nobody has been granted its lock in the recovered cluster, however soon that was
// made.
func TestQuarantineOutlastsFormerHolders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		leader, f := roles(c)
		survivor, holder := f[0], f[1]
		c.Clock(holder).SetRate(0.9)
		c.Clock(survivor).SetRate(1.1) // 1.23 times as fast
		s, err := c.Node(holder).NewSession(context.Background(), quorumlock.MaxSessionTTL)
		if err != nil {
			t.Fatal(err)
		}
		h := lockIn(t, s, "k", time.Second)
		time.Sleep(13 * time.Second) // a renewal has just been answered
		c.Isolate(holder)
		c.Crash(leader)
		c.Crash(survivor)
		clockPassesTokens()
		r := recovered(t, c, survivor, 0)
		start := time.Now()
		c.Start(survivor)
		next := wait(context.Background(), t, c.Node(survivor), "k")
		<-h.Done()
		believed := time.Since(start)
		select {
		case <-next.done:
			t.Fatalf("granted before the former holder stopped, %v after the start", believed)
		default:
		}
		if believed < 35*time.Second {
			t.Fatalf("the former holder stopped after %v: the case did not bite", believed)
		}
		<-next.done
		if next.err != nil || next.hold.Token() <= h.Token() {
			t.Errorf("%v, %v after %v", next.hold, next.err, h.Token())
		}
		took := time.Since(start)
		t.Logf("believed for %v, granted after %v, quarantine of %v by a clock 1.1 times as fast", believed, took, r.Quarantine)
		if least := time.Duration(float64(r.Quarantine) / 1.1); took < least || took > least+5*time.Second {
			t.Errorf("granted after %v", took)
		}
	})
}

// A new leader, and a restart, end the quarantine by their own clocks: later, and never sooner. The longest lock delay of a
// former hold is waited for as well.
func TestQuarantineOutlivesLeaders(t *testing.T) {
	const delay = 20 * time.Second
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		m := quorumlock.NewMutex(c.Node(c.Leader()), "delayed", quorumlock.Delay(delay))
		if _, err := m.Lock(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		survivor, gone := loseMajority(t, c)
		c.Crash(survivor)
		r := recovered(t, c, survivor, 0)
		if r.Quarantine != quarantine+delay {
			t.Errorf("quarantine of %v", r.Quarantine)
		}
		start := time.Now()
		c.Start(survivor)
		for _, i := range gone {
			c.Replace(i)
			c.Start(i)
		}
		c.WaitReady()
		awaitVoters(t, c, 30*time.Second, 0, 1, 2)
		time.Sleep(30 * time.Second)
		was := c.Leader()
		c.Crash(was)
		c.LeaderExcept(was)
		c.Start(was)
		inQuarantine(t, c.Node(was), "k")
		h := lockAfter(t, c.Node(was), "k", start, r.Quarantine)
		unlock(t, h)
		c.CheckState()
	})
}

// Former members come back. With the disk that it had one is refused: its calls say what to do, and so does one line of its log;
// the new cluster takes no notice. Emptied, it joins.
func TestFormerMemberMeetsTheRecoveredCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logs, keep := keepDiary()
		c := quorumlocktest.New(t, 3, keep)
		survivor, gone := loseMajority(t, c)
		c.Crash(survivor)
		recovered(t, c, survivor, 0)
		c.Start(survivor)
		readyIn(t, c.Node(survivor), restartBound)
		former := gone[0]
		before := logs.said("met another cluster")
		n := c.Start(former)
		time.Sleep(30 * time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_, err := quorumlock.NewMutex(n, "k").Lock(ctx)
		if !errors.Is(err, quorumlock.ErrClusterChanged) || !errors.Is(err, quorumlock.ErrNoQuorum) || !strings.Contains(err.Error(), "empty their data directories") ||
			strings.Contains(err.Error(), "Recover") {
			t.Errorf("the former member's call: %v", err)
		}
		if n := logs.said("met another cluster"); n == before || n > before+4 {
			t.Errorf("%d lines say that there is another cluster", n-before)
		}
		if in := groupOf(t, c.Node(survivor)); len(in) != 1 {
			t.Errorf("the group is %+v", in)
		}
		c.Crash(former)
		c.Replace(former)
		c.Start(former)
		c.WaitReady()
		awaitVoters(t, c, 30*time.Second, survivor, former)
	})
}

// A5: a machine whose clock is behind the cluster's own time recovers nothing by itself; with a floor that somebody knows it
// does, and tokens exceed that.
func TestRecoverWithAClockBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		last := grantMany(t, c.Node(0), "k", 3)
		id := c.Node(0).ClusterID()
		time.Sleep(time.Second)
		survivor, _ := loseMajority(t, c)
		c.Crash(survivor)
		c.Clock(survivor).StepWall(-2 * time.Hour)
		for range 2 {
			_, err := c.Recover(survivor, quorumlock.RecoverOptions{GiveUp: id})
			var field *quorumlock.FieldError
			if !errors.As(err, &field) || field.Field != "RecoverOptions.TokenFloor" || !strings.Contains(err.Error(), "clock") {
				t.Fatalf("with a clock behind: %v", err)
			}
		}
		floor := last + 5_000_000_000
		r := recovered(t, c, survivor, floor)
		start := time.Now()
		c.Start(survivor)
		if h := lockAfter(t, c.Node(survivor), "k", start, r.Quarantine); h.Token() <= floor {
			t.Errorf("token %v, floor %v", h.Token(), floor)
		}
	})
}
