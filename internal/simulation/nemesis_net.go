package simulation

import (
	"math"
	"slices"
	"time"
)

var netActs = []act{
	{"cut one way or both", 2, (*nemesis).cut},
	{"isolate one", 1, (*nemesis).isolate},
	{"isolate the leader", 1, (*nemesis).isolateLeader},
	{"isolate a holder", 1, (*nemesis).isolateHolder},
	{"deaf or mute", 1, (*nemesis).deafOrMute},
	{"bridge", 1, (*nemesis).bridge},
	{"flapping", 1, (*nemesis).flap},
	{"reset streams", 1, (*nemesis).dropConns},
	{"hold replies", 1, (*nemesis).holdReplies},
	{"lose replies", 1, (*nemesis).loseReplies},
	{"a late last word", 8, (*nemesis).lateLastWord},
	{"latency", 1, (*nemesis).latency},
}

// way is from one instance to another one.
type way struct{ from, to int }

// around are all ways from and to an instance.
func (n *nemesis) around(in *instance) (ways []way) {
	for _, other := range n.instances {
		if other != in {
			ways = append(ways, way{in.index, other.index}, way{other.index, in.index})
		}
	}
	return ways
}

// block cuts ways until the function it returns is called. Blocks overlap: a way is open again when the last one that covers it has ended.
func (n *nemesis) block(ways ...way) (lift func()) {
	if n.blocked == nil {
		n.blocked = make(map[way]int)
	}
	for _, w := range ways {
		if n.blocked[w]++; n.blocked[w] == 1 {
			n.c.Cut(w.from, w.to)
		}
	}
	return func() {
		for _, w := range ways {
			if n.blocked[w]--; n.blocked[w] == 0 {
				n.c.Network().Heal(n.c.Host(w.from), n.c.Host(w.to))
			}
		}
	}
}

// blockFor blocks ways for a while; marked are the instances whose trouble it is.
func (n *nemesis) blockFor(most time.Duration, ways []way, marked ...*instance) bool {
	lift := n.block(ways...)
	var wells []func()
	for _, in := range marked {
		wells = append(wells, in.trouble("net"))
	}
	n.later(most, func() {
		lift()
		for _, well := range wells {
			well()
		}
	})
	return true
}

func (n *nemesis) cut() bool {
	a, b, ok := n.pair()
	if !ok {
		return false
	}
	ways := []way{{a.index, b.index}, {b.index, a.index}}
	return n.blockFor(longest, ways[:1+n.rng.IntN(2)], a)
}

func (n *nemesis) isolate() bool { return n.isolateOne(n.victim()) }

func (n *nemesis) isolateLeader() bool { return n.victim() != nil && n.isolateOne(n.leading()) }

func (n *nemesis) isolateHolder() bool { return n.victim() != nil && n.isolateOne(n.holder(0)) }

func (n *nemesis) isolateOne(in *instance) bool {
	return in != nil && n.blockFor(longest, n.around(in), in)
}

// deafOrMute: all that one instance is told is lost, or all that it says.
func (n *nemesis) deafOrMute() bool {
	in := n.victim()
	if in == nil {
		return false
	}
	deaf := n.rng.IntN(2) == 0
	ways := slices.DeleteFunc(n.around(in), func(w way) bool { return (w.to == in.index) != deaf })
	return n.blockFor(longest, ways, in)
}

// bridge splits the instances in two, and one of them sees both sides.
func (n *nemesis) bridge() bool {
	list := n.running()
	if n.Gentle || len(list) < 3 {
		return false
	}
	n.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	sides := list[1:]
	half := len(sides) / 2
	var ways []way
	for _, a := range sides[:half] {
		for _, b := range sides[half:] {
			ways = append(ways, way{a.index, b.index}, way{b.index, a.index})
		}
	}
	return n.blockFor(longest, ways, sides[:half]...)
}

// flap cuts one instance off again and again, for about as long as an election takes.
func (n *nemesis) flap() bool {
	in := n.victim()
	if in == nil {
		return false
	}
	well, ways := in.trouble("net"), n.around(in)
	var lift func()
	at := time.Now()
	for range 3 + n.rng.IntN(6) {
		n.undo = append(n.undo, undo{at, func() { lift = n.block(ways...) }})
		at = at.Add(time.Duration(1 + n.rng.Int64N(int64(1500*time.Millisecond))))
		n.undo = append(n.undo, undo{at, func() { lift() }})
		at = at.Add(time.Duration(1 + n.rng.Int64N(int64(time.Second))))
	}
	n.undo = append(n.undo, undo{at, well})
	return true
}

func (n *nemesis) dropConns() bool {
	a, b, ok := n.pair()
	if ok {
		n.c.Network().DropConns(n.c.Host(a.index), n.c.Host(b.index))
	}
	return ok
}

// holdReplies lets answers come late, in many cases after the caller has asked again: it is then answered twice.
func (n *nemesis) holdReplies() bool {
	in := n.victim()
	if in == nil {
		return false
	}
	host, well := n.c.Host(in.index), in.trouble("net")
	n.c.Network().HoldReplies(host, true)
	n.later([]time.Duration{500 * time.Millisecond, longest}[n.rng.IntN(2)], func() { n.c.Network().HoldReplies(host, false); well() })
	return true
}

// loseReplies lets requests through, and then loses their answers with the streams.
func (n *nemesis) loseReplies() bool {
	in := n.victim()
	if in == nil {
		return false
	}
	host, well := n.c.Host(in.index), in.trouble("net")
	n.c.Network().HoldReplies(host, true)
	n.later(time.Second, func() {
		n.c.Network().DropConns(host, "*")
		n.c.Network().HoldReplies(host, false)
		well()
	})
	return true
}

// lateLastWord: a holder is cut off for longer than its TTL, and the last answer that it got before was long on its way. The holder's clocks are as slow as they may be, the
// leader's as fast. What a lease is counted from shows here.
func (n *nemesis) lateLastWord() bool {
	lead, in := n.leading(), n.holder(defaultTTL)
	if n.victim() == nil || lead == nil || in == nil || lead == in || lead.frozen.Load() || in.frozen.Load() {
		return false
	}
	if !n.Wild {
		n.setRateTo(in, math.Pow(spreadA3, -0.5))
		n.setRateTo(lead, math.Pow(spreadA3, 0.5))
	}
	host, well := n.c.Host(lead.index), in.trouble("net")
	n.c.Network().HoldReplies(host, true)
	held := 700*time.Millisecond + time.Duration(n.rng.Int64N(int64(300*time.Millisecond))) // an attempt waits no longer than a second for its answer
	n.undo = append(n.undo, undo{time.Now().Add(held), func() {
		n.c.Network().HoldReplies(host, false)
		time.Sleep(5 * time.Millisecond) // for what was held
		lift := n.block(n.around(in)...)
		n.undo = append(n.undo, undo{time.Now().Add(longest), func() { lift(); well() }})
	}})
	return true
}

func (n *nemesis) latency() bool {
	delay := time.Duration(n.rng.Int64N(int64(200 * time.Millisecond)))
	n.c.Network().SetDelay("*", "*", delay, delay/2)
	n.later(longest/2, func() { n.c.Network().SetDelay("*", "*", 200*time.Microsecond, 50*time.Microsecond) })
	return true
}
