//go:build unix

package main

import (
	"context"
	"fmt"
)

// The physical limits, of workers that belong to no system.
var (
	floorRig      = &system{key: "floor", name: "floor"}
	floorWho      = who{system: "limit of the machine"}
	floorMeasures = map[string]*measure{
		floorDisk:       {title: "floor: append of 4 KiB and fdatasync, p50", unit: "ms"},
		floorLoopback:   {title: "floor: loopback round trip, p50", unit: "ms"},
		floorReplicated: {title: "floor: replicated to a majority of three, fsynced, p50", unit: "ms"},
	}
	floorTail = &measure{title: "floor: replicated to a majority of three, fsynced, p99", unit: "ms"}
)

// runFloors measures them from the first worker; the other two follow.
func runFloors(ctx context.Context, r *rig, e extent, note noting) error {
	for _, kind := range []string{floorDisk, floorLoopback, floorReplicated} {
		followed, err := r.followers(ctx, kind == floorReplicated)
		if err != nil {
			return err
		}
		a, err := r.procs[0].ask(ctx, order{Verb: verbFloor, Name: kind, File: r.dir + "/" + kind, Peers: followed, For: floorTime(e.window)})
		if err != nil {
			return err
		}
		waits := newHistogram()
		if err := waits.merge(a.Waits); err != nil {
			return err
		}
		if err := enough(a.Cycles); err != nil {
			return err
		}
		note(floorMeasures[kind], "", waits.quantile(50))
		if kind == floorReplicated {
			note(floorTail, "", waits.quantile(99))
		}
	}
	return nil
}

func (r *rig) followers(ctx context.Context, keep bool) (addrs []string, err error) {
	for i, p := range r.procs[1:] {
		o := order{Verb: verbFollow}
		if keep {
			o.File = fmt.Sprint(r.dir, "/follower-", i)
		}
		a, err := p.ask(ctx, o)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, a.Addr)
	}
	return addrs, nil
}
