//go:build unix

// Command bench measures quorumlock beside its peers, in one run on this machine:
//
//	go run ./bench -quick
//	go run ./bench
//
// Every system is run with three worker processes over which the clients are spread. With quorumlock these three are the cluster; etcd, ZooKeeper, Redis and PostgreSQL have servers
// of their own beside them, which it starts in directories and on ports of their own. What is not installed is left out, and the table says so. The limits of the machine are measured
// in the same run. docs/BENCHMARKS.md tells how each figure comes about.
//
// It ends with 0 if everything was measured that is installed, else with 1, and with 2 for a wrong command line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var err error
	switch {
	case len(args) > 0 && args[0] == "worker":
		err = runWorker(ctx, stdin, stdout)
	case len(args) > 0 && args[0] == "etcd":
		err = runEtcd(args[1:], stdin)
	default:
		var o options
		if o, err = parse(args, stderr); errors.Is(err, flag.ErrHelp) {
			return 0
		} else if err != nil {
			return exitUsage
		}
		err = compare(ctx, o, stdout, stderr)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "bench:", err)
	return exitFailed
}

// options is the command line.
type options struct {
	extent
	quick   bool
	systems []string // keys; none is all
	works   []string
	dir     string
	json    string
	plot    string
	profile string
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{extent: fullExtent}
	var names, works string
	var reps int
	var window time.Duration
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.quick, "quick", false, "W1 to W3 of quorumlock, etcd and Redis, once; under five minutes")
	f.IntVar(&reps, "reps", 0, "`number` of repetitions, 1 to 100; default 3, with -quick 1")
	f.DurationVar(&window, "for", 0, "`time` for which cycles are counted in each measurement, 100ms to 1m; default 3s, with -quick 2s")
	f.StringVar(&names, "systems", "", "comma-separated `names` of what to measure: "+strings.Join(systemKeys(), ", "))
	f.StringVar(&works, "workloads", "", "comma-separated `names` of workloads: W1 to W7")
	f.StringVar(&o.dir, "dir", "", "`directory` below which servers keep their data, on the disk to be measured; default the system's for temporary files")
	f.StringVar(&o.json, "json", "", "write all figures to this `file`")
	f.StringVar(&o.plot, "plot", "", "draw the medians to this `file`, .png or .svg")
	f.StringVar(&o.profile, "profile", "", "write profiles of quorumlock's nodes (processor, allocations, heap, goroutines) in W1, W2, W3, W6 and W7 to this `directory`; they cost speed")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		o.extent = quickExtent
	}
	if reps != 0 {
		o.reps = reps
	}
	if window != 0 {
		o.window = window
	}
	o.systems, o.works = listed(names), listed(works)
	err := o.check(f)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
	}
	return o, err
}

func systemKeys() (keys []string) {
	for _, s := range systems {
		keys = append(keys, s.key)
	}
	return keys
}

func listed(names string) []string {
	if names == "" {
		return nil
	}
	return strings.Split(names, ",")
}

func (o *options) check(f *flag.FlagSet) error {
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.reps < 1 || o.reps > 100 {
		return fmt.Errorf("-reps %d: must lie between 1 and 100", o.reps)
	}
	if o.window < 100*time.Millisecond || o.window > time.Minute {
		return fmt.Errorf("-for %v: must lie between 100ms and 1m", o.window)
	}
	for _, name := range o.systems {
		if !slices.Contains(systemKeys(), name) {
			return fmt.Errorf("-systems %s: must be of %s", name, strings.Join(systemKeys(), ", "))
		}
	}
	for _, name := range o.works {
		if !slices.ContainsFunc(workloads, func(w *workload) bool { return w.key == name && (w.quick || !o.quick) }) {
			return fmt.Errorf("-workloads %s: must be of W1 to W7, with -quick of W1 to W3", name)
		}
	}
	if ext := filepath.Ext(o.plot); o.plot != "" && ext != ".png" && ext != ".svg" {
		return fmt.Errorf("-plot %s: must end in .png or .svg", o.plot)
	}
	return nil
}

func compare(ctx context.Context, o options, stdout, stderr io.Writer) error {
	r, err := measureAll(ctx, o, stderr)
	if r == nil {
		return err
	}
	fmt.Fprint(stdout, r.table())
	if o.json != "" {
		err = errors.Join(err, r.save(o.json))
	}
	if o.plot != "" {
		err = errors.Join(err, r.draw(o.plot))
	}
	return errors.Join(err, r.err())
}
