//go:build unix

package main

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// W6: many sessions, each with a lock of its own, that do nothing but live.
var sessionsWork = &workload{key: "W6", breaks: true, run: runSessions,
	fits: func(s *system, e extent) bool { return e.sessions > 0 && (s.most == 0 || s.most >= e.sessions) }}

var (
	emptyCPU      = &measure{title: "W6 no sessions yet: processor time of all servers", unit: "% of a core"}
	sessionsCPU   = &measure{title: "W6 many idle sessions: processor time of all servers", unit: "% of a core"}
	sessionsBytes = &measure{title: "W6 many idle sessions: memory for each lock, on each server", unit: "bytes"}
)

// runSessions compares the servers before and after. What is measured of an embedded system holds its clients too.
func runSessions(ctx context.Context, r *rig, e extent, note noting) error {
	empty, err := r.usage(ctx, e.watch)
	if err != nil {
		return err
	}
	note(emptyCPU, "", empty)
	before, err := resident(r.service.pids)
	if err != nil {
		return err
	}
	if err := r.clients(ctx, e.sessions, usualTTL); err != nil {
		return err
	}
	name := r.lockName()
	if _, err := r.all(ctx, func(i int) order {
		return order{Verb: verbLock, Own: true, Name: name + "-" + string(rune('a'+i)) + "-"}
	}); err != nil {
		return err
	}
	if err := demokit.Sleep(ctx, e.watch/2); err != nil {
		return err
	}
	busy, err := r.usage(ctx, e.watch)
	if err != nil {
		return err
	}
	note(sessionsCPU, "", busy)
	after, err := resident(r.service.pids)
	if err != nil {
		return err
	}
	note(sessionsBytes, "", float64(after-before)/float64(e.sessions*len(r.service.pids)))
	return r.profileIdle(ctx, e.watch)
}

// usage is what the servers use of a core while nobody asks them for anything, in percent.
func (r *rig) usage(ctx context.Context, watch time.Duration) (float64, error) {
	began, err := processorTime(r.service.pids)
	if err != nil {
		return 0, err
	}
	from := now()
	if err := demokit.Sleep(ctx, watch); err != nil {
		return 0, err
	}
	ended, err := processorTime(r.service.pids)
	return 100 * float64(ended-began) / float64(now().sub(from)), err
}

// profileIdle takes its profiles after the measurement: beside so little work they would count.
func (r *rig) profileIdle(ctx context.Context, watch time.Duration) error {
	if r.profile == "" {
		return nil
	}
	stop, err := r.profiled(ctx, true, "w6")
	if err != nil {
		return err
	}
	if err := demokit.Sleep(ctx, watch); err != nil {
		return err
	}
	return stop()
}
