//go:build linux

package main

import "time"

// study is one question: how something grows with one size.
type study struct {
	name    string
	title   string
	on      string
	columns []string
	cases   func(s sizes) []setting
	run     func(b *bed, c setting, note noting) error
}

// setting is what one row has. Zero is none.
type setting struct {
	label     string
	voters    int
	instances int
	sessions  int
	holds     int
	waiters   int
	clients   int
	groups    int
	inMemory  bool
}

// noting takes the figure of one column.
type noting func(column string, value float64)

// studies in the order of the report.
var studies = []*study{stateStudy, votersStudy, instancesStudy, sessionsStudy, holdsStudy, waitersStudy, clientsStudy, groupsStudy}

func studyNames() (names []string) {
	for _, s := range studies {
		names = append(names, s.name)
	}
	return names
}

// sizes is how far each study goes.
type sizes struct {
	window    time.Duration // in which cycles are counted
	watch     time.Duration // for which an idle cluster is watched
	stateOf   []setting
	voters    []int
	instances []int
	sessions  []int
	holds     []int
	waiters   []int
	clients   []int
	groups    []int
}

var (
	fullSizes = sizes{
		window: 5 * time.Second, watch: 10 * time.Second,
		stateOf: []setting{
			{sessions: 10, holds: 1_000}, {sessions: 100, holds: 10_000}, {sessions: 1_000, holds: 100_000}, {sessions: 1_000, holds: 1_000_000},
			{sessions: 10_000}, {sessions: 100_000}, {sessions: 100_000, holds: 1_000_000}, {sessions: 100, holds: 1, waiters: 10_000},
		},
		voters: []int{1, 3, 5, 7}, instances: []int{3, 5, 10, 20, 50}, sessions: []int{10, 100, 1_000, 10_000, 100_000},
		holds: []int{1, 1_000, 100_000, 1_000_000}, waiters: []int{10, 100, 1_000, 10_000}, clients: []int{1, 16, 64, 256, 1_024, 4_096}, groups: []int{1, 2, 4},
	}
	quickSizes = sizes{
		window: 2 * time.Second, watch: 5 * time.Second,
		stateOf: []setting{{sessions: 10, holds: 1_000}, {sessions: 1_000, holds: 100_000}, {sessions: 10_000}, {sessions: 100, holds: 1, waiters: 10_000}},
		voters:  []int{1, 3, 5, 7}, instances: []int{3, 10}, sessions: []int{10, 1_000}, holds: []int{1, 10_000}, waiters: []int{10, 1_000},
		clients: []int{1, 64, 256}, groups: []int{1, 2},
	}
)
