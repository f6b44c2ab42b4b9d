//go:build unix

// Command rediscompare puts locks of Redis and quorumlock side by side, under the same faults and at the same work, with real
// servers and real processes on this machine:
//
//	go run ./examples/rediscompare
//
// It starts its own Redis servers, so redis-server must be installed; nothing that runs already is touched. It prints what
// happens as it happens, then one table, and ends in "ok:" if each fault bit as it is known to and quorumlock kept its
// promise: no two holders at once, no fenced update lost. Else it exits with 1, and with 2 if redis-server is missing. See
// README.md for what is fair in it and what is not.
//
// The files to read are lock_single.go, lock_redlock.go and lock_quorum.go, the three locks; worker.go, what is done under
// them; store.go, the resource, with and without a fence; and act.go with act_single.go, act_redlock.go and act_quorum.go,
// what is done to them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/servers"
)

const (
	exitFailed = 1
	exitUsage  = 2 // a wrong command line, or a server that is not installed
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// options is the command line.
type options struct {
	extent
	worker workerOptions // of a child; kind is "" for the parent
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var list string
	f := flag.NewFlagSet("rediscompare", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.only, "only", "", "run one `part`: single, redlock, quorumlock or speed")
	f.IntVar(&o.rounds, "rounds", 2, "`number` of times that each fault is done which does not take a whole TTL, 1 to 3")
	f.DurationVar(&o.measureFor, "for", time.Second, "`time` for which each number of callers is measured, 100ms to 2s")
	w := &o.worker
	f.StringVar(&w.kind, "worker", "", "be one worker of a `kind`; used by the program itself, as are the flags below")
	f.StringVar(&w.name, "name", "", "worker: its name")
	f.DurationVar(&w.ttl, "ttl", ttl, "worker: `TTL` of its locks")
	f.StringVar(&list, "servers", "", "worker: comma-separated `addresses`")
	f.StringVar(&w.primary, "primary", "", "worker: `URL` that tells the primary's address")
	f.StringVar(&w.addr, "addr", "", "worker: `address` of its node")
	f.StringVar(&w.dir, "dir", "", "worker: data `directory`")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if list != "" {
		w.servers = strings.Split(list, ",")
	}
	err := o.check(f)
	if err != nil {
		fmt.Fprintln(stderr, "rediscompare:", err)
	}
	return o, err
}

func (o *options) check(f *flag.FlagSet) error {
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.rounds < 1 || o.rounds > 3 {
		return fmt.Errorf("-rounds %d: must lie between 1 and 3", o.rounds)
	}
	if o.measureFor < 100*time.Millisecond || o.measureFor > 2*time.Second {
		return fmt.Errorf("-for %v: must lie between 100ms and 2s", o.measureFor)
	}
	known := []string{"", speedPart.name}
	for _, p := range faultParts {
		known = append(known, p.name)
	}
	if !slices.Contains(known, o.only) {
		return fmt.Errorf("-only %s: must be one of %s", o.only, strings.Join(known[1:], ", "))
	}
	return nil
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case o.worker.kind != "":
		err = runWorker(ctx, o.worker, stdin, stdout, stderr)
	default:
		err = runComparison(ctx, o.extent, stdout)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "rediscompare:", err)
	var missing *servers.MissingError
	if errors.As(err, &missing) {
		return exitUsage
	}
	return exitFailed
}
