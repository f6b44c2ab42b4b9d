package simulation

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
)

// nemesis brings trouble over the instances of a schedule, one act after the other, and takes it back a while later.
type nemesis struct {
	*schedule
	undo    []undo
	blocked map[way]int // how many acts cut it
	calmed  time.Time   // when the last calm ended
}

type undo struct {
	at time.Time
	f  func()
}

// act is something that the nemesis does. It reports false if the schedule had no room for it.
type act struct {
	name   string
	weight int
	f      func(*nemesis) bool
}

// acts lists all that can be injected, by topic: the network, processes and who is a member, clocks, disks; and calm, in which nothing is.
func acts() []act {
	return slices.Concat(netActs, lifeActs, clockActs, diskActs, []act{{"calm", 1, (*nemesis).calm}})
}

// longest is how long a fault lasts at most; twice the TTL, so that some outlast every session.
const longest = 2 * defaultTTL

// play acts for a while.
func (n *nemesis) play(length time.Duration) {
	var hat []act
	for _, a := range acts() {
		for range a.weight {
			hat = append(hat, a)
		}
	}
	if n.Wild || n.rng.IntN(2) == 0 {
		for _, in := range n.instances {
			n.setRate(in)
		}
	}
	for end := n.started.Add(length); time.Now().Before(end); {
		n.pass(time.Duration(n.rng.Int64N(int64(3 * time.Second))))
		if a := hat[n.rng.IntN(len(hat))]; a.f(n) {
			n.outcome.act(a.name, time.Since(n.started))
		}
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

// takeBack ends all that is wrong, and starts who is down.
func (n *nemesis) takeBack() {
	for len(n.undo) > 0 {
		list := n.undo
		n.undo = nil
		for _, u := range list {
			u.f()
		}
	}
}

// mend takes everything back, for good.
func (n *nemesis) mend() {
	n.takeBack()
	for _, in := range n.instances {
		if in.node != nil && in.node.Err() != nil {
			n.t.Errorf("instance %d failed by itself: %v", in.index, in.node.Err())
		}
		if n.Wild && !in.gone {
			n.c.Clock(in.index).SetRate(1)
		}
	}
}

const (
	calmEvery = 2 * time.Minute
	settled   = 16 * time.Second // after which no session of a dead process is left, even if the leader has changed meanwhile
	given     = 3 * time.Second  // within which a grant has come to its caller, or has been withdrawn, when all is well
)

// calm takes everything back and lets the traffic go on alone. What is held then must be held by somebody.
func (n *nemesis) calm() bool {
	if time.Since(n.calmed) < calmEvery {
		return false
	}
	n.takeBack()
	time.Sleep(settled)
	before := n.holders()
	time.Sleep(given)
	for name, claims := range n.holders() {
		for _, id := range claims {
			n.mu.Lock()
			_, known := n.acquired[id]
			n.mu.Unlock()
			if !known && !n.Wild && slices.Contains(before[name], id) {
				n.t.Errorf("%q has been held by %q for %v while all is well, and no caller was given that", name, id, given)
			}
		}
	}
	n.calmed = time.Now()
	return true
}

// holders are the claims that hold each lock; when all is well the question works.
func (n *nemesis) holders() map[string][]string {
	list := make(map[string][]string)
	for _, name := range n.allNames() {
		info, err := n.inspect(n.running()[0].node, "nemesis", name, 5*time.Second)
		if err != nil {
			n.t.Errorf("inspect %q while all is well: %v", name, err)
		}
		for _, h := range info.Holders {
			if !h.Barred {
				list[name] = append(list[name], h.Note)
			}
		}
	}
	return list
}

// later takes something back after up to most.
func (n *nemesis) later(most time.Duration, f func()) {
	d := time.Duration(n.rng.Int64N(int64(most)))
	n.undo = append(n.undo, undo{time.Now().Add(d), f})
}

// victim picks an instance that runs, and nil if the schedule has trouble enough.
func (n *nemesis) victim() *instance {
	list, bad := n.running(), 0
	for _, in := range n.instances {
		if !in.gone && (in.node == nil || len(in.bad) > 0) {
			bad++
		}
	}
	if len(list) == 0 {
		return nil
	}
	in := list[n.rng.IntN(len(list))]
	if n.Gentle && bad >= (n.Size-1)/2 && len(in.bad) == 0 {
		return nil
	}
	return in
}

// pair picks two of them.
func (n *nemesis) pair() (a, b *instance, ok bool) {
	a, b = n.victim(), n.victim()
	return a, b, a != nil && b != nil && a != b
}

// mortal picks an instance that may go: of a cluster in memory one at a time, with all voters well, since a majority that is gone takes the state with it.
func (n *nemesis) mortal() *instance {
	in := n.victim()
	if in == nil || in.frozen.Load() || in.bad["disk"] > 0 || in.bad["pause"] > 0 {
		return nil
	}
	if n.Memory && !n.allVotersWell() {
		return nil
	}
	return in
}

// allVotersWell: nobody is down, or in another trouble than a network that is cut, and whoever crashed and came back as another one has its vote again. One that lags
// behind a cut is no obstacle: the rest has all that was committed, and may not forget it by electing the one that lags.
func (n *nemesis) allVotersWell() bool {
	ids := make(map[string]bool)
	for _, in := range n.instances {
		if in.gone {
			continue
		}
		if in.node == nil || len(in.bad) > 1 || len(in.bad) == 1 && in.bad["net"] == 0 {
			return false
		}
		ids[in.node.ID()] = true
	}
	for _, in := range n.running() {
		members, _ := in.node.Members(context.Background(), quorumlock.Local())
		voters := 0
		for _, m := range members {
			if m.Voter && !ids[m.ServerID] {
				return false
			}
			if m.Voter {
				voters++
			}
		}
		if voters < 3 {
			return false
		}
	}
	return true
}
