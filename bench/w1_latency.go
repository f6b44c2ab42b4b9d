//go:build unix

package main

import "context"

// W1: one client takes and gives back one lock that nobody else wants.
var latencyWork = &workload{key: "W1", quick: true, run: runLatency}

var (
	latencyMedian = &measure{title: "W1 one client, one lock: acquire p50", unit: "ms", floor: true}
	latencyTail   = &measure{title: "W1 one client, one lock: acquire p99", unit: "ms"}
)

// runLatency has an embedded system's client once beside the leader and once elsewhere, whose requests take one step more. Clients of servers are elsewhere by nature.
func runLatency(ctx context.Context, r *rig, e extent, note noting) error {
	places := map[string]int{"": 0}
	if r.system.embedded {
		places = map[string]int{"leader": r.leads, "elsewhere": (r.leads + 1) % workers}
	}
	for at, worker := range places {
		if err := r.clientAt(ctx, worker); err != nil {
			return err
		}
		stop, err := r.profiled(ctx, at == "leader", "w1")
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
		note(latencyMedian, at, c.waits.quantile(50))
		note(latencyTail, at, c.waits.quantile(99))
	}
	return nil
}
