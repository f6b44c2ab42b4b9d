//go:build !wasip1

package simulation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// replayBound is real time for one run. No clock goes on while the guest computes, so in there nothing ends a checker that does not
// come to a decision.
const replayBound = 10 * time.Minute

// guest is this package's tests built for wasip1, and the host that runs them.
type guest struct{ host, module, cache string }

// buildGuest builds both. The host is built and not started by go run, which would outlive it when it is killed.
func buildGuest(t *testing.T) guest {
	t.Helper()
	if _, err := os.Stat(filepath.Join("exact", "go.mod")); errors.Is(err, os.ErrNotExist) {
		t.Skip("package exact is a module of its own and not part of this one as a dependency")
	}
	dir := t.TempDir()
	g := guest{host: filepath.Join(dir, "exact.exe"), module: filepath.Join(dir, "simulation.wasm"), cache: filepath.Join(dir, "cache")}
	goTool(t, []string{"GOWORK=off"}, "build", "-C", "exact", "-o", g.host, ".")
	goTool(t, []string{"GOOS=wasip1", "GOARCH=wasm"}, "test", "-c", "-trimpath", "-o", g.module, ".")
	return g
}

func goTool(t *testing.T, env []string, args ...string) {
	t.Helper()
	ctx, cancel := bounded(t)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(cmd.Environ(), env...)
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	t.Logf("go %s: %v", args[0], time.Since(began).Round(time.Millisecond))
}

// bounded ends early enough for the test to tell what was going on.
func bounded(t *testing.T) (context.Context, context.CancelFunc) {
	bound := replayBound
	if deadline, ok := t.Deadline(); ok {
		bound = min(bound, time.Until(deadline)*9/10)
	}
	return context.WithTimeout(t.Context(), bound)
}

// schedule names all that an exact run depends on, besides the source.
type schedule struct {
	seed  uint64
	each  time.Duration
	order uint64 // seed of the randomness
}

func (s schedule) String() string {
	return fmt.Sprintf("seed %d, %v, order %d", s.seed, s.each, s.order)
}

// played is one run of a schedule.
type played struct {
	schedule
	events string
	output string
	err    error // the schedule failed
	took   time.Duration
}

// search plays up to orders orders and gives the first one in which the schedule fails, or the last.
func (g guest) search(t *testing.T, s schedule, orders uint64) played {
	p := g.play(t, s)
	for tried := uint64(1); p.err == nil && tried < orders; tried++ {
		s.order++
		p = g.play(t, s)
	}
	return p
}

func (g guest) play(t *testing.T, s schedule) played {
	began := time.Now()
	p := played{schedule: s}
	p.output, p.err = g.run(t, s.order, "-test.run=^TestReplay$", fmt.Sprint("-replay=", s.seed), fmt.Sprint("-length=", s.each))
	p.took = time.Since(began).Round(time.Millisecond)
	for line := range strings.Lines(p.output) {
		if _, events, ok := strings.Cut(line, eventsPrefix); ok {
			p.events = strings.TrimSpace(events)
		}
	}
	return p
}

// run gives what the guest printed. The guest's own bound is off: its clocks do not tell real time.
func (g guest) run(t *testing.T, random uint64, args ...string) (output string, err error) {
	ctx, cancel := bounded(t)
	defer cancel()
	args = append([]string{"-random", fmt.Sprint(random), "-cache", g.cache, g.module, "-test.v", "-test.timeout=0"}, args...)
	cmd := exec.CommandContext(ctx, g.host, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err = cmd.Run(); err != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	return out.String(), err
}
