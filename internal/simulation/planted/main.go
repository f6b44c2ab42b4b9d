// Command planted finds out what the tests are worth: it plants known bugs, one at a time, in a copy of the source tree and tells which test found
// each, and after how long.
//
//	go run ./internal/simulation/planted              plant them all; ends in "found K of 24"
//	go run ./internal/simulation/planted -list        name them
//	go run ./internal/simulation/planted -check       only make each edit and compile it; a test of this package does the same
//	go run ./internal/simulation/planted -only NAME   plant one
//
// For each bug there are three stages, run until one of them fails: the cluster simulator, the tests of the packages nearest to the edit, and all
// tests. With -all-stages every one is run, which tells which of them are blind. The same tests run on the tree as it is first, and have
// to be green there.
//
// The exit code is 0 if every bug was found, 1 if not, or if a bug could not be planted any more, or if the control run failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "planted:", err)
		os.Exit(1)
	}
}

func parse(args []string, out io.Writer) (*options, error) {
	var o options
	f := flag.NewFlagSet("planted", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.only, "only", "", "plant only the bug of this `name`")
	f.BoolVar(&o.list, "list", false, "list the bugs")
	f.BoolVar(&o.check, "check", false, "only make each edit and compile it")
	stages := f.String("stages", strings.Join(stageNames, ","), "the stages to run, as a `list` with commas")
	f.BoolVar(&o.allStages, "all-stages", false, "run every stage for every bug")
	f.BoolVar(&o.verbose, "v", false, "show what the failed tests said")
	f.StringVar(&o.simulator, "simulator", "./internal/simulation -skip TestReplay -args -hours 2", "`arguments` of go test for the first stage")
	f.DurationVar(&o.simulationLimit, "simulator-limit", 5*time.Minute, "time for the first stage")
	f.DurationVar(&o.limit, "limit", 8*time.Minute, "time for the stage of the nearest tests; that of all tests has four times as much")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("what is %q?", f.Arg(0))
	}
	o.stages = strings.Split(*stages, ",")
	for _, name := range o.stages {
		if !slices.Contains(stageNames, name) {
			return nil, fmt.Errorf("there is no stage %q, only %s", name, strings.Join(stageNames, ", "))
		}
	}
	return &o, nil
}

// start does what the arguments say, on the tree in whose module the command runs.
func start(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	list := bugs
	if o.only != "" {
		one, ok := find(bugs, o.only)
		if !ok {
			return fmt.Errorf("there is no bug %q; -list names them", o.only)
		}
		list = []bug{one}
	}
	if o.list {
		for i := range list {
			fmt.Fprintf(out, "%-32s %s: %s\n", list[i].name, list[i].edit.file, list[i].what)
		}
		return nil
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	return plantIn(ctx, root, list, o, out)
}

// plantIn plants bugs in a copy of the tree at root, which is gone when it returns.
func plantIn(ctx context.Context, root string, list []bug, o *options, out io.Writer) (err error) {
	work, err := newWorkspace(root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.remove()) }()
	b := &bench{work: work, opt: o, out: out}
	if o.check {
		if err := b.checkAll(ctx, list); err != nil {
			return err
		}
		fmt.Fprintf(out, "%d of %d bugs apply and compile\n", len(list), len(list))
		return nil
	}
	if err := b.controlRun(ctx, list); err != nil {
		return err
	}
	found, err := b.plantAll(ctx, list)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "found %d of %d\n", found, len(list))
	if found < len(list) {
		return errors.New("not every bug was found")
	}
	return nil
}
