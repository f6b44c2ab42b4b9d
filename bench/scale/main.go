//go:build linux

// Command scale measures how quorumlock grows: with voters, instances, sessions, held locks, waiters, clients and groups.
//
//	go run ./bench/scale -quick
//	go run ./bench/scale
//
// Each row is a cluster of its own, of one process for each instance on loopback with directories on disk and fsync, or, for the study "state", one process without a cluster. It prints one
// table for each study; docs/SCALING.md tells what they say. A row that takes too much time or memory is ended and is said to be; the others go on.
//
// It needs Linux, which tells what a process uses. It ends with 0 if everything was measured, else with 1, and with 2 for a wrong command line.
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

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == "worker" {
		serve(stdin, stdout)
		return 0
	}
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "scale:", err)
		return exitFailed
	}
	return 0
}

// options is the command line.
type options struct {
	sizes
	studies []string // none is all
	row     string   // of them; "" is all
	dir     string
	json    string
	profile string
	bound   time.Duration // of one row
	memory  int64         // bytes that the processes of one row may have resident
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{sizes: fullSizes}
	var quick bool
	var names string
	var gib float64
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&quick, "quick", false, "smaller sizes; about five minutes")
	f.StringVar(&names, "studies", "", "comma-separated `names` of what to measure: "+strings.Join(studyNames(), ", "))
	f.StringVar(&o.row, "row", "", "measure only rows with this `label`")
	f.DurationVar(&o.bound, "bound", 10*time.Minute, "`time` after which a row is ended, 10s to 1h")
	f.Float64Var(&gib, "memory", 8, "`GiB` that the processes of a row may take, 0.25 to 1024")
	f.StringVar(&o.dir, "dir", "", "`directory` below which nodes keep their data, on the disk to be measured; default the system's for temporary files")
	f.StringVar(&o.json, "json", "", "write all rows to this `file`")
	f.StringVar(&o.profile, "profile", "", "write profiles of processor time to this `directory`: of the leader in the studies clients and groups, of it and a client in holds")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if quick {
		o.sizes = quickSizes
	}
	if names != "" {
		o.studies = strings.Split(names, ",")
	}
	err := o.check(f, gib)
	if err != nil {
		fmt.Fprintln(stderr, "scale:", err)
	}
	o.memory = int64(gib * (1 << 30))
	return o, err
}

func (o *options) check(f *flag.FlagSet, gib float64) error {
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.bound < 10*time.Second || o.bound > time.Hour {
		return fmt.Errorf("-bound %v: must lie between 10s and 1h", o.bound)
	}
	if !(gib >= 0.25 && gib <= 1024) {
		return fmt.Errorf("-memory %v: must lie between 0.25 and 1024", gib)
	}
	for _, name := range o.studies {
		if !slices.Contains(studyNames(), name) {
			return fmt.Errorf("-studies %s: must be of %s", name, strings.Join(studyNames(), ", "))
		}
	}
	if o.row != "" && !slices.ContainsFunc(studies, o.hasRow) {
		return fmt.Errorf("-row %q: no study of those chosen has such a row", o.row)
	}
	return nil
}

func (o *options) chosen(s *study) bool {
	return len(o.studies) == 0 || slices.Contains(o.studies, s.name)
}

func (o *options) hasRow(s *study) bool {
	return o.chosen(s) && slices.ContainsFunc(s.cases(o.sizes), func(c setting) bool { return c.label == o.row })
}

// measure runs the studies one after the other. What is measured is printed and saved also if something fails.
func measure(ctx context.Context, o options, stdout, stderr io.Writer) error {
	r := &report{Machine: machine(), Began: time.Now().UTC().Truncate(time.Second)}
	for _, s := range studies {
		if !o.chosen(s) || o.row != "" && !o.hasRow(s) {
			continue
		}
		r.Sheets = append(r.Sheets, runStudy(ctx, o, s, stderr))
		if ctx.Err() != nil {
			break
		}
	}
	r.Seconds = time.Since(r.Began).Seconds()
	fmt.Fprint(stdout, r)
	err := ctx.Err()
	if o.json != "" {
		err = errors.Join(err, r.save(o.json))
	}
	if n := r.failures(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d rows failed", n))
	}
	return err
}

// runStudy has each row in a directory of its own, which is removed.
func runStudy(ctx context.Context, o options, s *study, progress io.Writer) *sheet {
	out := &sheet{Study: s.name, Title: s.title, On: s.on, columns: s.columns}
	for _, c := range s.cases(o.sizes) {
		if ctx.Err() != nil {
			break
		}
		if o.row != "" && c.label != o.row {
			continue
		}
		began := time.Now()
		figures, err := runCase(ctx, o, s, c)
		row := row{Label: c.label, Figures: figures}
		if err != nil {
			row.Failed = err.Error()
		}
		out.Rows = append(out.Rows, row)
		fmt.Fprintf(progress, "%s, %s: %.1f s %s\n", s.name, c.label, time.Since(began).Seconds(), row.Failed)
	}
	return out
}

func runCase(ctx context.Context, o options, s *study, c setting) (_ map[string]float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.bound, fmt.Errorf("not done within %v", o.bound))
	defer cancel()
	dir, err := os.MkdirTemp(o.dir, "quorumlock-scale-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bed{ctx: ctx, dir: dir, profile: o.profile, sizes: o.sizes}
	defer b.end()
	stop := b.guard(cancel, o.memory)
	defer stop()
	figures := make(map[string]float64)
	err = s.run(b, c, func(column string, value float64) { figures[column] = value })
	if err != nil && b.over.Load() {
		err = fmt.Errorf("more than %d MiB resident", o.memory>>20)
	} else if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return figures, err
}
