package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/simulation/history"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

const (
	defaultTTL = 10 * time.Second
	ghostBound = 2 * time.Second // within which nothing is left of a call that has ended (I4)

	// liveBound is within what every instance has every lock when all is well again: what a dead session may keep it, and what founding a quorum takes.
	liveBound = defaultTTL + 15*time.Second

	hashEvery = 64 // log entries between two comparisons of the members' states

	decideBound = time.Minute // for the checkers, in real time; a history that is undecided by then is a failure
)

// Kind is what a schedule was drawn to be.
type Kind struct {
	Size, Voters int
	Memory       bool          // no data directories: who crashes comes back as somebody else
	Gentle       bool          // at most a minority is in trouble at once
	ForceNow     bool          // locks are also taken by force at once: these holds may overlap with the next, tokens still rise
	Wild         bool          // clock rates outside A3: holds may overlap, the fence still holds
	Restart      bool          // who comes back in its directory ends its former sessions at once
	Think        time.Duration // a worker's mean time between calls
	Snapshot     uint64        // log bytes between snapshots; 0 is the default
}

func (k Kind) String() string {
	return fmt.Sprintf("%d instances, %d voters, in memory %v, gentle %v, force now %v, wild clocks %v, restart in place %v, think %v, snapshot every %d bytes",
		k.Size, k.Voters, k.Memory, k.Gentle, k.ForceNow, k.Wild, k.Restart, k.Think, k.Snapshot)
}

func draw(rng *rand.Rand) Kind {
	k := Kind{Size: []int{3, 3, 5}[rng.IntN(3)], Voters: 3}
	k.Memory, k.Gentle, k.ForceNow, k.Wild = rng.IntN(4) == 0, rng.IntN(2) == 0, rng.IntN(6) == 0, rng.IntN(8) == 0
	if k.Size == 5 && rng.IntN(2) == 0 {
		k.Voters = 5
	}
	k.Think = []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second}[rng.IntN(4)]
	k.Restart = !k.Memory && rng.IntN(2) == 0
	k.Snapshot = []uint64{0, 500, 20_000}[rng.IntN(3)]
	return k
}

// schedule is one run.
type schedule struct {
	Kind
	t       *testing.T
	c       *quorumlocktest.Cluster
	rng     *rand.Rand // of the one goroutine that plays the schedule
	started time.Time
	lasted  time.Duration
	history *history.History
	store   *resource
	workers sync.WaitGroup
	quit    chan struct{}
	outcome *Outcome
	serial  atomic.Int64 // of claims and holdings
	capped  atomic.Int64 // holds that ended by their MaxHold

	mu        sync.Mutex
	instances []*instance
	holdings  map[*holding]struct{}
	acquired  map[string]quorumlock.Token // claims whose hold was given to some caller
	gifts     []*gift
	limit     int // of the semaphore, as far as callers know
}

// Run plays the schedule of o.Seed for a length of fake time, fills in what came of it, and fails the test for every violation. The outcome is complete also when the test
// ends here. Run must not be called in a bubble; it makes its own. Options are for the cluster, such as a logger.
func Run(t *testing.T, o *Outcome, length time.Duration, opts ...quorumlocktest.Option) {
	t.Helper()
	o.length = length
	var s *schedule
	// Deferred, since a bubble in which something failed ends the test with it, and what it showed is to be judged all the more.
	defer func() {
		if s != nil {
			o.Virtual = s.lasted
			o.judge(t, s.history)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		s = newSchedule(t, o, opts)
		defer func() { s.lasted = time.Since(s.started) }()
		s.play(length)
	})
}

func newSchedule(t *testing.T, o *Outcome, more []quorumlocktest.Option) *schedule {
	s := begin(t, o)
	s.rng = rand.New(rand.NewPCG(o.Seed, 1))
	s.Kind = draw(s.rng)
	o.Kind = s.Kind
	opts := []quorumlocktest.Option{
		quorumlocktest.Seed(o.Seed), quorumlocktest.SnapshotBytes(s.Snapshot), quorumlocktest.HashEvery(hashEvery),
		quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Voters, cfg.RestartInPlace = s.Voters, s.Restart }),
	}
	if s.Memory {
		opts = append(opts, quorumlocktest.InMemory())
	}
	s.c = quorumlocktest.New(t, s.Size, append(opts, more...)...)
	for i := range s.Size {
		s.adopt(i)
	}
	return s
}

// begin is a schedule without a cluster.
func begin(t *testing.T, o *Outcome) *schedule {
	now := time.Now()
	return &schedule{
		t: t, started: now, quit: make(chan struct{}), outcome: o, store: newResource(), history: history.New(now),
		holdings: make(map[*holding]struct{}), acquired: make(map[string]quorumlock.Token), limit: firstLimit,
	}
}

func (s *schedule) play(length time.Duration) {
	elections := s.countElections()
	n := &nemesis{schedule: s, calmed: s.started}
	n.play(length)
	n.mend()
	close(s.quit)
	s.live()
	s.endsWithin("the last calls", 30*time.Second, s.workers.Wait)
	s.ghosts()
	s.c.CheckState()
	s.outcome.Bites.Elections = elections()
	s.outcome.Bites.Refused, s.outcome.Bites.LostUpdates = s.store.counts()
	s.outcome.Bites.Capped = int(s.capped.Load())
	if s.Memory && len(s.instances) == s.Size { // who has left is still expected when a cluster is founded
		s.loseAll()
	}
}

