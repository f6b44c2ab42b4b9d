package scenario_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// The random schedules: go test ./internal/scenario -run Chaos -args -chaos 200 -schedule 1m. A schedule that failed prints its seed; the same faults are
// played again by -args -seed N -schedule D, but goroutines run in another order each time, so it may take several tries.
var (
	chaosRuns = flag.Int("chaos", 6, "random schedules to play")
	chaosSeed = flag.Uint64("seed", 0, "play this schedule -chaos times")
	chaosTime = flag.Duration("schedule", 20*time.Second, "length of a random schedule in fake time")
)

// TestChaos plays random faults against clusters under random traffic, and sets what the API said against what the log granted.
func TestChaos(t *testing.T) {
	var lost atomic.Int64
	t.Cleanup(func() {
		if lost.Load() == 0 {
			t.Error("no hold was lost: the faults did not bite")
		}
	})
	for k := range *chaosRuns {
		seed, name := 1+uint64(k), ""
		if *chaosSeed != 0 {
			seed, name = *chaosSeed, fmt.Sprintf("try %d, ", k)
		}
		t.Run(fmt.Sprintf("%sseed %d", name, seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { lost.Add(int64(newChaos(t, seed).run())) })
		})
	}
}

// chaosNames are the locks; few enough to be contended, and one that is not much.
var chaosNames = []string{"a", "b", "quiet"}

// chaos is one schedule.
type chaos struct {
	t       *testing.T
	c       *quorumlocktest.Cluster
	rng     *rand.Rand
	size    int
	memory  bool // no data directories: who crashes comes back as somebody else
	gentle  bool // at most a minority is in trouble at once
	now     bool // locks are also taken by force at once: holds may overlap, tokens still rise
	ledger  *ledger
	workers sync.WaitGroup
	quit    chan struct{}

	mu    sync.Mutex
	spots []*spot
}

// spot is one instance of the cluster as the schedule sees it.
type spot struct {
	index int
	node  *quorumlock.Node // nil while it is down
	gone  bool             // left for good

	// What is wrong with it.
	frozen atomic.Bool  // suspended or stopped: nothing of it can look at a clock
	froze  atomic.Int64 // how often it was frozen
	woke   atomic.Int64 // when it woke up last, in Unix nanoseconds
	rate   float64
	bad    map[string]int
}

func newChaos(t *testing.T, seed uint64) *chaos {
	x := &chaos{t: t, rng: rand.New(rand.NewPCG(seed, 1)), quit: make(chan struct{})}
	x.size = []int{3, 3, 5}[x.rng.IntN(3)]
	x.memory, x.gentle, x.now = x.rng.IntN(4) == 0, x.rng.IntN(2) == 0, x.rng.IntN(6) == 0
	voters := 3
	if x.size == 5 && x.rng.IntN(2) == 0 {
		voters = 5
	}
	opts := []quorumlocktest.Option{
		quorumlocktest.Seed(seed), quorumlocktest.SnapshotBytes([]uint64{0, 500, 20_000}[x.rng.IntN(3)]),
		quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Voters = voters }),
	}
	if x.memory {
		opts = append(opts, quorumlocktest.InMemory())
	}
	t.Logf("seed %d: %d instances, %d voters, in memory %v, gentle %v, force now %v", seed, x.size, voters, x.memory, x.gentle, x.now)
	x.c = quorumlocktest.New(t, x.size, opts...)
	x.ledger = newLedger(t, !x.now)
	for i := range x.size {
		x.adopt(i)
	}
	return x
}

// adopt begins to use an instance that has just been started for the first time.
func (x *chaos) adopt(i int) {
	s := &spot{index: i, rate: 1, bad: make(map[string]int)}
	x.mu.Lock()
	x.spots = append(x.spots, s)
	x.mu.Unlock()
	x.up(s)
	for k := range 3 {
		rng := rand.New(rand.NewPCG(x.rng.Uint64(), uint64(k)))
		x.workers.Go(func() { x.work(s, rng) })
	}
}

// up takes in that an instance runs.
func (x *chaos) up(s *spot) {
	n := x.c.Node(s.index)
	x.mu.Lock()
	s.node = n
	x.mu.Unlock()
	go x.ledger.follow(n)
}

// down takes an instance out of the workers' sight before it goes.
func (x *chaos) down(s *spot) {
	x.mu.Lock()
	s.node = nil
	x.mu.Unlock()
}

func (x *chaos) node(s *spot) *quorumlock.Node {
	x.mu.Lock()
	defer x.mu.Unlock()
	return s.node
}

// running lists the instances that are up.
func (x *chaos) running() (list []*spot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.spots {
		if s.node != nil {
			list = append(list, s)
		}
	}
	return list
}

// run gives the number of holds that were lost.
func (x *chaos) run() int {
	n := &nemesis{chaos: x}
	n.play(*chaosTime)
	n.mend()
	close(x.quit)
	x.live()
	x.endsWithin("the last calls", 30*time.Second, x.workers.Wait)
	x.quiet()
	x.c.CheckState()
	return x.ledger.report()
}

// live: when everything is well again, every lock can be had by every instance within a TTL and what founding a quorum takes.
func (x *chaos) live() {
	const bound = quorumTTL + 15*time.Second
	var all sync.WaitGroup
	for _, s := range x.running() {
		for _, name := range chaosNames {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), bound)
				defer cancel()
				m := quorumlock.NewMutex(s.node, name, quorumlock.Note("at the end"))
				h, err := m.Lock(ctx)
				for errors.Is(err, quorumlock.ErrLost) { // a session that was too long out of touch
					h, err = m.Lock(ctx)
				}
				if err != nil {
					x.t.Errorf("instance %d, %v after all is well, lock %q: %v (node: %v)", s.index, bound, name, err, s.node.Err())
					return
				}
				x.use(h, s, 0)
			})
		}
	}
	all.Wait()
}

// quiet: nothing stays behind of calls that have ended.
func (x *chaos) quiet() {
	time.Sleep(ghostBound)
	for _, name := range chaosNames {
		info := lockShown(x.t, x.c, name)
		if len(info.Holders) > 0 || info.Waiting > 0 {
			x.t.Errorf("nobody uses lock %q; it shows holders %v and %d waiting: %+v", name, info.Holders, info.Waiting, info.Queue)
		}
	}
}

// endsWithin fails the test if f takes longer, unless an instance whose code it waits for was frozen meanwhile.
func (x *chaos) endsWithin(what string, bound time.Duration, f func(), on ...*spot) {
	began := time.Now()
	frozen := func() (n int64) {
		for _, s := range on {
			n += s.froze.Load()
			if s.frozen.Load() {
				n-- // so that the end of it counts, too
			}
		}
		return n
	}
	before := frozen()
	f()
	if took := time.Since(began); took > bound && frozen() == before {
		x.t.Errorf("%s took %v, bound %v", what, took, bound)
	}
}
