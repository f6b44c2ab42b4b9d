//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

var (
	fakeInstances = flag.Int("fake-instances", 12, "instances of the largest cluster in fake time")
	fakeSessions  = flag.Int("fake-sessions", 2_000, "most sessions in fake time")
	fakeWaiters   = flag.Int("fake-waiters", 500, "most waiters in fake time")
)

// What does not fit on a machine in real time is run in fake time, where nothing is late however busy the processor is: real nodes in one process, with a network of 0.2 ms and disks that
// take no time. The processor time for one second of the cluster's life is then how many processors such a cluster would need, but for system calls. With -v it prints a table; sizes are set by
// flags:
//
//	go test -v -timeout 30m ./bench/scale -run FakeTime -args -fake-instances 50 -fake-sessions 100000 -fake-waiters 10000
func TestFakeTime(t *testing.T) {
	for _, c := range []setting{
		{instances: 3, voters: 1, sessions: 3}, {instances: 3, voters: 3, sessions: 3}, {instances: 5, voters: 5, sessions: 5}, {instances: *fakeInstances, voters: 3, sessions: *fakeInstances},
		{instances: 3, voters: 3, sessions: *fakeSessions / 10}, {instances: 3, voters: 3, sessions: *fakeSessions},
		{instances: 3, voters: 3, sessions: 100, waiters: *fakeWaiters / 10}, {instances: 3, voters: 3, sessions: 100, waiters: *fakeWaiters},
	} {
		t.Run(fmt.Sprintf("instances=%d,voters=%d,sessions=%d,waiters=%d", c.instances, c.voters, c.sessions, c.waiters), func(t *testing.T) {
			quorumlocktest.Run(t, c.instances, func(t *testing.T, cluster *quorumlocktest.Cluster) { fake(t, cluster, c) },
				quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
					cfg.Voters = c.voters
					cfg.Expect = min(c.instances, max(c.voters, c.instances/2+1))
				}))
		})
	}
}

// watched is for how long an idle cluster is looked at, in fake time: ten renewals of each session.
const watched = 20 * time.Second

func fake(t *testing.T, c *quorumlocktest.Cluster, of setting) {
	time.Sleep(10 * time.Second) // until all who are to vote do
	replicas := 0
	for i := range of.instances {
		if sim.Replicates(c.Node(i)) {
			replicas++
		}
	}
	if most := min(of.instances, of.voters+2); replicas > most {
		t.Errorf("%d instances replicate, at most %d should", replicas, most)
	}
	before := heap()
	sessions := opened(t, c, of)
	each := (heap() - before) / float64(of.sessions)
	index := appliedBy(c)
	cpu, began, allocated := processorTime(t), time.Now(), allocations()
	time.Sleep(watched)
	used := processorTime(t) - cpu
	allocated = allocations() - allocated
	entries := float64(appliedBy(c)-index) / time.Since(began).Seconds()
	for _, s := range sessions {
		if err := s.Err(); err != nil {
			t.Fatalf("a session was lost in a healthy cluster: %v", err)
		}
	}
	// Each session renews every 2 s. Entries gather renewals for 100 ms, and hold 256.
	renewals := float64(of.sessions) / 2
	if most := 10 + renewals/100; entries > most || entries < min(renewals, 1)/10 {
		t.Errorf("%.1f entries/s for %.0f renewals/s, at most %.0f", entries, renewals, most)
	}
	all := renewals * watched.Seconds()
	t.Logf("%5.1f %% of a core, %6.1f entries/s, %7.0f B for each session on all nodes together, %.0f us and %.0f allocations for each renewal",
		percent(used, watched), entries, each, used.Seconds()*1e6/all, float64(allocated)/all)
	if of.waiters > 0 {
		crowd(t, c, sessions, of.waiters)
	}
	runtime.KeepAlive(sessions)
}

// opened has each session hold a lock. They are opened over one interval of renewal, so that they do not all renew in the same moment.
func opened(t *testing.T, c *quorumlocktest.Cluster, of setting) []*quorumlock.Session {
	sessions := make([]*quorumlock.Session, of.sessions)
	var all sync.WaitGroup
	for i := range sessions {
		all.Go(func() {
			time.Sleep(2 * time.Second * time.Duration(i) / time.Duration(len(sessions)))
			s, err := c.Node(i%of.instances).NewSession(t.Context(), usualTTL)
			if err != nil {
				t.Errorf("open session: %v", err)
				return
			}
			sessions[i] = s
			if _, err := quorumlock.NewMutex(s, fmt.Sprint("job-", i)).Lock(t.Context()); err != nil {
				t.Errorf("lock: %v", err)
			}
		})
	}
	if all.Wait(); t.Failed() {
		t.FailNow()
	}
	return sessions
}

// crowd queues waiters at one lock, and has each hold it once, in order.
func crowd(t *testing.T, c *quorumlocktest.Cluster, sessions []*quorumlock.Session, waiters int) {
	blocker, err := quorumlock.NewMutex(c.Node(0), "contended").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	last, had := blocker.Token(), 0
	for i := range waiters {
		all.Go(func() {
			h, err := quorumlock.NewMutex(sessions[i%len(sessions)], "contended").Lock(context.Background())
			if err != nil {
				t.Errorf("waiter %d: %v", i, err)
				return
			}
			mu.Lock()
			if h.Token() <= last {
				t.Errorf("token %v after %v", h.Token(), last)
			}
			last = h.Token()
			had++
			mu.Unlock()
			if err := h.Unlock(); err != nil {
				t.Errorf("unlock of waiter %d: %v", i, err)
			}
		})
	}
	for {
		info, err := c.Node(0).Inspect(t.Context(), "contended")
		if err != nil {
			t.Fatal(err)
		}
		if info.Waiting == waiters {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cpu, began := processorTime(t), time.Now()
	if err := blocker.Unlock(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	took, used := time.Since(began), processorTime(t)-cpu
	if had != waiters {
		t.Errorf("%d of %d had the lock", had, waiters)
	}
	t.Logf("%d waiters drained in %.2f s, %.0f hand-offs/s, %.0f us of processor time each", waiters, took.Seconds(), float64(waiters)/took.Seconds(), used.Seconds()*1e6/float64(waiters))
}

func appliedBy(c *quorumlocktest.Cluster) uint64 {
	index, _ := sim.State(c.Node(c.Leader()))
	return index
}

// allocations are all that were ever made.
func allocations() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// processorTime is of this process, which is the whole cluster.
func processorTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
