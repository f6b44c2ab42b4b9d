package scenario_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
)

// nemesis brings trouble over the instances of a schedule, one act after the other, and takes it back a while later.
type nemesis struct {
	*chaos
	undo []undo
	acts int
}

type undo struct {
	at time.Time
	f  func()
}

// play acts for a while.
func (n *nemesis) play(length time.Duration) {
	acts := []func(){
		n.cut, n.cut, n.isolate, n.isolateLeader, n.isolateHolder, n.dropConns, n.holdReplies, n.latency, n.pause, n.freeze, n.freeze, n.clockRate, n.stepWall,
		n.slept, n.handOver, n.crash, n.crash, n.stop, n.stopSeveral, n.leaveAndGrow,
	}
	if !n.memory {
		acts = append(acts, n.slowDisk, n.hangDisk, n.hangDisk, n.failDisk)
	}
	for end := time.Now().Add(length); time.Now().Before(end); n.acts++ {
		n.pass(time.Duration(n.rng.Int64N(int64(3 * time.Second))))
		acts[n.rng.IntN(len(acts))]()
	}
}

// pass lets time go by and takes back what is due meanwhile.
func (n *nemesis) pass(d time.Duration) {
	for end := time.Now().Add(d); ; {
		slices.SortStableFunc(n.undo, func(a, b undo) int { return a.at.Compare(b.at) })
		if len(n.undo) == 0 || n.undo[0].at.After(end) {
			time.Sleep(time.Until(end))
			return
		}
		first := n.undo[0]
		n.undo = n.undo[1:]
		time.Sleep(time.Until(first.at))
		first.f()
	}
}

// mend takes everything back, and starts who is down.
func (n *nemesis) mend() {
	for len(n.undo) > 0 {
		list := n.undo
		n.undo = nil
		for _, u := range list {
			u.f()
		}
	}
	n.c.Heal()
	for _, s := range n.spots {
		if s.node != nil && s.node.Err() != nil {
			n.t.Errorf("instance %d failed by itself: %v", s.index, s.node.Err())
		}
	}
	n.t.Logf("%d acts, %d instances", n.acts, len(n.spots))
}

// later takes something back after up to most.
func (n *nemesis) later(most time.Duration, f func()) time.Duration {
	d := time.Duration(n.rng.Int64N(int64(most)))
	n.undo = append(n.undo, undo{time.Now().Add(d), f})
	return d
}

// trouble marks an instance until the function it returns is called.
func (s *spot) trouble(kind string) func() {
	s.bad[kind]++
	return func() {
		if s.bad[kind]--; s.bad[kind] == 0 {
			delete(s.bad, kind)
		}
	}
}

// victim picks an instance that runs, and nil if the schedule has trouble enough.
func (n *nemesis) victim() *spot {
	list, bad := n.running(), 0
	for _, s := range n.spots {
		if !s.gone && (s.node == nil || len(s.bad) > 0) {
			bad++
		}
	}
	if len(list) == 0 {
		return nil
	}
	s := list[n.rng.IntN(len(list))]
	if n.gentle && bad >= (n.size-1)/2 && len(s.bad) == 0 {
		return nil
	}
	return s
}

// mortal picks an instance that may go: of a cluster in memory one at a time, with all voters well, since a majority that is gone takes the state with it.
func (n *nemesis) mortal() *spot {
	s := n.victim()
	if s == nil || s.frozen.Load() || s.bad["disk"] > 0 || s.bad["pause"] > 0 {
		return nil
	}
	if !n.memory {
		return s
	}
	for _, other := range n.spots {
		if !other.gone && (other.node == nil || len(other.bad) > 0) {
			return nil
		}
	}
	ids := make(map[string]bool)
	for _, other := range n.running() {
		ids[other.node.ID()] = true
	}
	for _, other := range n.running() {
		members, _ := other.node.Members(context.Background())
		voters := 0
		for _, m := range members {
			if m.Voter && !ids[m.ServerID] { // somebody who crashed and has come back as another one
				return nil
			}
			if m.Voter {
				voters++
			}
		}
		if voters < 3 {
			return nil
		}
	}
	return s
}

const longest = 20 * time.Second

