package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
)

// workersEach is how many goroutines make calls on each instance.
const workersEach = 3

// instance is one instance of the cluster as the schedule sees it.
type instance struct {
	index  int
	node   *quorumlock.Node // nil while it is down; guarded by schedule.mu
	starts int
	gone   bool // left for good
	left   atomic.Bool

	// What is wrong with it.
	frozen  atomic.Bool  // suspended or stopped: nothing of it can look at a clock
	froze   atomic.Int64 // how often it was frozen
	woke    atomic.Int64 // when it woke up last, in Unix nanoseconds
	rate    float64
	stepped time.Duration  // of the wall clock
	bad     map[string]int // only for the goroutine that plays the schedule
}

// adopt begins to use an instance that has just been started for the first time.
func (s *schedule) adopt(i int) {
	in := &instance{index: i, rate: 1, bad: make(map[string]int)}
	s.mu.Lock()
	s.instances = append(s.instances, in)
	s.mu.Unlock()
	s.up(in)
	for k := range workersEach {
		w := &worker{schedule: s, in: in, name: fmt.Sprintf("%d/%d", i, k), rng: rand.New(rand.NewPCG(s.rng.Uint64(), uint64(k)))}
		s.workers.Go(w.run)
	}
}

// up takes in that an instance runs.
func (s *schedule) up(in *instance) {
	n := s.c.Node(in.index)
	in.starts++
	s.mu.Lock()
	in.node = n
	s.mu.Unlock()
	name := fmt.Sprintf("%d.%d", in.index, in.starts)
	go s.follow(n, name)
	go s.observe(n, name)
}

// down takes an instance out of the workers' sight before it goes.
func (s *schedule) down(in *instance) {
	s.mu.Lock()
	in.node = nil
	s.mu.Unlock()
}

func (s *schedule) node(in *instance) *quorumlock.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return in.node
}

// running lists the instances that are up.
func (s *schedule) running() (list []*instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.instances {
		if in.node != nil {
			list = append(list, in)
		}
	}
	return list
}

// leading is an instance that thinks it leads.
func (s *schedule) leading() *instance {
	for _, in := range s.running() {
		node := s.node(in)
		if node == nil {
			continue
		}
		members, _ := node.Members(context.Background(), quorumlock.Local())
		for _, m := range members {
			if m.Leader && m.ServerID == node.ID() {
				return in
			}
		}
	}
	return nil
}

// trouble marks an instance until the function it returns is called.
func (in *instance) trouble(kind string) func() {
	in.bad[kind]++
	return func() {
		if in.bad[kind]--; in.bad[kind] == 0 {
			delete(in.bad, kind)
		}
	}
}

// lossBound is within what a loss is reported (I9).
const lossBound = 250 * time.Millisecond

// drowsy tells that the instance woke up so lately that contexts need not have ended yet (I9). Err of a Hold reads the clocks itself.
func (in *instance) drowsy() bool { return time.Since(time.Unix(0, in.woke.Load())) < lossBound }

// thawed waits while the instance is frozen.
func (in *instance) thawed() {
	for in.frozen.Load() {
		time.Sleep(time.Millisecond)
	}
}
