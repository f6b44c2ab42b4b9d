package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// stage is one run of tests that could find a bug.
type stage struct {
	name string
	args []string // for go test: packages, and flags of the test binary after -args
	// limit is how long the stage may take. Tests that are still running then have not found anything.
	limit time.Duration
}

const (
	simulation = "simulation"
	nearest    = "nearest"
	everything = "everything"

	waitDelay = 5 * time.Second
	// overhead is added to a stage's limit before its process is killed: building, and the report of tests that end by their own limit.
	overhead = 3 * time.Minute
)

var stageNames = []string{simulation, nearest, everything}

// stagesFor are a bug's stages in the order in which they are run. The simulator comes first, since finding bugs is what it is for, and what the net
// below it holds says nothing about it; unless the bug is in a part that clusters do not use.
func (o *options) stagesFor(b *bug) []stage {
	order := []stage{o.simulation(), o.nearest(b.tests), o.everything()}
	if b.pure {
		order[0], order[1] = order[1], order[0]
	}
	return slices.DeleteFunc(order, func(s stage) bool { return !slices.Contains(o.stages, s.name) })
}

func (o *options) simulation() stage {
	return stage{name: simulation, args: strings.Fields(o.simulator), limit: o.simulationLimit}
}

func (o *options) nearest(folders []string) stage {
	s := stage{name: nearest, limit: o.limit}
	for _, folder := range folders {
		s.args = append(s.args, "./"+folder)
	}
	return s
}

// everything is the stage of all packages, one of which is the whole simulation again, and gets as much more time.
func (o *options) everything() stage {
	return stage{name: everything, args: []string{"./..."}, limit: everythingLimits * o.limit}
}

const everythingLimits = 4

// control are the runs that must be green before anything is planted: each stage once, for all bugs together.
func (o *options) control(list []bug) []stage {
	var folders []string
	for i := range list {
		folders = append(folders, list[i].tests...)
	}
	slices.Sort(folders)
	all := o.stagesFor(&bug{tests: slices.Compact(folders)})
	if slices.Contains(o.stages, everything) {
		all = slices.DeleteFunc(all, func(s stage) bool { return s.name == nearest }) // which is part of it
	}
	return all
}

// result is what came of a stage.
type result struct {
	stage   string
	failure *failure // nil: all green
	took    time.Duration
	tests   int // that have begun
}

var errNoTests = errors.New("no test was run")

// run runs a stage to its first failure or to its end. An error means that it could not be run.
func (w *workspace) run(parent context.Context, s stage, logs, seen places) (result, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(parent, s.limit+overhead)
	defer cancel()
	args := append([]string{"test", "-json", "-count=1", "-failfast", "-timeout=" + s.limit.String()}, s.args...)
	cmd := w.command(ctx, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return result{}, err
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		return result{}, fmt.Errorf("run go test: %w", err)
	}
	r := newReader(logs, seen)
	f, readErr := r.read(out)
	res := result{stage: s.name, failure: f, took: time.Since(began), tests: r.tests}
	if f != nil || readErr != nil {
		cancel() // the first failure is enough
	}
	waitErr := cmd.Wait()
	switch {
	case parent.Err() != nil:
		return res, context.Cause(parent)
	case f != nil:
		return res, nil
	case readErr != nil:
		return res, fmt.Errorf("read what go test says: %w", readErr)
	case ctx.Err() != nil:
		res.failure = &failure{test: s.name, kind: timedOut, line: "killed after " + (s.limit + overhead).String()}
		return res, nil
	case waitErr != nil:
		return res, fmt.Errorf("go test: %w\n%s", waitErr, strings.TrimSpace(complaint.String()))
	case r.tests == 0:
		return res, errNoTests
	}
	return res, nil
}
