package simulation

import (
	"math"
	"time"
)

var clockActs = []act{
	{"pause", 1, (*nemesis).pause},
	{"freeze one", 1, (*nemesis).freezeOne},
	{"freeze a holder", 1, (*nemesis).freezeHolder},
	{"clock rate", 1, (*nemesis).clockRate},
	{"step the wall clock", 1, (*nemesis).stepWall},
	{"suspend without a stop", 1, (*nemesis).slept},
}

// pause stops what goes in and out of an instance; its clocks go on.
func (n *nemesis) pause() bool {
	in := n.victim()
	if in == nil || in.bad["pause"] > 0 {
		return false
	}
	well := in.trouble("pause")
	n.c.Pause(in.index)
	n.later(longest, func() { n.c.Resume(in.index); well() })
	return true
}

func (n *nemesis) freezeOne() bool { return n.freeze(n.victim()) }

func (n *nemesis) freezeHolder() bool { return n.victim() != nil && n.freeze(n.holder(0)) }

// freeze stops a process, or suspends its machine: its clocks stand still for its own code, and nothing goes in or out.
func (n *nemesis) freeze(in *instance) bool {
	if in == nil || in.bad["pause"] > 0 || in.node == nil {
		return false
	}
	well, clocks, suspend := in.trouble("pause"), n.c.Clock(in.index), n.rng.IntN(2) == 0
	in.froze.Add(1)
	in.frozen.Store(true)
	n.c.Pause(in.index)
	clocks.SetRate(1e-9)
	began := time.Now()
	n.later(longest, func() {
		clocks.SetRate(in.rate)
		passed := time.Duration(float64(time.Since(began)) * in.rate)
		if suspend {
			clocks.Slept(passed)
		} else {
			clocks.Stopped(passed)
		}
		in.woke.Store(time.Now().UnixNano())
		in.frozen.Store(false)
		n.c.Resume(in.index)
		well()
	})
	return true
}

// spreadA3 is how far apart rates are at most, unless they are wild; A3 says less than 1.25.
const spreadA3 = 1.2

// clockRate keeps all rates within 1.2 of each other, and often at the ends of that; where they are wild they are 1 or 3 times as fast.
func (n *nemesis) clockRate() bool {
	in := n.victim()
	if in == nil || in.frozen.Load() {
		return false
	}
	n.setRate(in)
	return true
}

func (n *nemesis) setRate(in *instance) {
	spread, at := spreadA3, n.rng.Float64()
	if n.Wild {
		spread = 3
	}
	if n.Wild || n.rng.IntN(2) == 0 {
		at = math.Round(at)
	}
	n.setRateTo(in, math.Pow(spread, at-0.5))
}

func (n *nemesis) setRateTo(in *instance, rate float64) {
	in.rate = rate
	n.c.Clock(in.index).SetRate(rate)
}

func (n *nemesis) stepWall() bool {
	in := n.victim()
	if in == nil {
		return false
	}
	step := time.Duration(n.rng.Int64N(int64(2*time.Hour))) - time.Hour
	in.stepped += step
	n.c.Clock(in.index).StepWall(step)
	return true
}

// slept makes an instance's clocks say that it was suspended.
func (n *nemesis) slept() bool {
	in := n.victim()
	if in == nil || in.frozen.Load() {
		return false
	}
	n.c.Clock(in.index).Slept(time.Duration(n.rng.Int64N(int64(longest))))
	return true
}
