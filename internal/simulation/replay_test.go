//go:build !wasip1

package simulation_test

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// What is played when no seed is asked for, so that the exact mode itself stays sound.
const (
	soundSeed   = 4
	soundLength = 5 * time.Second
)

// TestReplay plays the schedule of a seed in the exact mode: this package's tests, built for wasip1, run twice with the same source of randomness.
// What happened must happen again, to the byte of the output. A run with other randomness has another order of selects, maps and timers and must come
// out differently: else the hash of events would tell nothing.
//
// A native failure happened in an order that nobody knows. So -orders tries one after the other until the schedule fails in one; that one is kept by -order.
func TestReplay(t *testing.T) {
	seed, each, first := *replay, *length, *order
	switch {
	case seed == 0:
		skipCostly(t)
		seed, each = soundSeed, soundLength
	case each == 0:
		each = replayLength
	}
	if first == 0 {
		first = seed
	}
	g := buildGuest(t)
	t.Run("open without simulation", func(t *testing.T) {
		if output, err := g.run(t, 1, "-test.run=^TestOpenUnsupported$"); err != nil {
			t.Errorf("%v:\n%s", err, output)
		}
	})
	a := g.search(t, schedule{seed, each, first}, *orders)
	t.Logf("%v took %v:\n%s", a.schedule, a.took, a.output)
	if a.err != nil {
		t.Errorf("%v: %v", a.schedule, a.err)
	}
	compare(t, g, a)
}

// compare plays a schedule again, and with other randomness besides.
func compare(t *testing.T, g guest, a played) {
	other := a.schedule
	other.order++
	var b, c played
	var both sync.WaitGroup
	both.Go(func() { b = g.play(t, a.schedule) })
	both.Go(func() { c = g.play(t, other) })
	both.Wait()
	for _, p := range []played{a, b, c} {
		if t.Logf("%v: %s%s", p.schedule, eventsPrefix, p.events); p.events == "" {
			t.Errorf("%v told no events: %v", p.schedule, p.err)
		}
	}
	if a.events != b.events {
		t.Errorf("the exact mode is not exact: events %s and %s", a.events, b.events)
	}
	if line, inA, inB := firstDifference(a.output, b.output); line > 0 {
		t.Errorf("equal runs differ in line %d of their output:\n%s\n%s", line, inA, inB)
	}
	if c.err != nil {
		t.Errorf("%v fails: play it with -order %d: %v", c.schedule, c.order, c.err)
	}
	if a.events == c.events {
		t.Errorf("other randomness, the same events: %s", c.events)
	}
}

// skipCostly skips what is not worth its time unless it is asked for.
func skipCostly(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("the exact mode has one thread, in which no race can be seen")
	}
	if testing.Short() {
		t.Skip("takes a build for another platform")
	}
}

// firstDifference gives the number of the first line, from 1, in which two texts differ, and 0 for equal ones.
func firstDifference(a, b string) (line int, inA, inB string) {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(as), len(bs)) {
		inA, inB = "", ""
		if i < len(as) {
			inA = as[i]
		}
		if i < len(bs) {
			inB = bs[i]
		}
		if inA != inB || i >= min(len(as), len(bs)) {
			return i + 1, inA, inB
		}
	}
	return 0, "", ""
}

func TestFirstDifference(t *testing.T) {
	for _, k := range []struct {
		a, b, inA, inB string
		line           int
	}{
		{a: "x\ny\n", b: "x\ny\n"},
		{a: "x\ny", b: "x\nz", line: 2, inA: "y", inB: "z"},
		{a: "x", b: "x\ny", line: 2, inB: "y"},
		{a: "x\n", b: "x", line: 2},
	} {
		line, inA, inB := firstDifference(k.a, k.b)
		if line != k.line || inA != k.inA || inB != k.inB {
			t.Errorf("%q, %q: line %d, %q and %q", k.a, k.b, line, inA, inB)
		}
	}
}
