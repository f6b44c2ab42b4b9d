package simulation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/simulation/history"
)

// Outcome is what a schedule came to. Whoever runs it sets the Seed.
type Outcome struct {
	Seed    uint64
	Kind    Kind
	Virtual time.Duration // fake time it took
	Acts    map[string]int
	trail   []string // the last acts, for people
	length  time.Duration
	Bites   Bites
	Report  *history.Report
	Events  string // hash over all that was seen, in order
}

// Bites are the traces of faults that had an effect. A schedule without any has tested nothing.
type Bites struct {
	Crashes     int
	Elections   int
	Lost        int // holds that were lost
	Forced      int
	Refused     int // writes that the fence refused
	Overlaps    int // holds that overlapped with the next, where that is allowed
	LostUpdates int // of the copies without a fence
	Capped      int // holds that ended by their MaxHold
}

// trailLength is how many acts are shown with a failure; what was done longer ago has been taken back.
const trailLength = 40

func (o *Outcome) act(name string, at time.Duration) {
	if o.Acts == nil {
		o.Acts = make(map[string]int)
	}
	o.Acts[name]++
	if len(o.trail) == trailLength {
		o.trail = o.trail[1:]
	}
	o.trail = append(o.trail, fmt.Sprintf("%v %s", at.Round(time.Millisecond), name))
}

// byClocks are the checks of what rests on A3.
var byClocks = map[string]bool{history.HoldInterval: true, history.MaxHoldRule: true, history.DelayRule: true}

// judge runs the checkers.
func (o *Outcome) judge(t *testing.T, h *history.History) {
	t.Helper()
	o.Events = h.Sum()
	o.Report = h.Check(decideBound)
	o.Bites.Lost, o.Bites.Forced = o.Report.Lost, o.Report.Forced
	for _, v := range o.Report.Violations {
		if o.Kind.Wild && byClocks[v.Check] {
			o.Bites.Overlaps++
			continue
		}
		t.Errorf("%s: %s", v.Check, v.Text)
	}
	if t.Failed() {
		t.Logf("seed %d: %v; the last acts: %s", o.Seed, o.Kind, strings.Join(o.trail, ", "))
		t.Logf("again: -run Schedules -args -seed %[1]d -length %[2]v -tries 20; in one order exactly: -run Replay -args -replay %[1]d -length %[2]v -orders 20", o.Seed, o.length)
	}
}
