//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
)

// W2: many clients, each with a lock of its own.
var throughputWork = &workload{key: "W2", quick: true, run: runThroughput}

// throughput has one measure for each number of clients.
var throughput = measures("W2 %d clients, own locks: acquire and release", "cycles/s")

// measures are made once for each number, so that figures of one number meet.
func measures(title, unit string) func(n int) *measure {
	made := map[int]*measure{}
	return func(n int) *measure {
		if made[n] == nil {
			made[n] = &measure{title: fmt.Sprintf(title, n), unit: unit, more: true}
		}
		return made[n]
	}
}

func runThroughput(ctx context.Context, r *rig, e extent, note noting) error {
	for i, n := range e.crowds {
		if err := r.clients(ctx, n, usualTTL); err != nil {
			return err
		}
		stop, err := r.profiled(ctx, i == len(e.crowds)-1, "w2")
		if err != nil {
			return err
		}
		c, err := r.cycle(ctx, e.window, order{Own: true})
		if err != nil {
			return err
		}
		if err := stop(); err != nil {
			return err
		}
		if err := enough(c.cycles); err != nil {
			return err
		}
		note(throughput(n), "", float64(c.cycles)/e.window.Seconds())
	}
	return nil
}

func enough(cycles int) error {
	if cycles == 0 {
		return errors.New("not one cycle was finished in the window")
	}
	return nil
}
