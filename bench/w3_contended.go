//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// W3: one lock, and waiters who want it again as soon as they have given it back.
var contendedWork = &workload{key: "W3", quick: true, run: runContended}

var (
	contended  = measures("W3 one lock, %d waiters without pause", "cycles/s")
	sameAgain  = &measure{title: "W3 given to the same client again, most waiters", unit: "%"}
	overtaken  = &measure{title: "W3 given to one who came 50 ms after another waiter, most waiters", unit: "%"}
	handOff    = &measure{title: "W3 hand-off to a parked waiter: p50", unit: "ms", floor: true}
	muchLater  = 50 * time.Millisecond
	parkedTime = 100 * time.Millisecond
)

func runContended(ctx context.Context, r *rig, e extent, note noting) error {
	for i, n := range e.waiters {
		if err := r.clients(ctx, n, usualTTL); err != nil {
			return err
		}
		last := i == len(e.waiters)-1
		stop, err := r.profiled(ctx, last, "w3")
		if err != nil {
			return err
		}
		c, err := r.cycle(ctx, e.window, order{Log: true})
		if err != nil {
			return err
		}
		if err := stop(); err != nil {
			return err
		}
		if err := enough(c.cycles); err != nil {
			return err
		}
		order, err := inTurn(c.grants)
		if err != nil {
			return err
		}
		note(contended(n), "", float64(c.cycles)/e.window.Seconds())
		if last && len(order) > 1 {
			again, late := turns(order)
			note(sameAgain, "", again)
			note(overtaken, "", late)
		}
	}
	p50, err := handOffs(ctx, r, e.handOffs)
	if err != nil {
		return err
	}
	note(handOff, "", p50)
	return nil
}

// errOverlap is a lock that two had at once: whoever grants so fast that this happens is not fast.
var errOverlap = errors.New("two clients held one lock at once")

// inTurn sorts the grants of one lock by time.
func inTurn(grants []grant) ([]grant, error) {
	slices.SortFunc(grants, func(a, b grant) int { return int(a.Granted - b.Granted) })
	for i := 1; i < len(grants); i++ {
		if grants[i].Granted < grants[i-1].Released {
			return nil, fmt.Errorf("%w: clients %d and %d", errOverlap, grants[i-1].Client, grants[i].Client)
		}
	}
	return grants, nil
}

// turns are two shares in percent: of grants to the client that had the lock before, and of those to one who had begun to wait much later than another who still waited.
func turns(grants []grant) (again, late float64) {
	first := instant(math.MaxInt64) // when those who were granted later began
	for i, g := range slices.Backward(grants) {
		if g.Asked.sub(first) > muchLater {
			late++
		}
		first = min(first, g.Asked)
		if i > 0 && grants[i-1].Client == g.Client {
			again++
		}
	}
	n := float64(len(grants))
	return 100 * again / (n - 1), 100 * late / n
}

// handOffs is the median, in milliseconds, of the time from the beginning of a release to the return of another client's Lock, which has waited for a while, in another worker.
func handOffs(ctx context.Context, r *rig, n int) (float64, error) {
	if err := r.clients(ctx, workers, usualTTL); err != nil {
		return 0, err
	}
	ctx, cancel := demokit.Within(ctx, orderBound, "no hand-off")
	defer cancel()
	name := r.lockName()
	if _, err := r.procs[0].ask(ctx, order{Verb: verbLock, Name: name}); err != nil {
		return 0, err
	}
	waits := newHistogram()
	for i := range n {
		d, err := r.handOff(ctx, name, r.procs[i%workers], r.procs[(i+1)%workers])
		if err != nil {
			return 0, err
		}
		waits.record(d)
	}
	_, err := r.procs[n%workers].ask(ctx, order{Verb: verbUnlock})
	return waits.quantile(50), err
}

func (r *rig) handOff(ctx context.Context, name string, from, to *process) (time.Duration, error) {
	granted := r.begin(ctx, to, order{Verb: verbLock, Name: name})
	if err := demokit.Sleep(ctx, parkedTime); err != nil {
		return 0, err
	}
	select {
	case w := <-granted:
		return 0, errors.Join(errOverlap, w.err)
	default:
	}
	released, err := from.ask(ctx, order{Verb: verbUnlock})
	if err != nil {
		return 0, err
	}
	w := <-granted
	return w.At.sub(released.At), w.err
}

// waited is the answer to an order that was begun.
type waited struct {
	answer
	err error
}

// begin is ask without waiting.
func (r *rig) begin(ctx context.Context, p *process, o order) <-chan waited {
	c := make(chan waited, 1)
	go func() {
		a, err := p.ask(ctx, o)
		c <- waited{a, err}
	}()
	return c
}
