//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/quorumlock/quorumlock"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

const (
	runBound = 90 * time.Second
	// ttl is the same for all: the shortest that quorumlock takes without measuring first.
	ttl = quorumlock.MinSessionTTL
)

// part is what -only can choose.
type part struct {
	name string
	run  func(ctx context.Context, l *lane, r *result) error
}

// faultParts run side by side: most of their time is spent waiting for a TTL. What they share is the machine.
var faultParts = []part{
	{kindSingle, faults(runSingle)},
	{kindRedlock, faults(runRedlock)},
	{kindQuorum, faults(runQuorum)},
}

// speedPart runs alone, when everything else has been stopped.
var speedPart = part{"speed", func(ctx context.Context, l *lane, r *result) (err error) {
	r.speeds, err = measureAll(ctx, l)
	return err
}}

func faults(run func(context.Context, *lane) ([]row, error)) func(context.Context, *lane, *result) error {
	return func(ctx context.Context, l *lane, r *result) (err error) {
		r.rows, err = run(ctx, l)
		return err
	}
}

// extent is how much is done.
type extent struct {
	only       string        // one part, "" for all
	rounds     int           // of each fault that does not take a whole TTL
	measureFor time.Duration // for each number of callers
}

// comparison runs the parts.
type comparison struct {
	extent
	line     *demokit.Timeline
	launcher *demokit.Launcher
	dir      string
}

// runComparison runs all parts, or only the one wanted, prints the table, and the last line if all was as it must be.
func runComparison(ctx context.Context, e extent, stdout io.Writer) (err error) {
	logging.Disable()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := demokit.Within(ctx, runBound, "the comparison did not come to its end")
	defer cancel()
	c := &comparison{extent: e, line: demokit.NewTimeline(stdout), launcher: demokit.NewLauncher()}
	defer c.launcher.Close()
	if c.dir, err = os.MkdirTemp("", "rediscompare-"); err != nil {
		return fmt.Errorf("data directories: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	r, err := c.run(ctx)
	if err != nil {
		c.line.Say(demokit.Fatal, "", "failed", "%v", err)
		return err
	}
	c.line.Print(r.table() + "\n")
	if err := r.verdict(); err != nil {
		return err
	}
	c.line.Print(r.summary(c.line.Elapsed()) + "\n")
	return nil
}

func (c *comparison) run(ctx context.Context) (result, error) {
	all, err := c.sideBySide(ctx)
	if err != nil || !c.wants(speedPart) {
		return all, err
	}
	err = c.runPart(ctx, speedPart, &all)
	return all, err
}

func (e extent) wants(p part) bool { return e.only == "" || e.only == p.name }

// sideBySide runs the parts with faults at once. If one fails the others are stopped.
func (c *comparison) sideBySide(ctx context.Context) (result, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	results := make([]result, len(faultParts))
	var running sync.WaitGroup
	for i, p := range faultParts {
		if !c.wants(p) {
			continue
		}
		running.Go(func() {
			if err := c.runPart(ctx, p, &results[i]); err != nil {
				fail(err)
			}
		})
	}
	running.Wait()
	var all result
	for _, r := range results {
		all.rows = append(all.rows, r.rows...)
	}
	return all, context.Cause(ctx)
}

func (c *comparison) runPart(ctx context.Context, p part, r *result) (err error) {
	l := &lane{extent: c.extent, name: p.name, line: c.line, launcher: c.launcher, ttl: ttl, dir: filepath.Join(c.dir, p.name)}
	defer func() { err = errors.Join(err, l.stop()) }()
	return p.run(ctx, l, r)
}
