package simulation_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/simulation"
	"github.com/quorumlock/quorumlock/internal/simulation/history"
)

// What is run:
//
//	go test -v ./internal/simulation                           the share of every change
//	go test -v ./internal/simulation -timeout 0 -args -hours N -seed S    a soak of N virtual hours, from seed S on
//	go test -v ./internal/simulation -args -seed S -tries 50   one schedule again and again, since goroutines run in another order each time
//	go test -v ./internal/simulation -run Replay -args -replay S          one schedule in exactly one order
var (
	hours       = flag.Float64("hours", 0, "virtual hours to run")
	seed        = flag.Uint64("seed", 0, "the first seed; without -hours the only one")
	tries       = flag.Int("tries", 1, "how often to run each seed")
	length      = flag.Duration("length", 0, "length of one schedule in fake time")
	deployments = flag.Int("deployments", 0, "schedules of TestMembership")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800) // a third less time for a few hundred MB
	}
	goleak.VerifyTestMain(m)
}

// share is how many schedules of which length are run.
func share() (schedules int, each time.Duration) {
	schedules, each = 240, 5*time.Minute
	if testing.Short() || raceEnabled {
		schedules, each = 24, time.Minute
	}
	if *length > 0 {
		each = *length
	}
	switch {
	case *hours > 0:
		schedules = max(1, int(*hours*float64(time.Hour)/float64(each)))
	case *seed > 0:
		schedules = 1
	}
	return schedules, each
}

// TestSchedules plays random faults against clusters under random traffic, and sets what the API said against what the log granted.
func TestSchedules(t *testing.T) {
	schedules, each := share()
	first := max(1, *seed)
	total := newTotal(first)
	t.Run("seed", func(t *testing.T) {
		for k := range uint64(schedules) {
			for range *tries {
				t.Run(fmt.Sprint(first+k), func(t *testing.T) {
					t.Parallel()
					o := simulation.Outcome{Seed: first + k}
					defer func() { total.add(&o, t.Failed()) }()
					simulation.Run(t, &o, each)
				})
			}
		}
	})
	fmt.Print(total)
	total.hasBitten(t)
}

// total sums up outcomes.
type total struct {
	began time.Time
	first uint64

	mu        sync.Mutex
	schedules int
	virtual   time.Duration
	calls     int
	grants    int
	bites     simulation.Bites
	tally     history.Tally
	acts      map[string]int
	gaps      map[history.Ending]gap
	bad       []uint64
}

type gap struct {
	size time.Duration
	seed uint64
}

func newTotal(first uint64) *total {
	return &total{began: time.Now(), first: first, acts: make(map[string]int), gaps: make(map[history.Ending]gap)}
}

func (s *total) add(o *simulation.Outcome, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedules++
	if failed {
		s.bad = append(s.bad, o.Seed)
	}
	if o.Report == nil { // it did not get so far
		return
	}
	s.virtual += o.Virtual
	s.calls += o.Report.Calls
	s.grants += o.Report.Grants
	s.bites.Crashes += o.Bites.Crashes
	s.bites.Elections += o.Bites.Elections
	s.bites.Lost += o.Bites.Lost
	s.bites.Forced += o.Bites.Forced
	s.bites.Refused += o.Bites.Refused
	s.bites.Overlaps += o.Bites.Overlaps
	s.bites.LostUpdates += o.Bites.LostUpdates
	s.bites.Capped += o.Bites.Capped
	s.tally.Add(o.Report.Tally)
	for name, count := range o.Acts {
		s.acts[name] += count
	}
	if o.Kind.Wild {
		return
	}
	for ending, size := range o.Report.SmallestGap {
		if least, seen := s.gaps[ending]; !seen || size < least.size {
			s.gaps[ending] = gap{size, o.Seed}
		}
	}
}

// hasBitten fails the test if a fault had no effect at all in as many schedules as it should take for one.
func (s *total) hasBitten(t *testing.T) {
	b := s.bites
	for _, bite := range []struct {
		what   string
		count  int
		within int // schedules of a minute and more
	}{
		{"crashes", b.Crashes, 10}, {"elections", b.Elections, 10}, {"lost holds", b.Lost, 20}, {"forced releases", b.Forced, 20},
		{"holds that ended by their cap", b.Capped, 20}, {"refused writes", b.Refused, 20}, {"lost updates without a fence", b.LostUpdates, 20}, {"overlaps beyond A3", b.Overlaps, 100},
	} {
		if bite.count == 0 && s.schedules >= bite.within {
			t.Errorf("no %s in %d schedules: the faults did not bite", bite.what, s.schedules)
		}
	}
	for what, count := range s.tally.Counts() {
		if count == 0 && s.schedules >= 20 {
			t.Errorf("no %s in %d schedules", what, s.schedules)
		}
	}
}

func (s *total) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d schedules from seed %d on, %.1f virtual hours in %v: %d calls, %d grants\n",
		s.schedules, s.first, s.virtual.Hours(), time.Since(s.began).Round(time.Second), s.calls, s.grants)
	for _, g := range s.sortedGaps() {
		fmt.Fprintf(&b, "smallest gap between two holds, the former %v: %v (seed %d)\n", g.ending, g.size, g.seed)
	}
	fmt.Fprintf(&b, "grants and more: %+v\n", s.tally)
	fmt.Fprintf(&b, "faults: %s\n", s.injected())
	fmt.Fprintf(&b, "they bit: %+v\n", s.bites)
	if len(s.bad) == 0 {
		b.WriteString("violations: 0\n")
		return b.String()
	}
	slices.Sort(s.bad)
	fmt.Fprintf(&b, "violations in %d of %d schedules, seeds %v\n", len(s.bad), s.schedules, s.bad)
	return b.String()
}

func (s *total) injected() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.acts)) {
		list = append(list, fmt.Sprintf("%s %d", name, s.acts[name]))
	}
	return strings.Join(list, ", ")
}

type endedGap struct {
	ending history.Ending
	gap
}

func (s *total) sortedGaps() []endedGap {
	var list []endedGap
	for ending, g := range s.gaps {
		list = append(list, endedGap{ending, g})
	}
	slices.SortFunc(list, func(a, b endedGap) int { return cmp.Compare(a.ending, b.ending) })
	return list
}
