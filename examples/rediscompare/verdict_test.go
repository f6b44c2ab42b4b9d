//go:build unix

package main

import (
	"strings"
	"testing"
	"time"
)

// The comparison must not print "ok" over a fault that did not bite, nor over a promise that was not kept.
func TestVerdict(t *testing.T) {
	bitten := counter{value: 4, acknowledged: 5}
	whole := counter{value: 5, acknowledged: 5}
	for name, c := range map[string]struct {
		row  row
		says string // "" if all is well
	}{
		"granted twice each time":   {row{times: 2, tally: tally{overlaps: 2}, must: expectation{overlap: true}}, ""},
		"granted twice only once":   {row{times: 2, tally: tally{overlaps: 1}, must: expectation{overlap: true}}, "did not bite: 1 grants"},
		"late write":                {row{tally: tally{plain: bitten}, must: expectation{stale: true}}, ""},
		"no late write":             {row{tally: tally{plain: whole}, must: expectation{stale: true}}, "did not bite: no update"},
		"nothing promised":          {row{tally: tally{overlaps: 3, plain: bitten}}, ""},
		"promise kept":              {row{tally: tally{fenced: whole}, must: expectation{safe: true}}, ""},
		"promise kept over a pause": {row{tally: tally{plain: bitten, fenced: whole, refused: 1}, must: expectation{safe: true, stale: true}}, ""},
		"overlap":                   {row{tally: tally{overlaps: 1, fenced: whole}, must: expectation{safe: true}}, "1 grants overlapped"},
		"fenced update lost":        {row{tally: tally{fenced: bitten}, must: expectation{safe: true}}, "1 of 5 updates lost"},
		"nothing behind the fence":  {row{must: expectation{safe: true}}, "0 of 0 updates lost"},
		"nothing refused": {row{tally: tally{plain: bitten, fenced: whole}, must: expectation{safe: true, stale: true}},
			"refused no late write"},
	} {
		t.Run(name, func(t *testing.T) {
			err := result{rows: []row{c.row}}.verdict()
			switch {
			case c.says == "" && err != nil:
				t.Errorf("unexpected: %v", err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("%v, want %q in it", err, c.says)
			}
		})
	}
}

func TestTable(t *testing.T) {
	r := result{
		rows: []row{
			{system: "A", fault: "x", times: 2, tally: tally{grants: 4, overlaps: 2, plain: counter{1, 3}}},
			{system: "B", fault: "y", times: 1, tally: tally{grants: 2, plain: counter{3, 4}, fenced: counter{3, 3}, tokens: true, refused: 1}},
			{system: "B", fault: "z", times: 1, tally: tally{grants: 1, plain: counter{1, 1}, fenced: counter{1, 1}, tokens: true}},
		},
		speeds: []speed{{
			system: "A", one: measurement{Cycles: 500, Took: time.Second, Median: 1500 * time.Microsecond, Values: 9, Ascending: 3},
			many: measurement{Cycles: 4000, Took: 2 * time.Second, Median: 2 * time.Millisecond},
		}},
	}
	text := strings.Join(strings.Fields(r.table()), " ")
	for _, want := range []string{
		"A x 2 4 2 2 of 3 no token -", "B y 1 2 0 1 of 4 0 of 3 1", "A 1.50 ms 2.00 ms 500 2000", "accepted 3 of 9 grants",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, r.table())
		}
	}
	const summary = "ok: A: 2 overlaps; B: 0 overlaps, 0 fenced updates lost, 1 stale writes refused; 1 speeds measured; 3.0 s"
	if got := r.summary(3 * time.Second); got != summary {
		t.Errorf("%q, want %q", got, summary)
	}
}
