//go:build unix

package main

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// W5: a holder is killed while another client waits, in another worker.
var holderWork = &workload{key: "W5", breaks: true, run: runHolder}

var holderLost = &measure{title: "W5 kill -9 of the holder until the next grant", unit: "of the TTL"}

// runHolder kills a worker that does not lead, where workers are servers too.
func runHolder(ctx context.Context, r *rig, e extent, note noting) error {
	holder, waiter := r.procs[(r.leads+1)%workers], r.procs[(r.leads+2)%workers]
	if err := r.clients(ctx, workers, e.ttl); err != nil {
		return err
	}
	ctx, cancel := demokit.Within(ctx, 4*e.ttl+startBound, "the lock was not granted again")
	defer cancel()
	name := r.lockName()
	if _, err := holder.ask(ctx, order{Verb: verbLock, Name: name}); err != nil {
		return err
	}
	granted := r.begin(ctx, waiter, order{Verb: verbLock, Name: name})
	// Past the first renewal, at a moment that is as good as any.
	if err := demokit.Sleep(ctx, e.ttl*4/5); err != nil {
		return err
	}
	killed := now()
	holder.kill()
	w := <-granted
	if w.err != nil {
		return w.err
	}
	if w.At < killed {
		return errOverlap
	}
	note(holderLost, "", float64(w.At.sub(killed))/float64(e.ttl))
	return nil
}
