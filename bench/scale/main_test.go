//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
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

// smallSizes has every study, of a size that says nothing about speed.
var smallSizes = sizes{
	window: 200 * time.Millisecond, watch: 200 * time.Millisecond,
	stateOf: []setting{{sessions: 10, holds: 50_000, waiters: 10}},
	voters:  []int{1, 7}, instances: []int{4}, sessions: []int{30}, holds: []int{2_000}, waiters: []int{20}, clients: []int{6}, groups: []int{2},
}

// Every study gives all of its figures, and each of them lies where it can lie.
func TestStudies(t *testing.T) {
	dir := t.TempDir()
	o := options{sizes: smallSizes, dir: dir, bound: 2 * time.Minute, memory: 4 << 30}
	o.json, o.profile = filepath.Join(t.TempDir(), "out.json"), t.TempDir()
	var out, progress bytes.Buffer
	if err := measure(t.Context(), o, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	t.Logf("\n%s", out.String())
	r := readReport(t, o.json)
	if len(r.Sheets) != len(studies) {
		t.Fatalf("%d of %d studies", len(r.Sheets), len(studies))
	}
	for i, s := range studies {
		for _, row := range r.Sheets[i].Rows {
			for column := range row.Figures {
				if !slices.Contains(s.columns, column) {
					t.Errorf("%s: %q is in no table", s.name, column)
				}
			}
		}
		for _, c := range s.columns {
			if !slices.ContainsFunc(r.Sheets[i].Rows, func(r row) bool { _, ok := r.Figures[c]; return ok }) && !maySkip[s.name+" "+c] {
				t.Errorf("%s: no figure of %q", s.name, c)
			}
		}
	}
	// An entry is a batch: 6 clients do not fill it, and no figure can be below one.
	load := figuresOf(t, r, "clients", "6, memory")
	within(t, load, "commands/entry", 0.5, 12)
	within(t, load, "p50 ms", 0.01, 5_000)
	within(t, load, "cycles/s", 1, 1e6)
	state := figuresOf(t, r, "state", "10 sessions, 50000 holds, 10 waiters")
	within(t, state, "B each", 100, 1_000)
	within(t, state, "stops us", 0, 1e5)
	seven := figuresOf(t, r, "voters", "7")
	within(t, seven, "bare: p50 ms", 0.01, 5_000)
	if _, measured := seven["us leader"]; measured {
		t.Error("quorumlock with seven voters was measured, which Config refuses")
	}
	for _, file := range []string{"6-clients-1-groups-disk", "256-clients-2-groups-memory"} {
		if stat, err := os.Stat(filepath.Join(o.profile, file)); err != nil || stat.Size() == 0 {
			t.Errorf("profile %s is missing or empty: %v", file, err)
		}
	}
	empty(t, dir)
}

// maySkip is what a row of two groups has not: an index is of one group.
var maySkip = map[string]bool{"groups entries/s": true, "groups commands/entry": true}

func readReport(t *testing.T, file string) *report {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

func figuresOf(t *testing.T, r *report, study, label string) map[string]float64 {
	t.Helper()
	for _, s := range r.Sheets {
		for _, row := range s.Rows {
			if s.Study == study && row.Label == label {
				return row.Figures
			}
		}
	}
	t.Fatalf("no row %q in %s", label, study)
	return nil
}

func within(t *testing.T, figures map[string]float64, column string, least, most float64) {
	t.Helper()
	if f, measured := figures[column]; !measured || math.IsNaN(f) || f < least || f > most {
		t.Errorf("%s is %v, must lie between %v and %v", column, f, least, most)
	}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A row that takes too much time or memory is ended and told, its processes and directories are gone, and the next row is measured.
func TestBounds(t *testing.T) {
	waiting := &study{name: "endless", columns: []string{"n"},
		cases: func(sizes) []setting { return []setting{{label: "first"}, {label: "second"}} },
		run: func(b *bed, c setting, note noting) error {
			if c.label == "second" {
				note("n", 1)
				return nil
			}
			procs, err := b.cluster(setting{voters: 1, instances: 1})
			if err != nil {
				return err
			}
			if err := b.sessions(procs, 1); err != nil {
				return err
			}
			if err := b.ask(procs[0], "Block", "a", &None{}); err != nil {
				return err
			}
			return b.ask(procs[0], "Block", "a", &None{}) // it waits for itself
		},
	}
	for name, c := range map[string]struct {
		bound  time.Duration
		memory int64
		says   string
	}{
		"time":   {3 * time.Second, 4 << 30, "not done within 3s"},
		"memory": {time.Minute, 1 << 20, "more than 1 MiB resident"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := runStudy(t.Context(), options{dir: dir, bound: c.bound, memory: c.memory}, waiting, io.Discard)
			if len(s.Rows) != 2 || s.Rows[0].Failed != c.says || s.Rows[1].Failed != "" || s.Rows[1].Figures["n"] != 1 {
				t.Errorf("%+v", s.Rows)
			}
			empty(t, dir)
		})
	}
}

// A worker that dies is told with what it said, and does not hold up the row.
func TestWorkerDies(t *testing.T) {
	b := &bed{ctx: t.Context(), dir: t.TempDir()}
	defer b.end()
	p, err := b.start(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := b.ask(p, "Memory", None{}, &Memory{}); err == nil {
		t.Error("a dead worker answers")
	}
}

func TestCommandLine(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		code int
		says string
	}{
		"argument":      {"start", exitUsage, `unexpected argument "start"`},
		"no such flag":  {"-x", exitUsage, "-x"},
		"no such study": {"-studies state,moon", exitUsage, "-studies moon: must be of state, voters"},
		"no such row":   {"-studies holds -row 4096", exitUsage, `-row "4096": no study of those chosen has such a row`},
		"too short":     {"-bound 1s", exitUsage, "-bound 1s: must lie between 10s and 1h"},
		"too little":    {"-memory 0", exitUsage, "-memory 0: must lie between 0.25 and 1024"},
		"not a number":  {"-memory NaN", exitUsage, "-memory NaN: must lie"},
		"help":          {"-h", 0, "-quick"},
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

// The report shows what was not measured as such, and what failed.
func TestReport(t *testing.T) {
	r := &report{Machine: "m", Sheets: []*sheet{{Study: "s", Title: "t", On: "o", columns: []string{"a", "b"}, Rows: []row{
		{Label: "1", Figures: map[string]float64{"a": 1234.4, "b": 0.01234}}, {Label: "2", Figures: map[string]float64{"a": 0}, Failed: "no quorum"},
	}}}}
	const want = "m, 0 s\n\ns: t\no\n      a      b\n1  1234  0.012\n2     0      -\nFAILED: 2: no quorum\n"
	got := r.String()
	for line := range strings.Lines(want) {
		if !strings.Contains(squeezed(got), squeezed(line)) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
	if r.failures() != 1 {
		t.Errorf("%d failures", r.failures())
	}
}

func squeezed(s string) string { return strings.Join(strings.Fields(s), " ") }
