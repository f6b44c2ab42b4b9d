package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

const (
	handOversEnv  = "QUORUMLOCK_HANDOVERS" // how many are made, if it is set; 21 give a median to speak of
	handOverPause = 2 * time.Second        // generous; what is aimed at is 100 ms, and the median is printed
)

// A leader that stops in order hands over, and callers elsewhere wait for a fraction of what an election takes. Over real
// sockets and directories: the leader closes and comes back as itself, over and over, while the two others lock.
func TestPauseOfAGracefulLeaderChange(t *testing.T) {
	if testing.Short() {
		t.Skip("takes leaders down in real time")
	}
	handOvers := int(rounds(t, handOversEnv, 5))
	addrs := []string{freeAddr(t), freeAddr(t), freeAddr(t)}
	dir := t.TempDir()
	nodes := realCluster(t, "deploys", addrs, dir)
	defer func() { closeAll(t, nodes) }()
	var pauses, ends []time.Duration
	for range handOvers {
		i := leaderOf(t, nodes)
		var watch stopwatch
		for j, n := range nodes {
			if j != i {
				watch.from(n, fmt.Sprint("own-", j), 2)
			}
		}
		watch.flows(t)
		begun := time.Now()
		if err := nodes[i].Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		ends = append(ends, time.Since(begun))
		watch.flows(t)
		longest, err := watch.stop()
		if err != nil {
			t.Errorf("a call failed: %v", err)
		}
		pauses = append(pauses, longest)
		nodes[i] = reopened(t, addrs, i, dir)
	}
	slices.Sort(pauses)
	slices.Sort(ends)
	middle := handOvers / 2
	t.Logf("%d graceful changes of the leader: longest call median %v [%v..%v], Close median %v [%v..%v]", handOvers,
		pauses[middle], pauses[0], pauses[handOvers-1], ends[middle], ends[0], ends[handOvers-1])
	if pauses[middle] > handOverPause {
		t.Errorf("median pause %v: leadership was not handed over", pauses[middle])
	}
}

// leaderOf waits until one of the nodes leads all of them, and each has what the leader has.
func leaderOf(t *testing.T, nodes []*quorumlock.Node) int {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		members, err := nodes[0].Members(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lead, least, most, voters := "", ^uint64(0), uint64(0), 0
		for _, m := range members {
			if m.Leader {
				lead = m.ServerID
			}
			if m.Voter && m.Reachable {
				voters++
				least, most = min(least, m.Applied), max(most, m.Applied)
			}
		}
		i := slices.IndexFunc(nodes, func(n *quorumlock.Node) bool { return n.ID() == lead })
		if i >= 0 && voters == len(nodes) && most-least < 100 {
			return i
		}
	}
	t.Fatal("no leader that all follow")
	return 0
}

func reopened(t *testing.T, addrs []string, i int, dir string) *quorumlock.Node {
	t.Helper()
	name := fmt.Sprintf("deploys-%d", i)
	n, err := quorumlock.Open(t.Context(), quorumlock.Config{
		Cluster: "deploys", Name: name, Addr: addrs[i], Join: addrs, Expect: len(addrs), Dir: filepath.Join(dir, name),
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// stopwatch measures the calls of callers that lock and unlock without a pause.
type stopwatch struct {
	callers sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	calls   int
	longest time.Duration
	err     error
}

// from has n callers lock through a node, each a name of its own.
func (w *stopwatch) from(node *quorumlock.Node, name string, n int) {
	for i := range n {
		m := quorumlock.NewMutex(node, fmt.Sprint(name, i))
		w.callers.Go(func() {
			for w.turn(m) {
			}
		})
	}
}

func (w *stopwatch) turn(m *quorumlock.Mutex) (goOn bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	begun := time.Now()
	hold, err := m.Lock(ctx)
	took := time.Since(begun)
	if err == nil {
		err = hold.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	w.longest = max(w.longest, took)
	w.err = errors.Join(w.err, err)
	return !w.stopped && err == nil
}

// flows waits for some more calls.
func (w *stopwatch) flows(t *testing.T) {
	t.Helper()
	count := func() int { w.mu.Lock(); defer w.mu.Unlock(); return w.calls }
	before := count()
	for end := time.Now().Add(20 * time.Second); count() < before+20; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no calls are answered")
		}
	}
}

func (w *stopwatch) stop() (longest time.Duration, err error) {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.callers.Wait()
	return w.longest, w.err
}
