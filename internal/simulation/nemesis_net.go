package simulation

import "time"

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
	{"a late last word", 2, (*nemesis).lateLastWord},
	{"latency", 1, (*nemesis).latency},
}

func (n *nemesis) healNet(wells ...func()) {
	n.later(longest, func() {
		n.c.Heal()
		for _, well := range wells {
			well()
		}
	})
}

func (n *nemesis) cut() bool {
	a, b, ok := n.pair()
	if !ok {
		return false
	}
	n.c.Cut(a.index, b.index)
	if n.rng.IntN(2) == 0 {
		n.c.Cut(b.index, a.index)
	}
	n.healNet(a.trouble("net"))
	return true
}

func (n *nemesis) isolate() bool { return n.isolateOne(n.victim()) }

func (n *nemesis) isolateLeader() bool { return n.victim() != nil && n.isolateOne(n.leading()) }

func (n *nemesis) isolateHolder() bool { return n.victim() != nil && n.isolateOne(n.holder()) }

func (n *nemesis) isolateOne(in *instance) bool {
	if in == nil {
		return false
	}
	n.c.Isolate(in.index)
	n.healNet(in.trouble("net"))
	return true
}

// deafOrMute: all that one instance is told is lost, or all that it says.
func (n *nemesis) deafOrMute() bool {
	in := n.victim()
	if in == nil {
		return false
	}
	deaf := n.rng.IntN(2) == 0
	for _, other := range n.instances {
		switch {
		case other == in:
		case deaf:
			n.c.Cut(other.index, in.index)
		default:
			n.c.Cut(in.index, other.index)
		}
	}
	n.healNet(in.trouble("net"))
	return true
}

// bridge splits the instances in two, and one of them sees both sides.
func (n *nemesis) bridge() bool {
	if n.Gentle {
		return false
	}
	list := n.running()
	if len(list) < 3 {
		return false
	}
	n.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	sides := list[1:]
	half := len(sides) / 2
	var wells []func()
	for _, a := range sides[:half] {
		for _, b := range sides[half:] {
			n.c.Cut(a.index, b.index)
			n.c.Cut(b.index, a.index)
		}
		wells = append(wells, a.trouble("net"))
	}
	n.healNet(wells...)
	return true
}

// flap cuts one instance off again and again, for about as long as an election takes.
func (n *nemesis) flap() bool {
	in := n.victim()
	if in == nil {
		return false
	}
	well := in.trouble("net")
	at := time.Duration(0)
	for range 3 + n.rng.IntN(6) {
		n.undo = append(n.undo, undo{time.Now().Add(at), func() { n.c.Isolate(in.index) }})
		at += time.Duration(n.rng.Int64N(int64(1500 * time.Millisecond)))
		n.undo = append(n.undo, undo{time.Now().Add(at), n.c.Heal})
		at += time.Duration(n.rng.Int64N(int64(time.Second)))
	}
	n.undo = append(n.undo, undo{time.Now().Add(at), func() { n.c.Heal(); well() }})
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

// lateLastWord: a holder is cut off for longer than its TTL, and the last answer that it got before was long on its way. What a lease is counted from shows here.
func (n *nemesis) lateLastWord() bool {
	lead, in := n.leading(), n.holder()
	if n.victim() == nil || lead == nil || in == nil || lead == in {
		return false
	}
	host, well := n.c.Host(lead.index), in.trouble("net")
	n.c.Network().HoldReplies(host, true)
	held := time.Duration(n.rng.Int64N(int64(1200 * time.Millisecond))) // an attempt waits no longer than a second for its answer
	n.undo = append(n.undo, undo{time.Now().Add(held), func() {
		n.c.Network().HoldReplies(host, false)
		time.Sleep(5 * time.Millisecond) // for what was held
		n.c.Isolate(in.index)
		n.undo = append(n.undo, undo{time.Now().Add(longest), func() { n.c.Heal(); well() }})
	}})
	return true
}

func (n *nemesis) latency() bool {
	delay := time.Duration(n.rng.Int64N(int64(200 * time.Millisecond)))
	n.c.Network().SetDelay("*", "*", delay, delay/2)
	n.later(longest/2, func() { n.c.Network().SetDelay("*", "*", 200*time.Microsecond, 50*time.Microsecond) })
	return true
}
