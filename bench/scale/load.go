//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

func errShort(have, want int) error { return fmt.Errorf("%d of %d", have, want) }

// clientsStudy finds where one group saturates, and by what.
var clientsStudy = &study{
	name: "clients", title: "clients that lock and unlock a lock of their own without pause",
	on: "three members, one process each, with directories on disk or in memory, and the clients in two processes that are clients; percent of one core; us is processor time for each cycle of two " +
		"commands; KiB is what the leader's process has written to its disk",
	columns: []string{"cycles/s", "p50 ms", "p99 ms", "leader %", "followers %", "clients %", "us leader", "us members", "us clients", "entries/s", "commands/entry", "KiB leader"},
	cases: func(s sizes) (list []setting) {
		for _, inMemory := range []bool{false, true} {
			for _, n := range s.clients {
				label := strconv.Itoa(n)
				if inMemory {
					label += ", memory"
				}
				list = append(list, setting{label: label, voters: 3, instances: 3, clients: n, inMemory: inMemory})
			}
		}
		return list
	},
	run: runLoad,
}

// groupsStudy splits the same load over several groups of the same processes.
var groupsStudy = &study{
	name: "groups", title: "the same clients on locks that are split by name over several groups of the same processes",
	on:      "three members, one process each with a node of each group, and 256 clients in two processes that are clients of all groups",
	columns: clientsStudy.columns,
	cases: func(s sizes) (list []setting) {
		for _, inMemory := range []bool{false, true} {
			for _, n := range s.groups {
				label := strconv.Itoa(n)
				if inMemory {
					label += ", memory"
				}
				list = append(list, setting{label: label, voters: 3, instances: 3, clients: 256, groups: n, inMemory: inMemory})
			}
		}
		return list
	},
	run: runLoad,
}

func runLoad(b *bed, c setting, note noting) error {
	procs, callers, err := b.clusterWithCallers(c)
	if err != nil {
		return err
	}
	return b.load(c, procs, callers, note)
}

// load runs once before it is measured: leaders of several groups settle, and pools fill.
func (b *bed) load(c setting, procs, callers []*process, note noting) error {
	if err := b.sessions(callers, max(c.clients, len(callers)*max(c.groups, 1))); err != nil {
		return err
	}
	if _, err := b.cycle(callers, c.clients, b.sizes.window/2); err != nil {
		return err
	}
	leader, err := b.leader(procs)
	if err != nil {
		return err
	}
	where := "disk"
	if c.inMemory {
		where = "memory"
	}
	stop, err := b.profiled(leader, fmt.Sprintf("%d-clients-%d-groups-%s", c.clients, max(c.groups, 1), where))
	if err != nil {
		return err
	}
	first, err := b.applied(leader)
	if err != nil {
		return err
	}
	var did cycled
	uses, took, err := while(func() (err error) {
		did, err = b.cycle(callers, c.clients, b.sizes.window)
		return err
	}, []*process{leader}, others(procs, leader), callers)
	if err != nil {
		return err
	}
	last, err := b.applied(leader)
	if err != nil {
		return err
	}
	note("cycles/s", did.perSecond)
	note("p50 ms", milliseconds(did.median))
	note("p99 ms", milliseconds(did.p99))
	note("leader %", percent(uses[0].cpu, took))
	note("followers %", percent(uses[1].cpu, took))
	note("clients %", percent(uses[2].cpu, took))
	cycles := did.perSecond * took.Seconds() // those of the warming up, too, at about the same speed
	perCycle := func(cpu time.Duration) float64 { return cpu.Seconds() * 1e6 / cycles }
	note("us leader", perCycle(uses[0].cpu))
	note("us members", perCycle(uses[0].cpu+uses[1].cpu))
	note("us clients", perCycle(uses[2].cpu))
	note("KiB leader", float64(uses[0].written)/1024/cycles)
	if c.groups <= 1 { // an index is of one group
		note("entries/s", float64(last-first)/took.Seconds())
		note("commands/entry", 2*cycles/float64(last-first))
	}
	return stop()
}

// profiled takes a profile of a process until stop is called, if profiles are wanted.
func (b *bed) profiled(p *process, name string) (stop func() error, err error) {
	if b.profile == "" {
		return func() error { return nil }, nil
	}
	dir, err := filepath.Abs(b.profile)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	err = b.ask(p, "Profile", filepath.Join(dir, name), &None{})
	return func() error { return b.ask(p, "Profile", "", &None{}) }, err
}
