//go:build unix

package main

import (
	"testing"
	"time"
)

func TestOverlaps(t *testing.T) {
	held := func(begin, end time.Duration) belief { return belief{begin: begin, end: end, confirmed: true} }
	asked := func(begin, end time.Duration) belief { return belief{begin: begin, end: end} }
	for name, c := range map[string]struct {
		list []belief
		want int
	}{
		"none":                          {nil, 0},
		"one after the other":           {[]belief{held(0, 10), held(11, 20), held(21, 30)}, 0},
		"two at once":                   {[]belief{held(0, 10), held(5, 20)}, 1},
		"in any order":                  {[]belief{held(5, 20), held(0, 10)}, 1},
		"one within the other":          {[]belief{held(0, 100), held(40, 50)}, 1},
		"at one instant":                {[]belief{held(0, 10), held(10, 20)}, 1},
		"three at once are three pairs": {[]belief{held(0, 30), held(10, 40), held(20, 50)}, 3},
		"one beside two in turn":        {[]belief{held(0, 50), held(10, 20), held(30, 40)}, 2},
		"never told that it holds":      {[]belief{held(0, 50), asked(10, 10)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if n := overlaps(c.list); n != c.want {
				t.Errorf("%d overlaps, want %d", n, c.want)
			}
		})
	}
}

// The count of lost updates is compared with what was told to whom, in all interleavings of two workers with two increments each.
func TestLostUpdates(t *testing.T) {
	var play func(c counter, read [2]int, left [2]int, phase [2]bool, lost int)
	orders := 0
	play = func(c counter, read [2]int, left [2]int, phase [2]bool, lost int) {
		if left == [2]int{} {
			orders++
			if c.lost() != lost {
				t.Fatalf("%d lost, want %d: %+v", c.lost(), lost, c)
			}
			return
		}
		for i := range 2 {
			if left[i] == 0 {
				continue
			}
			c, read, left, phase, lost := c, read, left, phase, lost
			if !phase[i] {
				read[i] = c.value
			} else {
				lost += c.value - read[i] // increments that this write undoes
				c.write(read[i] + 1)
				left[i]--
			}
			phase[i] = !phase[i]
			play(c, read, left, phase, lost)
		}
	}
	play(counter{}, [2]int{}, [2]int{2, 2}, [2]bool{}, 0)
	if orders != 70 { // 8 over 4
		t.Errorf("%d orders were played", orders)
	}
}

func TestTallyAdd(t *testing.T) {
	a := tally{grants: 1, overlaps: 2, plain: counter{3, 4}, fenced: counter{5, 6}, refused: 7}
	b := tally{grants: 10, overlaps: 20, plain: counter{30, 40}, fenced: counter{50, 60}, refused: 70, tokens: true}
	want := tally{grants: 11, overlaps: 22, plain: counter{33, 44}, fenced: counter{55, 66}, refused: 77, tokens: true}
	if got := a.add(b); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
