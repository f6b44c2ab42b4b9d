//go:build unix

package main

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// table is the run for people: one block for each measure.
func (r *results) table() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %s\n", r.Machine, r.Took.Round(time.Second))
	peer := who{system: etcdSystem.name}
	bottom := r.of(floorMeasures[floorReplicated], floorWho)
	for _, b := range r.blocks {
		w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
		fmt.Fprintf(w, "\n%s (%s)\tmedian\trange\tto etcd\tto floor\n", b.measure.title, b.measure.unit)
		against := r.of(b.measure, peer)
		for _, l := range b.lines {
			s := spreadOf(l.figures)
			floor := math.NaN()
			if b.measure.floor {
				floor = ratio(s, bottom)
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", l.who, shown(s.Median), ranged(s), times(ratio(s, against)), times(floor))
		}
		_ = w.Flush() // writes to a strings.Builder
	}
	for _, l := range r.Left {
		fmt.Fprintf(&text, "\nleft out: %s\n", l)
	}
	for _, f := range r.Failed {
		fmt.Fprintf(&text, "\nFAILED: %s\n", f)
	}
	return text.String()
}

// shown has three digits that count, and no fraction from a thousand on.
func shown(f float64) string {
	switch a := math.Abs(f); {
	case math.IsNaN(f):
		return "-"
	case a == 0:
		return "0"
	case a >= 100:
		return fmt.Sprintf("%.0f", f)
	case a >= 10:
		return fmt.Sprintf("%.1f", f)
	case a >= 1:
		return fmt.Sprintf("%.2f", f)
	}
	return fmt.Sprintf("%.3f", f)
}

func ranged(s spread) string {
	if s.Count < 2 {
		return "-"
	}
	return shown(s.Least) + " .. " + shown(s.Most)
}

func times(f float64) string {
	if math.IsNaN(f) {
		return "-"
	}
	return "x " + shown(f)
}