// loseAll is the total loss of a cluster that keeps nothing on disk. A new one is founded; its tokens lie above all of the old one (I2, A5).
func (s *schedule) loseAll() {
	var last quorumlock.Token
	s.mu.Lock()
	for _, token := range s.acquired {
		last = max(last, token)
	}
	s.mu.Unlock()
	for _, in := range s.instances {
		s.down(in)
		s.c.Crash(in.index)
		s.c.Clock(in.index).StepWall(-in.stepped)
	}
	for _, in := range s.instances {
		s.c.Start(in.index)
	}
	s.c.WaitReady()
	ctx, cancel := context.WithTimeout(context.Background(), liveBound)
	defer cancel()
	h, err := quorumlock.NewMutex(s.c.Node(0), locks[0]).Lock(ctx)
	switch {
	case err != nil:
		s.t.Errorf("lock after a total loss: %v", err)
	case h.Token() <= last:
		s.t.Errorf("token %v after a total loss, %v before it", h.Token(), last)
	default:
		s.expected("unlock", h.Unlock())
	}
}

// live: when everything is well again, every lock can be had by every instance.
func (s *schedule) live() {
	var all sync.WaitGroup
	for _, in := range s.running() {
		for _, by := range s.atTheEnd(in) {
			all.Go(func() { s.lockAtTheEnd(in, by) })
		}
	}
	all.Wait()
}

// lasting is one thing that must be had.
type lasting struct {
	mode  quorumlock.Mode
	names []string
	by    func(a *attempt) func(context.Context) (*quorumlock.Hold, error)
}

// atTheEnd are all locks one by one, all of them at once, and all permits of the semaphore.
func (s *schedule) atTheEnd(in *instance) (list []lasting) {
	for _, name := range append(slices.Clone(locks), throne) {
		list = append(list, lasting{quorumlock.Exclusive, []string{name}, func(a *attempt) func(context.Context) (*quorumlock.Hold, error) {
			return quorumlock.NewMutex(in.node, name, a.options()...).Lock
		}})
	}
	return append(list,
		lasting{quorumlock.Exclusive, locks, func(a *attempt) func(context.Context) (*quorumlock.Hold, error) {
			return quorumlock.NewMultiMutex(in.node, locks...).With(a.options()...).Lock
		}},
		lasting{quorumlock.Permits, []string{pool}, func(a *attempt) func(context.Context) (*quorumlock.Hold, error) {
			a.Limit = s.agreed()
			a.Permits = a.Limit // all of them, so that none is left with a session that is dead
			return func(ctx context.Context) (*quorumlock.Hold, error) {
				return quorumlock.NewSemaphore(in.node, pool, a.Limit, a.options()...).Acquire(ctx, a.Permits)
			}
		}})
}

// lockAtTheEnd takes a lock when all is well; a session that was out of touch for too long is replaced by the next call, and a limit that was not
// known is known then.
func (s *schedule) lockAtTheEnd(in *instance, l lasting) {
	for end := time.Now().Add(liveBound); ; {
		a := s.claim(fmt.Sprintf("%d/the end", in.index), in, l.mode, l.names...)
		a.bound = time.Until(end)
		h, err := s.ask(a, l.by(a))
		switch {
		case err == nil:
			s.use(h, 0)
			return
		case !errors.Is(err, quorumlock.ErrLost) && !errors.Is(err, quorumlock.ErrLimit):
			s.t.Errorf("instance %d, %v after all is well, lock %q: %v (node: %v)", in.index, liveBound, l.names, err, in.node.Err())
			return
		}
	}
}

// ghosts: nothing stays behind of calls that have ended.
func (s *schedule) ghosts() {
	time.Sleep(ghostBound + mostDelay)
	for _, name := range s.allNames() {
		info, err := s.inspect(s.c.Node(s.c.Leader()), "the end", name, 5*time.Second)
		if err != nil {
			s.t.Errorf("inspect %q: %v", name, err)
			continue
		}
		if len(info.Holders) > 0 || info.Waiting > 0 {
			s.t.Errorf("nobody uses lock %q; it shows holders %v and %d waiting: %+v", name, info.Holders, info.Waiting, info.Queue)
		}
	}
}

// countElections counts how often another instance is seen to lead, until the function it returns is called.
func (s *schedule) countElections() func() int {
	var last *quorumlock.Node
	count, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		for ; !closed(s.quit); time.Sleep(250 * time.Millisecond) {
			if in := s.leading(); in != nil && s.node(in) != last {
				last = s.node(in)
				count++
			}
		}
	}()
	return func() int {
		<-done
		return count - 1
	}
}

// endsWithin fails the test if f takes longer, unless an instance whose code it waits for was frozen meanwhile.
func (s *schedule) endsWithin(what string, bound time.Duration, f func(), on ...*instance) {
	began := time.Now()
	frozen := func() (n int64) {
		for _, in := range on {
			n += in.froze.Load()
			if in.frozen.Load() {
				n-- // so that the end of it counts, too
			}
		}
		return n
	}
	before := frozen()
	f()
	if took := time.Since(began); took > bound && frozen() == before {
		s.t.Errorf("%s took %v, bound %v", what, took, bound)
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
