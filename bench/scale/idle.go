//go:build linux

package main

import (
	"fmt"
	"strconv"
)

// instancesStudy is what one more instance of a service costs the others. Each has a lock and does nothing.
var instancesStudy = &study{
	name: "instances", title: "instances of a service, of which three vote, two stand by, and all others are clients; each holds one lock and is idle",
	on:      "one process for each instance, directories on disk; processor time in percent of one core",
	columns: []string{"ready s", "all %", "leader %", "each other %", "MiB each", "cycles/s"},
	cases: func(s sizes) (list []setting) {
		for _, n := range s.instances {
			list = append(list, setting{label: strconv.Itoa(n), voters: 3, instances: n})
		}
		return list
	},
	run: runInstances,
}

func runInstances(b *bed, c setting, note noting) error {
	var procs []*process
	_, took, err := while(func() (err error) {
		procs, err = b.cluster(c)
		return err
	})
	if err != nil {
		return err
	}
	note("ready s", took.Seconds())
	if err := b.sessions(procs, c.instances); err != nil {
		return err
	}
	if err := b.hold(procs, c.instances); err != nil {
		return err
	}
	if err := b.idle(b.sizes.watch / 2); err != nil {
		return err
	}
	leader, err := b.leader(procs)
	if err != nil {
		return err
	}
	rest := others(procs, leader)
	uses, took, err := while(func() error { return b.idle(b.sizes.watch) }, []*process{leader}, rest)
	if err != nil {
		return err
	}
	note("leader %", percent(uses[0].cpu, took))
	note("each other %", percent(uses[1].cpu, took)/float64(len(rest)))
	note("all %", percent(uses[0].cpu+uses[1].cpu, took))
	all, err := used(procs...)
	if err != nil {
		return err
	}
	note("MiB each", float64(all.resident)/float64(len(procs))/(1<<20))
	if err := b.sessions(procs, 64); err != nil {
		return err
	}
	did, err := b.cycle(procs, 64, b.sizes.window)
	note("cycles/s", did.perSecond)
	return err
}

// sessionsStudy is what staying in touch costs.
var sessionsStudy = &study{
	name: "sessions", title: "sessions with a TTL of 10 s, each with one lock, which do nothing",
	on: "three members, one process each, directories on disk, and the sessions in two processes that are clients; processor time in percent of one core; bytes of heap " +
		"for each session with its lock",
	columns: []string{"opened/s", "members %", "leader %", "clients %", "entries/s", "leader KiB/s to disk", "B member", "B client", "goroutines each"},
	cases: func(s sizes) (list []setting) {
		for _, n := range s.sessions {
			list = append(list, setting{label: strconv.Itoa(n), voters: 3, instances: 3, sessions: n})
		}
		return list
	},
	run: runSessions,
}

func runSessions(b *bed, c setting, note noting) error {
	procs, callers, err := b.clusterWithCallers(c)
	if err != nil {
		return err
	}
	before, err := b.heaps(procs[0], callers[0])
	if err != nil {
		return err
	}
	_, took, err := while(func() error { return b.sessions(callers, c.sessions) })
	if err != nil {
		return err
	}
	note("opened/s", float64(c.sessions)/took.Seconds())
	if err := b.hold(callers, c.sessions); err != nil {
		return err
	}
	if err := b.idle(b.sizes.watch / 2); err != nil {
		return err
	}
	leader, err := b.leader(procs)
	if err != nil {
		return err
	}
	first, err := b.applied(leader)
	if err != nil {
		return err
	}
	uses, took, err := while(func() error { return b.idle(b.sizes.watch) }, procs, []*process{leader}, callers)
	if err != nil {
		return err
	}
	last, err := b.applied(leader)
	if err != nil {
		return err
	}
	note("members %", percent(uses[0].cpu, took))
	note("leader %", percent(uses[1].cpu, took))
	note("clients %", percent(uses[2].cpu, took))
	note("entries/s", float64(last-first)/took.Seconds())
	note("leader KiB/s to disk", float64(uses[1].written)/1024/took.Seconds())
	after, err := b.heaps(procs[0], callers[0])
	if err != nil {
		return err
	}
	note("B member", float64(int64(after[0].Heap)-int64(before[0].Heap))/float64(c.sessions))
	mine := float64(spread(c.sessions, 0, len(callers)))
	note("B client", float64(int64(after[1].Heap)-int64(before[1].Heap))/mine)
	note("goroutines each", float64(after[1].Goroutines-before[1].Goroutines)/mine)
	return b.stillHeld(procs[0], c.sessions)
}

// heaps collects garbage in each process.
func (b *bed) heaps(procs ...*process) ([]Memory, error) {
	memories := make([]Memory, len(procs))
	err := each(procs, func(i int, p *process) error { return b.ask(p, "Memory", None{}, &memories[i]) })
	return memories, err
}

// stillHeld fails if a session was lost: what was measured would be of fewer.
func (b *bed) stillHeld(p *process, holds int) error {
	var n int
	if err := b.ask(p, "Held", None{}, &n); err != nil {
		return err
	}
	if n != holds {
		return fmt.Errorf("%d of %d locks are held at the end", n, holds)
	}
	return nil
}
