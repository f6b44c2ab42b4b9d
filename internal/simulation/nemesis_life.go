package simulation

import (
	"context"
	"slices"
	"sync"
	"time"
)

var lifeActs = []act{
	{"hand leadership over", 1, (*nemesis).handOver},
	{"crash", 2, (*nemesis).crash},
	{"crash all", 1, (*nemesis).crashAll},
	{"forget", 2, (*nemesis).forget},
	{"close", 1, (*nemesis).stop},
	{"close several", 1, (*nemesis).stopSeveral},
	{"leave and grow", 1, (*nemesis).leaveAndGrow},
}

// closeBound is what Close promises, and the callbacks.
const closeBound = 5*time.Second + deafWork + lateBound

func (n *nemesis) handOver() bool {
	in := n.leading()
	if in == nil {
		return false
	}
	n.c.HandOver(in.index)
	return true
}

func (n *nemesis) crash() bool {
	in := n.mortal()
	if in == nil {
		return false
	}
	n.crashOne(in)
	n.later(longest, func() { n.start(in) })
	return true
}

func (n *nemesis) crashOne(in *instance) {
	n.down(in)
	n.c.Crash(in.index)
	n.outcome.Bites.Crashes++
}

// crashAll is a power cut: what has been acknowledged is on the disks (I5).
func (n *nemesis) crashAll() bool {
	if n.Memory || n.Gentle {
		return false
	}
	var list []*instance
	for _, in := range n.running() {
		if !in.frozen.Load() && in.bad["disk"] == 0 && in.bad["pause"] == 0 {
			list = append(list, in)
			n.crashOne(in)
		}
	}
	for _, in := range list {
		n.later(longest/4, func() { n.start(in) })
	}
	return len(list) > 0
}

// forget lets one voter lag, another one lose its memory, and then cuts off the leader, who alone knows what the two committed last. If the one without a memory voted
// as if it were still who it was, the two would elect the one that lags.
func (n *nemesis) forget() bool {
	if !n.Memory || n.Gentle {
		return false
	}
	n.takeBack()
	n.pass(5 * time.Second)
	lead := n.leading()
	var rest []*instance
	for _, in := range n.running() {
		if in != lead {
			rest = append(rest, in)
		}
	}
	if lead == nil || len(rest) != 2 || !n.allVotersWell() {
		return false
	}
	lags, forgets := rest[0], rest[1]
	lift := n.block(n.around(lags)...)
	n.pass(time.Duration(n.rng.Int64N(int64(3 * time.Second))))
	n.crashOne(forgets)
	n.blockFor(longest, n.around(lead), lead)
	n.start(forgets)
	lift()
	return true
}

func (n *nemesis) start(in *instance) {
	n.c.Start(in.index)
	n.up(in)
}

func (n *nemesis) close(list ...*instance) {
	var all sync.WaitGroup
	for _, in := range list {
		node := in.node
		n.down(in)
		all.Go(func() { n.endsWithin("close", closeBound, func() { _ = node.Close() }) })
	}
	all.Wait()
	for _, in := range list {
		_ = n.c.Stop(in.index) // for the books
	}
}

func (n *nemesis) stop() bool {
	in := n.mortal()
	if in == nil {
		return false
	}
	n.close(in)
	n.later(longest/2, func() { n.start(in) })
	return true
}

// stopSeveral is the end of several instances at once.
func (n *nemesis) stopSeveral() bool {
	if n.Memory || n.Gentle {
		return false
	}
	var list []*instance
	for range n.Size {
		if in := n.mortal(); in != nil && !slices.Contains(list, in) {
			list = append(list, in)
		}
	}
	n.close(list...)
	n.later(longest/2, func() {
		for _, in := range list {
			n.start(in)
		}
	})
	return len(list) > 0
}

// mostGrown is how many instances a schedule adds at most: each costs its share of the run from then on.
const mostGrown = 3

// leaveAndGrow replaces an instance by a new one, before or after it goes.
func (n *nemesis) leaveAndGrow() bool {
	in := n.mortal()
	if in == nil || len(n.instances) >= n.Size+mostGrown {
		return false
	}
	if before := n.rng.IntN(2) == 0; before {
		n.adopt(n.c.Grow())
		n.pass(time.Duration(n.rng.Int64N(int64(5 * time.Second))))
		if in.node != nil && !in.frozen.Load() && len(in.bad) == 0 {
			n.leave(in)
		}
		return true
	}
	if n.leave(in) {
		n.adopt(n.c.Grow())
	}
	return true
}

// leave takes an instance out, if the group can spare it. One that stayed a member starts again.
func (n *nemesis) leave(in *instance) bool {
	const bound = 6 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	n.down(in)
	var err error
	n.endsWithin("leave", bound+closeBound, func() { err = n.c.Leave(ctx, in.index) })
	if err != nil {
		n.later(longest/2, func() { n.start(in) })
		return false
	}
	in.gone = true
	return true
}
