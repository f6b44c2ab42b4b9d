//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/internal/demokit"
	"github.com/quorumlock/quorumlock/internal/servers"
)

// driver runs everything, one thing at a time.
type driver struct {
	options
	launcher *demokit.Launcher
	dir      string
	out      io.Writer // what is being done, for people
	results  results
	missing  map[*system]bool
}

// measureAll runs what the options name: repetition by repetition, so that all systems meet the same weather.
func measureAll(ctx context.Context, o options, out io.Writer) (*results, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp(o.dir, "quorumlock-bench-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL's user must get through
		return nil, err
	}
	d := &driver{options: o, launcher: demokit.NewLauncher(), dir: dir, out: out, missing: map[*system]bool{},
		results: results{Machine: thisMachine(), Began: time.Now().UTC().Truncate(time.Second)}}
	began := time.Now()
	for rep := range o.reps {
		if err = d.repetition(ctx, rep); err != nil {
			break
		}
	}
	d.results.Took = time.Since(began)
	d.launcher.Close()
	return &d.results, errors.Join(err, os.RemoveAll(dir))
}

func (d *driver) repetition(ctx context.Context, rep int) error {
	d.say("repetition %d of %d: limits of the machine", rep+1, d.reps)
	limits := func(ctx context.Context, r *rig, e extent, note noting) error {
		return runFloors(ctx, r, e, func(m *measure, _ string, f float64) { d.results.note(m, floorWho, f) })
	}
	if err := d.on(ctx, floorRig, []*workload{{key: "floors", run: limits}}); err != nil {
		return err
	}
	for _, s := range systems {
		if !d.wants(s) || d.missing[s] {
			continue
		}
		var together []*workload
		for _, w := range workloads {
			if d.does(w, s) && !w.breaks {
				together = append(together, w)
			}
		}
		if err := d.on(ctx, s, together); err != nil {
			return err
		}
		for _, w := range workloads {
			if d.does(w, s) && w.breaks && !d.missing[s] {
				if err := d.on(ctx, s, []*workload{w}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (d *driver) wants(s *system) bool {
	if len(d.systems) > 0 {
		return slices.Contains(d.systems, s.key)
	}
	return s.quick || !d.quick
}

func (d *driver) does(w *workload, s *system) bool {
	if w.fits != nil && !w.fits(s, d.extent) {
		return false
	}
	if len(d.works) > 0 {
		return slices.Contains(d.works, w.key)
	}
	return w.quick || !d.quick
}

// on raises a system and has it do some work. What fails is told in the end, and the next one is tried; only the end of ctx ends the run.
func (d *driver) on(ctx context.Context, s *system, list []*workload) error {
	if len(list) == 0 {
		return nil
	}
	r, err := raise(ctx, d.launcher, s, d.dir)
	var missing *servers.MissingError
	if errors.As(err, &missing) {
		d.missing[s] = true
		d.results.Left = append(d.results.Left, fmt.Sprintf("%s: %v", s.name, missing))
		d.say("%s is left out: %v", s.name, missing)
		return nil
	}
	if err != nil {
		return d.failed(ctx, s, list[0], err)
	}
	r.profile = d.profile
	if err := r.warm(ctx); err != nil {
		return errors.Join(d.failed(ctx, s, list[0], err), r.end())
	}
	for _, w := range list {
		if err = d.do(ctx, r, w); err != nil {
			break // the system may not be what it was
		}
	}
	return errors.Join(err, r.end())
}

func (d *driver) do(ctx context.Context, r *rig, w *workload) error {
	began := time.Now()
	err := w.run(ctx, r, d.extent, func(m *measure, at string, f float64) { d.results.note(m, who{r.system.name, at}, f) })
	if err != nil {
		return d.failed(ctx, r.system, w, err)
	}
	d.say("%s: %s in %.1f s", r.system.name, w.key, time.Since(began).Seconds())
	return nil
}

func (d *driver) failed(ctx context.Context, s *system, w *workload, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.results.Failed = append(d.results.Failed, fmt.Sprintf("%s %s: %v", s.name, w.key, err))
	d.say("%s: %s FAILED: %v", s.name, w.key, err)
	return nil
}

func (d *driver) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }
