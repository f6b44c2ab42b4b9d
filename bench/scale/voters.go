//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// mostVoters is what Config.Voters accepts; beyond it only the bare group is measured.
const mostVoters = 5

// votersStudy is what a copy costs.
var votersStudy = &study{
	name: "voters", title: "voters: what each further copy costs. Config.Voters is 1, 3 or 5; of 7 there is only the bare group",
	on: "one process for each member, directories on disk, and the clients in a process that is a client. Bare: raft with the same store and no quorumlock, all members in one process over loopback, " +
		"entries of 100 bytes; idle is what it takes of one core then, all members together",
	columns: []string{"1 client: p50 ms", "p99 ms", "64 clients: cycles/s", "p50 ms at 64", "us leader", "us members", "bare: p50 ms", "bare: p99 ms", "bare: 64 callers, entries/s", "bare: idle %"},
	cases: func(s sizes) (list []setting) {
		for _, n := range s.voters {
			list = append(list, setting{label: strconv.Itoa(n), voters: n, instances: n})
		}
		return list
	},
	run: runVoters,
}

func runVoters(b *bed, c setting, note noting) error {
	if err := b.bare(c, note); err != nil {
		return err
	}
	if c.voters > mostVoters {
		return nil
	}
	procs, err := b.cluster(c)
	if err != nil {
		return err
	}
	callers, err := b.callers(procs, 1)
	if err != nil {
		return err
	}
	if err := b.sessions(callers, 64); err != nil {
		return err
	}
	one, err := b.cycle(callers, 1, b.sizes.window)
	if err != nil {
		return err
	}
	note("1 client: p50 ms", milliseconds(one.median))
	note("p99 ms", milliseconds(one.p99))
	leader, err := b.leader(procs)
	if err != nil {
		return err
	}
	var many cycled
	uses, took, err := while(func() (err error) {
		many, err = b.cycle(callers, 64, b.sizes.window)
		return err
	}, []*process{leader}, procs)
	if err != nil {
		return err
	}
	note("64 clients: cycles/s", many.perSecond)
	note("p50 ms at 64", milliseconds(many.median))
	cycles := many.perSecond * took.Seconds()
	note("us leader", uses[0].cpu.Seconds()*1e6/cycles)
	note("us members", uses[1].cpu.Seconds()*1e6/cycles)
	return nil
}

// bare measures a raft group by itself, in a process of its own.
func (b *bed) bare(c setting, note noting) error {
	p, err := b.start(nil)
	if err != nil {
		return err
	}
	var r Applied
	err = b.ask(p, "Raft", Group{Voters: c.voters, Dir: b.dir, For: b.sizes.window, Watch: b.sizes.watch}, &r)
	if err != nil {
		return err
	}
	note("bare: p50 ms", milliseconds(r.Median))
	note("bare: p99 ms", milliseconds(r.P99))
	note("bare: 64 callers, entries/s", r.PerSecond)
	note("bare: idle %", percent(r.Idle, b.sizes.watch))
	b.dismiss(p)
	return nil
}

// Group is a raft group in one process.
type Group struct {
	Voters int
	Dir    string
	For    time.Duration
	Watch  time.Duration // for which it is idle afterwards
}

// Applied is how fast entries are applied, by one caller and by 64, and the processor time of doing nothing.
type Applied struct {
	Median, P99 time.Duration
	PerSecond   float64
	Idle        time.Duration
}

// Raft runs a bare group.
func (w *Worker) Raft(g Group, a *Applied) error {
	group, err := newBareGroup(g)
	if err != nil {
		return fmt.Errorf("bare group: %w", err)
	}
	defer group.close()
	if a.Median, a.P99, _, err = group.apply(1, g.For); err != nil {
		return err
	}
	if _, _, a.PerSecond, err = group.apply(64, g.For); err != nil {
		return err
	}
	before, err := usageOf(os.Getpid())
	if err != nil {
		return err
	}
	time.Sleep(g.Watch)
	after, err := usageOf(os.Getpid())
	a.Idle = after.minus(before).cpu
	return err
}
