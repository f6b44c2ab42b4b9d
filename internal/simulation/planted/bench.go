package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// options are what the flags say.
type options struct {
	only      string // the one bug to plant
	list      bool
	check     bool
	verbose   bool
	allStages bool
	stages    []string // that are run at all
	// simulator are the arguments of go test for the first stage.
	simulator       string
	simulationLimit time.Duration
	limit           time.Duration // of every other stage
}

// bench plants bugs in a workspace, one after the other.
type bench struct {
	work *workspace
	opt  *options
	out  io.Writer
	logs places // from the control runs
}

// outcome is what came of one bug.
type outcome struct {
	bug     *bug
	err     error // it could not be planted, or its tests not be run
	stages  []result
	planted time.Time
}

// found is the first stage whose tests judged the bug, nil if none did.
func (o *outcome) found() *result {
	for i := range o.stages {
		if f := o.stages[i].failure; f != nil && f.kind == judged {
			return &o.stages[i]
		}
	}
	return nil
}

var errControl = errors.New("control failed: without a bug the tests are not green, so they can not find one")

// controlRun runs the tests on the tree as it is, and notes where they log.
func (b *bench) controlRun(ctx context.Context, list []bug) error {
	b.logs = make(places)
	for _, s := range b.opt.control(list) {
		res, err := b.work.run(ctx, s, b.logs, b.logs)
		if err != nil {
			return fmt.Errorf("control, %s: %w", s.name, err)
		}
		fmt.Fprintf(b.out, "control     %-12s %s\n", s.name, b.describe(&res))
		if res.failure != nil {
			b.detail(res.failure)
			return errControl
		}
	}
	return nil
}

// plantAll plants each bug in turn and tells how many were found.
func (b *bench) plantAll(ctx context.Context, list []bug) (found int, err error) {
	for i := range list {
		o := b.plant(ctx, &list[i])
		if ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		b.report(&o)
		if o.err == nil && o.found() != nil {
			found++
		}
	}
	return found, nil
}

// plant plants one bug, runs its stages until one finds it (all of them if asked to), and takes it out again.
func (b *bench) plant(ctx context.Context, planted *bug) (o outcome) {
	o = outcome{bug: planted, planted: time.Now()}
	restore, err := planted.edit.plant(b.work.tree)
	if err != nil {
		o.err = err
		return o
	}
	defer func() { o.err = errors.Join(o.err, restore()) }()
	if o.err = b.work.compile(ctx, planted.edit.folder()); o.err != nil {
		return o
	}
	for _, s := range b.opt.stagesFor(planted) {
		res, err := b.work.run(ctx, s, b.logs, nil)
		if err != nil {
			o.err = fmt.Errorf("%s: %w", s.name, err)
			return o
		}
		if f := res.failure; f != nil && f.kind == unbuilt {
			o.err = fmt.Errorf("%s: the tests do not compile\n%s", s.name, f.output)
			return o
		}
		o.stages = append(o.stages, res)
		if o.found() != nil && !b.opt.allStages {
			return o
		}
	}
	return o
}

// checkAll makes every edit and compiles the package around it, without running a test.
func (b *bench) checkAll(ctx context.Context, list []bug) error {
	var failed []error
	for i := range list {
		if err := b.check(ctx, &list[i]); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", list[i].name, err))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return errors.Join(failed...)
}

func (b *bench) check(ctx context.Context, planted *bug) (err error) {
	restore, err := planted.edit.plant(b.work.tree)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	return b.work.compile(ctx, planted.edit.folder())
}

// report tells what came of one bug: which test found it, and which stages that ran before it did not.
func (b *bench) report(o *outcome) {
	switch res := o.found(); {
	case o.err != nil:
		fmt.Fprintf(b.out, "ERROR       %s: %v\n", o.bug.name, o.err)
		return
	case res == nil:
		fmt.Fprintf(b.out, "NOT FOUND   %s: %s\n", o.bug.name, o.bug.what)
	default:
		fmt.Fprintf(b.out, "found       %s by %s in %v\n", o.bug.name, res.stage, round(o.until(res)))
	}
	for i := range o.stages {
		res := &o.stages[i]
		fmt.Fprintf(b.out, "            %-12s %s\n", res.stage, b.describe(res))
		if b.opt.verbose && res.failure != nil {
			b.detail(res.failure)
		}
	}
	if o.bug.waits != "" {
		fmt.Fprintf(b.out, "            %-12s %s\n", "waits", o.bug.waits)
	}
}

// until is the time from planting to the end of a stage.
func (o *outcome) until(last *result) (d time.Duration) {
	for i := range o.stages {
		d += o.stages[i].took
		if &o.stages[i] == last {
			break
		}
	}
	return d
}

func (b *bench) describe(res *result) string {
	switch f := res.failure; {
	case f == nil:
		return fmt.Sprintf("green, %d tests in %v", res.tests, round(res.took))
	case f.kind == timedOut:
		return fmt.Sprintf("HUNG after %v, in %s", round(res.took), f.test)
	case f.kind == unbuilt:
		return fmt.Sprintf("did not compile: %s", f.test)
	default:
		return fmt.Sprintf("%v, %s: %s", round(res.took), f.test, f.line)
	}
}

const detailLines = 40

// detail shows the end of what a failed test said.
func (b *bench) detail(f *failure) {
	lines := strings.Split(strings.TrimRight(f.output, "\n"), "\n")
	for _, line := range lines[max(len(lines)-detailLines, 0):] {
		fmt.Fprintf(b.out, "            | %s\n", strings.TrimRight(line, " \t"))
	}
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
