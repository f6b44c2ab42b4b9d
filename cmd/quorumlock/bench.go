package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	embedded bool
	callers  int
	names    int
	count    int
	duration time.Duration
	prefix   string
}

func newBench(inv *invocation) *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast locks are taken and released",
		Long: `Measure how fast locks are taken and released: callers lock and unlock by turns, until --count cycles are done or --duration has passed. Every caller has a lock of its own
unless --names says that they share. This is load on the cluster like any other.`,
		GroupID: groupUse,
		Args:    cobra.NoArgs,
		RunE:    action(func(ctx context.Context, _ []string) error { return inv.bench(ctx, o) }),
	}
	flags := cmd.Flags()
	embeddedFlag(flags, &o.embedded)
	flags.IntVar(&o.callers, "callers", 16, "how many lock at the same time")
	flags.IntVar(&o.names, "names", 0, "how many locks they share; 0 is one for each")
	flags.IntVar(&o.count, "count", 10_000, "cycles in all; 0 is no bound")
	flags.DurationVar(&o.duration, "duration", 10*time.Second, "how long at most")
	flags.StringVar(&o.prefix, "prefix", "bench/", "what the locks' names begin with")
	return cmd
}

// benchView is the JSON of bench. Times are in microseconds.
type benchView struct {
	Callers      int     `json:"callers"`
	Names        int     `json:"names"`
	Cycles       int     `json:"cycles"`
	Errors       int     `json:"errors"`
	Seconds      float64 `json:"seconds"`
	LocksPerSec  float64 `json:"locks_per_second"`
	LockP50US    int64   `json:"lock_p50_us"`
	LockP99US    int64   `json:"lock_p99_us"`
	UnlockP50US  int64   `json:"unlock_p50_us"`
	UnlockP99US  int64   `json:"unlock_p99_us"`
	FirstProblem string  `json:"first_problem,omitempty"`
}

// times are what one caller measured.
type times struct {
	lock, unlock []time.Duration
	failed       int
	first        error
}

func (inv *invocation) bench(ctx context.Context, o benchOptions) error {
	const most = 10_000
	if o.callers < 1 || o.callers > most || o.names < 0 || o.count < 0 || o.duration <= 0 {
		return usage("--callers must be 1 to %d, --duration positive, and --names and --count not negative", most)
	}
	if o.names == 0 {
		o.names = o.callers
	}
	node, err := inv.nodeFor(ctx, o.embedded)
	if err != nil {
		return err
	}
	defer node.Close()
	bounded, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	start := time.Now()
	all := benchCallers(bounded, node, o)
	view := summary(o, all, time.Since(start))
	if view.Cycles == 0 && all.first != nil {
		return all.first
	}
	if inv.json {
		err = inv.printJSON(view)
	} else {
		err = inv.showBench(view)
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

func benchCallers(ctx context.Context, node *quorumlock.Node, o benchOptions) times {
	cycles := make(chan struct{})
	go func() {
		defer close(cycles)
		for i := 0; o.count == 0 || i < o.count; i++ {
			select {
			case cycles <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	each := make([]times, o.callers)
	var working sync.WaitGroup
	for i := range each {
		working.Go(func() {
			mutex := quorumlock.NewMutex(node, fmt.Sprintf("%s%d", o.prefix, i%o.names))
			for range cycles {
				each[i].cycle(ctx, mutex)
			}
		})
	}
	working.Wait()
	var all times
	for _, t := range each {
		all.lock, all.unlock, all.failed = append(all.lock, t.lock...), append(all.unlock, t.unlock...), all.failed+t.failed
		if all.first == nil {
			all.first = t.first
		}
	}
	return all
}

func (t *times) cycle(ctx context.Context, mutex *quorumlock.Mutex) {
	start := time.Now()
	hold, err := mutex.Lock(ctx)
	granted := time.Now()
	if err == nil {
		err = hold.Unlock()
	}
	switch {
	case err == nil:
		t.lock, t.unlock = append(t.lock, granted.Sub(start)), append(t.unlock, time.Since(granted))
	case ctx.Err() == nil: // the end of the measurement is no failure
		t.failed++
		if t.first == nil {
			t.first = err
		}
	}
}

func summary(o benchOptions, all times, took time.Duration) benchView {
	v := benchView{Callers: o.callers, Names: o.names, Cycles: len(all.lock), Errors: all.failed, Seconds: took.Seconds()}
	v.LocksPerSec = float64(v.Cycles) / took.Seconds()
	v.LockP50US, v.LockP99US = quantiles(all.lock)
	v.UnlockP50US, v.UnlockP99US = quantiles(all.unlock)
	if all.first != nil {
		v.FirstProblem = oneLine(all.first.Error())
	}
	return v
}

func quantiles(d []time.Duration) (p50, p99 int64) {
	if len(d) == 0 {
		return 0, 0
	}
	slices.Sort(d)
	return d[len(d)/2].Microseconds(), d[len(d)*99/100].Microseconds()
}

func (inv *invocation) showBench(v benchView) error {
	us := func(n int64) string { return (time.Duration(n) * time.Microsecond).String() }
	return inv.pairs(
		"callers", fmt.Sprint(v.Callers), "locks", fmt.Sprint(v.Names), "cycles", fmt.Sprintf("%d in %.1fs", v.Cycles, v.Seconds),
		"rate", fmt.Sprintf("%.0f locks/s", v.LocksPerSec), "lock", "p50 "+us(v.LockP50US)+", p99 "+us(v.LockP99US),
		"unlock", "p50 "+us(v.UnlockP50US)+", p99 "+us(v.UnlockP99US), "errors", fmt.Sprint(v.Errors), "first", v.FirstProblem,
	)
}
