//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// holdsStudy is what held locks cost: memory, snapshots, restarts.
var holdsStudy = &study{
	name: "holds", title: "locks held by 30 sessions; then 16 clients lock and unlock others beside them, at first without and then with snapshots; then a follower is killed and started again",
	on: "three members, one process each, directories on disk, and the holders in two processes that are clients; B is heap for each hold; beside: all three members take snapshots with a second between " +
		"them; directory is the leader's at the end; restart is from the start of a follower's process until it is ready, with its snapshot read and its log replayed",
	columns: []string{"taken/s", "idle %", "B member", "B client", "cycles/s", "p99 ms", "longest ms", "beside: cycles/s", "p99 ms beside", "longest ms beside", "snapshot s", "snapshot MiB", "directory MiB",
		"restart s"},
	cases: func(s sizes) (list []setting) {
		for _, n := range s.holds {
			list = append(list, setting{label: strconv.Itoa(n), voters: 3, instances: 3, sessions: 30, holds: n})
		}
		return list
	},
	run: runHolds,
}

// loaded is how many windows the load lasts, each of the two times.
const loaded = 3

func runHolds(b *bed, c setting, note noting) error {
	procs, callers, err := b.clusterWithCallers(c)
	if err != nil {
		return err
	}
	if err := b.sessions(callers, c.sessions); err != nil {
		return err
	}
	before, err := b.heaps(procs[0], callers[0])
	if err != nil {
		return err
	}
	took, err := b.fill(c, procs, callers)
	if err != nil {
		return err
	}
	note("taken/s", float64(c.holds)/took.Seconds())
	if err := b.idle(b.sizes.watch / 2); err != nil {
		return err
	}
	uses, took, err := while(func() error { return b.idle(b.sizes.watch) }, procs)
	if err != nil {
		return err
	}
	note("idle %", percent(uses[0].cpu, took))
	after, err := b.heaps(procs[0], callers[0])
	if err != nil {
		return err
	}
	note("B member", float64(int64(after[0].Heap)-int64(before[0].Heap))/float64(c.holds))
	note("B client", float64(int64(after[1].Heap)-int64(before[1].Heap))/float64(spread(c.holds, 0, len(callers))))
	leader, err := b.leader(procs)
	if err != nil {
		return err
	}
	if err := b.underLoad(leader, procs, callers, note); err != nil {
		return err
	}
	took, err = b.restart(others(procs, leader)[0])
	note("restart s", took.Seconds())
	if err != nil {
		return err
	}
	return b.stillHeld(leader, c.holds)
}

// fill takes the locks.
func (b *bed) fill(c setting, procs, callers []*process) (time.Duration, error) {
	leader, err := b.leader(procs)
	if err != nil {
		return 0, err
	}
	endLeader, err := b.profiled(leader, fmt.Sprintf("%d-holds-leader", c.holds))
	if err != nil {
		return 0, err
	}
	endClient, err := b.profiled(callers[0], fmt.Sprintf("%d-holds-client", c.holds))
	if err != nil {
		return 0, err
	}
	_, took, err := while(func() error { return b.hold(callers, c.holds) })
	return took, errors.Join(err, endLeader(), endClient())
}

func (b *bed) underLoad(leader *process, members, callers []*process, note noting) error {
	window := loaded * b.sizes.window
	alone, err := b.cycle(callers, 16, window)
	if err != nil {
		return err
	}
	note("cycles/s", alone.perSecond)
	note("p99 ms", milliseconds(alone.p99))
	note("longest ms", milliseconds(alone.most))
	took := make([]Taken, len(members))
	taken := make(chan error, 1)
	go func() {
		taken <- each(members, func(i int, p *process) error { return b.ask(p, "Snapshots", window, &took[i]) })
	}()
	beside, err := b.cycle(callers, 16, window)
	if err := errors.Join(err, <-taken); err != nil {
		return err
	}
	note("beside: cycles/s", beside.perSecond)
	note("p99 ms beside", milliseconds(beside.p99))
	note("longest ms beside", milliseconds(beside.most))
	longest := slices.MaxFunc(took, func(a, b Taken) int { return cmp.Compare(a.Longest, b.Longest) })
	note("snapshot s", longest.Longest.Seconds())
	dir := leader.places[0].Dir
	snapshot, err := newestSnapshot(filepath.Join(dir, "snapshots"))
	if err != nil {
		return err
	}
	note("snapshot MiB", snapshot/(1<<20))
	size, err := sizeOf(dir)
	note("directory MiB", size/(1<<20))
	return err
}

