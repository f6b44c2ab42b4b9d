package quorumlock

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/snapshots"
)

// What is neither among the newest nor young goes; never the one that is known to be good, and nothing if that is not there.
func TestSurplus(t *testing.T) {
	now := time.UnixMilli(1_780_000_000_000)
	var all []snapshots.Named
	for i := range 10 { // "0" is the oldest, nine hours old
		all = append(all, snapshots.Named{
			Object: snapshots.Object{Name: fmt.Sprint(i), Modified: now.Add(time.Duration(i-9) * time.Hour)}, Name: snapshots.Name{Counter: int64(i)},
		})
	}
	for name, test := range map[string]struct {
		good    string
		keep    int
		keepFor time.Duration
		want    string
	}{
		"by count":                      {"9", 4, 0, "0 1 2 3 4 5"},
		"more than there are":           {"9", 11, 0, ""},
		"one":                           {"9", 1, 0, "0 1 2 3 4 5 6 7 8"},
		"by age":                        {"9", 1, 3 * time.Hour, "0 1 2 3 4 5 6"},
		"by both":                       {"9", 5, 2 * time.Hour, "0 1 2 3 4"},
		"all are young":                 {"9", 1, 24 * time.Hour, ""},
		"a newer one came meanwhile":    {"8", 1, 0, "0 1 2 3 4 5 6 7"},
		"the good one is the oldest":    {"0", 2, 0, "1 2 3 4 5 6 7"},
		"the good one is not there":     {"x", 1, 0, ""},
		"nothing is known to be good":   {"", 1, 0, ""},
		"young by the good one's clock": {"5", 1, time.Hour, "0 1 2 3 4"},
	} {
		got := surplus(all, test.good, test.keep, test.keepFor)
		if strings.Join(got, " ") != test.want || slices.Contains(got, test.good) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