func (n *nemesis) healNet(marks ...func()) {
	n.later(longest, func() {
		n.c.Heal()
		for _, well := range marks {
			well()
		}
	})
}

func (n *nemesis) cut() {
	a, b := n.victim(), n.victim()
	if a == nil || b == nil || a == b {
		return
	}
	n.c.Cut(a.index, b.index)
	if n.rng.IntN(2) == 0 {
		n.c.Cut(b.index, a.index)
	}
	n.healNet(a.trouble("net"))
}

func (n *nemesis) isolate() { n.isolateSpot(n.victim()) }

func (n *nemesis) isolateLeader() {
	if s := n.victim(); s != nil {
		n.isolateSpot(n.leading())
	}
}

func (n *nemesis) isolateHolder() {
	if s := n.victim(); s != nil {
		n.isolateSpot(n.ledger.holder())
	}
}

func (n *nemesis) isolateSpot(s *spot) {
	if s == nil {
		return
	}
	n.c.Isolate(s.index)
	n.healNet(s.trouble("net"))
}

// leading is an instance that thinks it leads.
func (n *nemesis) leading() *spot {
	for _, s := range n.running() {
		members, _ := s.node.Members(context.Background())
		for _, m := range members {
			if m.Leader && m.ServerID == s.node.ID() {
				return s
			}
		}
	}
	return nil
}

func (n *nemesis) dropConns() {
	if a, b := n.victim(), n.victim(); a != nil && b != nil && a != b {
		n.c.Network().DropConns(n.c.Host(a.index), n.c.Host(b.index))
	}
}

func (n *nemesis) holdReplies() {
	if s := n.victim(); s != nil {
		host, well := n.c.Host(s.index), s.trouble("net")
		n.c.Network().HoldReplies(host, true)
		n.later(longest, func() { n.c.Network().HoldReplies(host, false); well() })
	}
}

func (n *nemesis) latency() {
	delay := time.Duration(n.rng.Int64N(int64(200 * time.Millisecond)))
	n.c.Network().SetDelay("*", "*", delay, delay/2)
	n.later(longest/2, func() { n.c.Network().SetDelay("*", "*", 200*time.Microsecond, 50*time.Microsecond) })
}

func (n *nemesis) pause() {
	if s := n.victim(); s != nil && s.bad["pause"] == 0 {
		well := s.trouble("pause")
		n.c.Pause(s.index)
		n.later(longest, func() { n.c.Resume(s.index); well() })
	}
}

// freeze stops a process, or suspends its machine: its clocks stand still for its own code, and nothing goes in or out.
func (n *nemesis) freeze() {
	s := n.victim()
	if s == nil || s.bad["pause"] > 0 {
		return
	}
	well, clocks, suspend := s.trouble("pause"), n.c.Clock(s.index), n.rng.IntN(2) == 0
	s.froze.Add(1)
	s.frozen.Store(true)
	n.c.Pause(s.index)
	clocks.SetRate(1e-9)
	began := time.Now()
	n.later(longest, func() {
		clocks.SetRate(s.rate)
		passed := time.Duration(float64(time.Since(began)) * s.rate)
		if suspend {
			clocks.Slept(passed)
		} else {
			clocks.Stopped(passed)
		}
		s.woke.Store(time.Now().UnixNano())
		s.frozen.Store(false)
		n.c.Resume(s.index)
		well()
	})
}

// clockRate keeps all rates within 1.2 of each other.
func (n *nemesis) clockRate() {
	if s := n.victim(); s != nil && !s.frozen.Load() {
		s.rate = math.Pow(1.2, n.rng.Float64()-0.5)
		n.c.Clock(s.index).SetRate(s.rate)
	}
}

func (n *nemesis) stepWall() {
	if s := n.victim(); s != nil {
		n.c.Clock(s.index).StepWall(time.Duration(n.rng.Int64N(int64(2*time.Hour))) - time.Hour)
	}
}

func (n *nemesis) slept() {
	if s := n.victim(); s != nil && !s.frozen.Load() {
		n.c.Clock(s.index).Slept(time.Duration(n.rng.Int64N(int64(longest))))
	}
}

