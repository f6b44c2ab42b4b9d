package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// printJSON prints one object on one line, so that streams of them are lines too.
func (inv *invocation) printJSON(v any) error { return json.NewEncoder(inv.out).Encode(v) }

// table prints rows under a header, in columns that are aligned by spaces.
func (inv *invocation) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(inv.out, 0, 0, 2, ' ', 0)
	line(w, header)
	for _, row := range rows {
		line(w, row)
	}
	return w.Flush()
}

// pairs prints one label and value per line, both given in turn. Values that are "" are left out.
func (inv *invocation) pairs(all ...string) error {
	w := tabwriter.NewWriter(inv.out, 0, 0, 2, ' ', 0)
	for ; len(all) >= 2; all = all[2:] {
		if all[1] != "" {
			line(w, all[:2])
		}
	}
	return w.Flush()
}

func line(w io.Writer, cells []string) {
	clean := make([]string, len(cells))
	for i, cell := range cells {
		clean[i] = printable(cell)
		if cell == "" {
			clean[i] = "-"
		}
	}
	fmt.Fprintln(w, strings.Join(clean, "\t"))
}

// printable escapes what could move the cursor or hide words: what is shown was written by whoever uses the cluster.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// short is a duration for people: two units at most.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// since is how long ago a moment was by this machine's clock, which need not agree with the leader's: for people only.
func since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return short(time.Since(t))
}

// stamp is a moment in JSON: RFC 3339 in UTC, null if it is not known.
func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// say prints a line for people.
func (inv *invocation) say(line string) { fmt.Fprintln(inv.out, line) }
