//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The workers of the driver under test are this binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// smallExtent has everything, of a size that says nothing about speed.
var smallExtent = extent{reps: 1, window: 200 * time.Millisecond, crowds: []int{3, 5}, waiters: []int{2, 6}, handOffs: 3,
	queue: 20, queued: 200 * time.Millisecond, sessions: 30, watch: 200 * time.Millisecond, ttl: 5 * time.Second, after: 4 * time.Second}

// Cycles, queues and limits: each figure is there as often as it was measured, and nothing is left.
func TestUndisturbed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := options{extent: smallExtent, systems: []string{quorumDisk.key, quorumMemory.key}, works: []string{"W1", "W2", "W3", "W6", "W7"}, dir: dir}
	o.json, o.plot = filepath.Join(t.TempDir(), "out.json"), filepath.Join(t.TempDir(), "out.png")
	o.profile = t.TempDir()
	var out, progress bytes.Buffer
	if err := compare(t.Context(), o, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	t.Logf("\n%s", out.String())
	for _, title := range []string{latencyMedian.title, latencyTail.title, throughput(3).title, throughput(5).title, contended(2).title, contended(6).title,
		sameAgain.title, overtaken.title, handOff.title, drained.title, sessionsCPU.title, sessionsBytes.title} {
		if !strings.Contains(out.String(), title) {
			t.Errorf("no %q", title)
		}
	}
	for _, m := range floorMeasures {
		if !strings.Contains(out.String(), m.title) {
			t.Errorf("no %q", m.title)
		}
	}
	files := []string{o.json, o.plot}
	for _, work := range []string{"w1", "w2", "w3", "w6", "w7"} {
		for _, kind := range []string{"", ".allocs", ".heap", ".goroutine"} {
			files = append(files, filepath.Join(o.profile, "quorumlock-"+work+"-leader"+kind))
		}
	}
	if all, _ := filepath.Glob(filepath.Join(o.profile, "quorumlock-w6-*.heap")); len(all) != workers {
		t.Errorf("%d of %d nodes were profiled: %v", len(all), workers, all)
	}
	for _, file := range files {
		if stat, err := os.Stat(file); err != nil || stat.Size() == 0 {
			t.Errorf("%s is missing or empty: %v", file, err)
		}
	}
	empty(t, dir)
}

// Kills bite, and the survivors go on.
func TestKills(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := t.TempDir()
	r, err := measureAll(t.Context(), options{extent: smallExtent, systems: []string{quorumDisk.key}, works: []string{"W4", "W5"}, dir: dir}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.err(); err != nil {
		t.Fatal(err)
	}
	own := who{system: quorumDisk.name}
	if s := r.of(leaderLost, own); s.Count != 1 || s.Median < 0.1 { // no election is that fast
		t.Errorf("next grant after the leader's death: %+v s", s)
	}
	if s := r.of(leaderErrors, own); s.Count != 1 || s.Median != 0 {
		t.Errorf("callers without a deadline saw errors: %+v", s)
	}
	if s := r.of(holderLost, own); s.Count != 1 || s.Median < 0.5 { // its lease was renewed not long before
		t.Errorf("next grant after the holder's death: %+v of the TTL", s)
	}
	empty(t, dir)
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A peer that is not installed is left out, is said to be, and is no failure.
func TestMissingPeer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	o := options{extent: smallExtent, systems: []string{redisPlain.key}, works: []string{"W1"}, dir: t.TempDir()}
	var out bytes.Buffer
	if err := compare(t.Context(), o, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "left out: Redis, one node: redis-server is not installed"); n != 1 {
		t.Errorf("said %d times to be left out:\n%s", n, out.String())
	}
	if strings.Contains(out.String(), latencyMedian.title) {
		t.Errorf("measured:\n%s", out.String())
	}
}

func TestCommandLine(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		code int
		says string
	}{
		"argument":        {"start", exitUsage, `unexpected argument "start"`},
		"no such flag":    {"-x", exitUsage, "-x"},
		"no such system":  {"-systems etcd,paper", exitUsage, "-systems paper: must be of quorumlock"},
		"no such work":    {"-workloads W8", exitUsage, "-workloads W8"},
		"not quick":       {"-quick -workloads W7", exitUsage, "with -quick of W1 to W3"},
		"no repetition":   {"-reps -1", exitUsage, "-reps -1: must lie between 1 and 100"},
		"too short":       {"-for 1ms", exitUsage, "-for 1ms: must lie between 100ms and 1m"},
		"no such picture": {"-plot a.gif", exitUsage, "-plot a.gif: must end in .png or .svg"},
		"help":            {"-h", 0, "-quick"},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := run(t.Context(), strings.Fields(c.args), strings.NewReader(""), io.Discard, &stderr); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(stderr.String(), c.says) {
				t.Errorf("says %q, want %q in it", stderr.String(), c.says)
			}
		})
	}
}

func TestParse(t *testing.T) {
	o, err := parse(strings.Fields("-quick -reps 2 -for 1s -systems etcd,redis -workloads W1,W3"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !o.quick || o.reps != 2 || o.window != time.Second || !slices.Equal(o.systems, []string{"etcd", "redis"}) || !slices.Equal(o.works, []string{"W1", "W3"}) {
		t.Errorf("%+v", o)
	}
	if o, err = parse(nil, io.Discard); err != nil || o.reps != 3 || o.queue != 2000 {
		t.Errorf("%+v, %v", o, err)
	}
}
