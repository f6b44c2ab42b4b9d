//go:build unix

package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// result is all that one run has shown.
type result struct {
	rows   []row
	speeds []speed
}

// table is the result for people: faults above, speeds below.
func (r result) table() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	if len(r.rows) > 0 {
		fmt.Fprintf(w, "\nUNDER FAULTS\tkept on disk\tfault\ttimes\tgrants\toverlaps\tlost, no fence\tlost, fenced\trefused\n")
		for _, row := range r.rows {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n", row.system, row.keeps, row.fault, row.times,
				row.grants, row.overlaps, share(row.plain), row.fencedLost(), row.shownRefused())
		}
	}
	_ = w.Flush() // writes to a strings.Builder
	w = tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	if len(r.speeds) > 0 {
		fmt.Fprintf(w, "\nWITHOUT FAULTS\tkept on disk\tacquire, 1 caller\t%[1]d callers\tcycles/s, 1 caller\t%[1]d callers\n",
			mostCallers)
		for _, s := range r.speeds {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f\t%.0f\n", s.system, s.keeps, shortly(s.one.Median), shortly(s.many.Median),
				s.one.perSecond(), s.many.perSecond())
		}
	}
	_ = w.Flush()
	text.WriteString(r.notes())
	return text.String()
}

// share is the lost of the acknowledged.
func share(c counter) string { return fmt.Sprintf("%d of %d", c.lost(), c.acknowledged) }

func (r row) fencedLost() string {
	if !r.tokens {
		return "no token"
	}
	return share(r.fenced)
}

func (r row) shownRefused() string {
	if !r.tokens {
		return "-"
	}
	return fmt.Sprint(r.refused)
}

func shortly(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

func (r result) notes() string {
	var text strings.Builder
	if len(r.rows) > 0 {
		text.WriteString(`
overlaps: pairs of grants that two workers believed in at one instant. lost: acknowledged increments that are not in the counter.
refused: writes that the fence refused as stale. The token of the single Redis lock is no part of its recipe: it is an INCR in the
script that grants. Redlock has none.
`)
	}
	values, ascending := 0, 0
	for _, s := range r.speeds {
		values += s.one.Values
		ascending += s.one.Ascending
	}
	if values > 0 {
		fmt.Fprintf(&text, "\nRandom values are no tokens: a fence that keeps the highest would have accepted %d of %d grants in order.\n",
			ascending, values)
	}
	return text.String()
}