func (n *nemesis) handOver() {
	if s := n.leading(); s != nil {
		n.c.HandOver(s.index)
	}
}

func (n *nemesis) crash() {
	s := n.mortal()
	if s == nil {
		return
	}
	n.down(s)
	n.c.Crash(s.index)
	n.later(longest, func() { n.start(s) })
}

func (n *nemesis) start(s *spot) {
	n.c.Start(s.index)
	n.up(s)
}

// chaosClose is what Close promises, and the callbacks.
const chaosClose = 5*time.Second + longWork + calledLate

func (n *nemesis) close(list ...*spot) {
	var all sync.WaitGroup
	for _, s := range list {
		node := s.node
		n.down(s)
		all.Go(func() { n.endsWithin("close", chaosClose, func() { _ = node.Close() }) })
	}
	all.Wait()
	for _, s := range list {
		_ = n.c.Stop(s.index) // for the books
	}
}

func (n *nemesis) stop() {
	if s := n.mortal(); s != nil {
		n.close(s)
		n.later(longest/2, func() { n.start(s) })
	}
}

// stopSeveral is the end of several instances at once.
func (n *nemesis) stopSeveral() {
	if n.memory || n.gentle {
		return
	}
	var list []*spot
	for range n.size {
		if s := n.mortal(); s != nil && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	n.close(list...)
	n.later(longest/2, func() {
		for _, s := range list {
			n.start(s)
		}
	})
}

// leaveAndGrow replaces an instance by a new one, before or after it goes.
func (n *nemesis) leaveAndGrow() {
	s := n.mortal()
	if s == nil || len(n.spots) >= n.size+3 {
		return
	}
	if before := n.rng.IntN(2) == 0; before {
		n.adopt(n.c.Grow())
		n.pass(time.Duration(n.rng.Int64N(int64(5 * time.Second))))
		if s.node == nil || s.frozen.Load() || len(s.bad) > 0 {
			return
		}
		n.leave(s)
		return
	}
	if n.leave(s) {
		n.adopt(n.c.Grow())
	}
}

// leave takes an instance out, if the group can spare it. One that stayed a member starts again.
func (n *nemesis) leave(s *spot) bool {
	const bound = 6 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	n.down(s)
	var err error
	n.endsWithin("leave", bound+chaosClose, func() { err = n.c.Leave(ctx, s.index) })
	if err != nil {
		n.later(longest/2, func() { n.start(s) })
		return false
	}
	s.gone = true
	return true
}

func (n *nemesis) slowDisk() {
	if s := n.victim(); s != nil && s.bad["disk"] == 0 {
		well, disk := s.trouble("disk"), n.c.Disk(s.index)
		disk.Slow(time.Duration(n.rng.Int64N(int64(1500 * time.Millisecond))))
		n.later(longest, func() { disk.Slow(0); well() })
	}
}

func (n *nemesis) hangDisk() {
	if s := n.victim(); s != nil && s.bad["disk"] == 0 {
		well, disk := s.trouble("disk"), n.c.Disk(s.index)
		disk.Hang(true)
		n.later(longest, func() { disk.Hang(false); well() })
	}
}

var errPlanted = errors.New("input/output error")

// failDisk ends an instance's part in the group; it is started again with a disk that is in order.
func (n *nemesis) failDisk() {
	s := n.victim()
	if s == nil || s.bad["disk"] > 0 {
		return
	}
	well := s.trouble("disk")
	n.c.Disk(s.index).Fail(errPlanted)
	n.later(longest, func() { n.replaceDisk(s, well) })
}

func (n *nemesis) replaceDisk(s *spot, well func()) {
	if s.frozen.Load() { // nobody can end it
		n.later(time.Second, func() { n.replaceDisk(s, well) })
		return
	}
	disk := n.c.Disk(s.index)
	if s.node == nil {
		disk.Fail(nil)
	} else {
		if err := s.node.Err(); err != nil && !(errors.Is(err, quorumlock.ErrFailed) && errors.Is(err, errPlanted)) {
			n.t.Errorf("node with a failed disk: %v", err)
		}
		n.close(s)
		disk.Fail(nil)
		n.start(s)
	}
	well()
}
