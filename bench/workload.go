//go:build unix

package main

import (
	"context"
	"time"
)

const usualTTL = 10 * time.Second

// measure is one thing that is measured: a block of the table, and a panel of the plot.
type measure struct {
	title string
	unit  string
	more  bool // more is better
	floor bool // it can be told as a multiple of the replicated floor
}

// workload is one of W1 to W7.
type workload struct {
	key    string
	quick  bool
	breaks bool // it leaves the system damaged, and has one to itself
	// fits tells whether a system can do it; nil is any.
	fits func(s *system, e extent) bool
	run  func(ctx context.Context, r *rig, e extent, note noting) error
}

// noting takes one figure. at tells one place of a system from another where that matters; "" is all of it.
type noting func(m *measure, at string, figure float64)

var workloads = []*workload{latencyWork, throughputWork, contendedWork, drainWork, sessionsWork, holderWork, leaderWork}

// extent is how much is done.
type extent struct {
	reps     int
	window   time.Duration // of each measurement that counts cycles
	crowds   []int         // W2: clients
	waiters  []int         // W3
	handOffs int           // W3: single ones
	queue    int           // W7
	queued   time.Duration // W7: for all of them to have come
	sessions int           // W6
	watch    time.Duration // W6: how long the processor is watched
	ttl      time.Duration // W5
	after    time.Duration // W4: how long clients go on after the kill
}

var (
	fullExtent = extent{reps: 3, window: 3 * time.Second, crowds: []int{64, 256}, waiters: []int{2, 16, 256}, handOffs: 40,
		queue: 2000, queued: 3 * time.Second, sessions: 5000, watch: 10 * time.Second, ttl: 5 * time.Second,
		after: 12 * time.Second}
	quickExtent = extent{reps: 1, window: 2 * time.Second, crowds: []int{64, 256}, waiters: []int{2, 16, 256}, handOffs: 20}
)
