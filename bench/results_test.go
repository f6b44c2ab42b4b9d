//go:build unix

package main

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestSpread(t *testing.T) {
	for name, c := range map[string]struct {
		figures []float64
		want    spread
	}{
		"one":            {[]float64{3}, spread{3, 3, 3, 1}},
		"odd, unordered": {[]float64{9, 1, 4}, spread{4, 1, 9, 3}},
		"even":           {[]float64{1, 2, 4, 100}, spread{3, 1, 100, 4}},
	} {
		if got := spreadOf(c.figures); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if s := spreadOf(nil); !math.IsNaN(s.Median) || s.Count != 0 {
		t.Errorf("of nothing: %+v", s)
	}
	figures := []float64{2, 1}
	if spreadOf(figures); figures[0] != 2 {
		t.Error("the figures were sorted in place")
	}
}

func TestRatio(t *testing.T) {
	if r := ratio(spreadOf([]float64{6}), spreadOf([]float64{1, 4, 9})); r != 1.5 {
		t.Errorf("%v", r)
	}
	for name, b := range map[string]spread{"nothing": {}, "zero": spreadOf([]float64{0})} {
		if r := ratio(spreadOf([]float64{6}), b); !math.IsNaN(r) {
			t.Errorf("to %s: %v", name, r)
		}
	}
}

func TestShown(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 0.0001: "0.000", 0.1234: "0.123", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 46812: "46812", math.NaN(): "-"} {
		if got := shown(f); got != want {
			t.Errorf("%v is shown as %q, want %q", f, got, want)
		}
	}
}

// sample has a bit of everything: one figure and several, with a peer and without, places, systems left out, a failure.
func sample() *results {
	r := &results{Machine: machine{"linux/amd64", "Some Processor", 2, "go1.26", "0.10"}, Took: 61500 * time.Millisecond,
		Left: []string{"ZooKeeper, 3 nodes: java is not installed"}, Failed: []string{"Redis, one node W3: it broke"}}
	for _, f := range []float64{0.5, 0.4, 0.6} {
		r.note(floorMeasures[floorReplicated], floorWho, f)
		r.note(latencyMedian, who{quorumDisk.name, "leader"}, 2*f)
		r.note(latencyMedian, who{etcdSystem.name, ""}, 4*f)
	}
	r.note(throughput(64), who{quorumDisk.name, ""}, 20000)
	r.note(throughput(64), who{etcdSystem.name, ""}, 2500)
	r.note(sameAgain, who{quorumDisk.name, ""}, 0)
	return r
}

func TestTable(t *testing.T) { golden(t, "table.txt", []byte(sample().table())) }

func TestSave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	if err := sample().save(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Error("no JSON")
	}
	golden(t, "figures.json", text)
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is now\n%s", name, got)
	}
}

func TestDraw(t *testing.T) {
	for _, name := range []string{"a.png", "a.svg"} {
		file := filepath.Join(t.TempDir(), name)
		if err := sample().draw(file); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if begin := map[string]string{"a.png": "\x89PNG", "a.svg": "<?xml"}[name]; err != nil || string(text[:len(begin)]) != begin {
			t.Errorf("%s begins with %q, %v", name, text[:min(8, len(text))], err)
		}
	}
	if err := new(results).draw(filepath.Join(t.TempDir(), "b.png")); err == nil {
		t.Error("nothing was drawn")
	}
}