// newestSnapshot is the size of the last one that was finished. Their names order them.
func newestSnapshot(dir string) (float64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() || strings.HasSuffix(e.Name(), ".tmp") })
	if len(entries) == 0 {
		return 0, errors.New("no snapshot was taken")
	}
	return sizeOf(filepath.Join(dir, entries[len(entries)-1].Name()))
}

// sizeOf is of all files below a directory; what goes away meanwhile does not count.
func sizeOf(dir string) (sum float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		var stat fs.FileInfo
		if err == nil {
			stat, err = e.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && stat.Mode().IsRegular() {
			sum += float64(stat.Size())
		}
		return err
	})
	return sum, err
}

// restart kills a process and starts its nodes again, under the same names and in the same directories.
func (b *bed) restart(p *process) (time.Duration, error) {
	b.dismiss(p)
	began := time.Now()
	again, err := b.start(p.places)
	if err != nil {
		return 0, err
	}
	err = b.ask(again, "Open", again.places, new(time.Duration))
	return time.Since(began), err
}

// waitersStudy is a crowd at one lock.
var waitersStudy = &study{
	name: "waiters", title: "waiters on one lock, from up to 1,000 sessions; then each has it once",
	on:      "three members, one process each, directories on disk, and the waiters in two processes that are clients; B is heap for each waiter",
	columns: []string{"queued/s", "B member", "B client", "drain s", "hand-offs/s", "us members/hand-off"},
	cases: func(s sizes) (list []setting) {
		for _, n := range s.waiters {
			list = append(list, setting{label: strconv.Itoa(n), voters: 3, instances: 3, sessions: min(n, 1_000), waiters: n})
		}
		return list
	},
	run: runWaiters,
}

func runWaiters(b *bed, c setting, note noting) error {
	procs, callers, err := b.clusterWithCallers(c)
	if err != nil {
		return err
	}
	if err := b.sessions(callers, c.sessions); err != nil {
		return err
	}
	if err := b.sessions(procs[:1], 1); err != nil {
		return err
	}
	const name = "contended"
	if err := b.ask(procs[0], "Block", name, &None{}); err != nil {
		return err
	}
	before, err := b.heaps(procs[0], callers[0])
	if err != nil {
		return err
	}
	began := time.Now()
	had := make([]int, len(callers))
	drained := make(chan error, 1)
	go func() {
		drained <- each(callers, func(i int, p *process) error {
			return b.ask(p, "Queue", Want{N: spread(c.waiters, i, len(callers)), Name: name}, &had[i])
		})
	}()
	if err := b.allWait(procs[0], name, c.waiters); err != nil {
		return err
	}
	note("queued/s", float64(c.waiters)/time.Since(began).Seconds())
	after, err := b.heaps(procs[0], callers[0])
	if err != nil {
		return err
	}
	note("B member", float64(int64(after[0].Heap)-int64(before[0].Heap))/float64(c.waiters))
	note("B client", float64(int64(after[1].Heap)-int64(before[1].Heap))/float64(spread(c.waiters, 0, len(callers))))
	uses, took, err := while(func() error {
		if err := b.ask(procs[0], "Unblock", name, &None{}); err != nil {
			return err
		}
		return <-drained
	}, procs)
	if err != nil {
		return err
	}
	if sum := had[0] + had[1]; sum != c.waiters {
		return errShort(sum, c.waiters)
	}
	note("drain s", took.Seconds())
	note("hand-offs/s", float64(c.waiters)/took.Seconds())
	note("us members/hand-off", uses[0].cpu.Seconds()*1e6/float64(c.waiters))
	return nil
}

func (b *bed) allWait(p *process, name string, want int) error {
	return demokit.Poll(b.ctx, func() error {
		var n int
		if err := b.ask(p, "Waiting", name, &n); err != nil {
			return err
		}
		if n != want {
			return errShort(n, want)
		}
		return nil
	})
}
