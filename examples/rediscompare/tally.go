//go:build unix

package main

import "time"

// belief is one grant as the worker that had it saw it, on the parent's clock.
//
// Both ends are inside the time in which the worker believed that it held. Begin was stamped by the parent after the grant
// had reached the worker. End is a stamp of the parent after which the worker asked its lock whether it still holds, and was
// told yes. So two intervals that meet are two holders at once, however slow a message was.
type belief struct {
	worker     string
	begin, end time.Duration
	confirmed  bool // the worker was told yes at least once: only then end counts
	writes     int  // that the worker sent
	ended      bool // the worker has found out, or has released
}

// overlaps counts the pairs of grants that were believed at one instant.
func overlaps(list []belief) int {
	n := 0
	for i, a := range list {
		for _, b := range list[i+1:] {
			if a.confirmed && b.confirmed && max(a.begin, b.begin) <= min(a.end, b.end) {
				n++
			}
		}
	}
	return n
}

// counter is what the workers increment: each reads it, adds one, and writes what that gives.
type counter struct{ value, acknowledged int }

func (c *counter) write(value int) {
	c.value = value
	c.acknowledged++
}

// lost is how many acknowledged increments are not in the value. It is never negative: every write is by one higher than
// something written before.
func (c counter) lost() int { return c.acknowledged - c.value }

// tally is what came of one fault.
type tally struct {
	grants   int
	overlaps int
	plain    counter // the copy without a fence
	fenced   counter // the copy behind a fence; nothing is written to it without a token
	tokens   bool    // the grants had tokens
	refused  int     // writes that the fence refused
}

// add sums the tallies of one fault that was done several times.
func (t tally) add(o tally) tally {
	t.grants += o.grants
	t.overlaps += o.overlaps
	t.plain.value += o.plain.value
	t.plain.acknowledged += o.plain.acknowledged
	t.fenced.value += o.fenced.value
	t.fenced.acknowledged += o.fenced.acknowledged
	t.tokens = t.tokens || o.tokens
	t.refused += o.refused
	return t
}
