package scenario_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// S20: members whose wall clocks are an hour apart on either side, whose rates and TTLs differ, and of which one starts again from its disk on the way, have the same
// state at each index of a random history.
func TestEqualStateUnderUnequalClocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ttls := []time.Duration{5 * time.Second, 10 * time.Second, 30 * time.Second}
		unequal := quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) { cfg.SessionTTL = ttls[i] })
		c := quorumlocktest.New(t, 3, unequal)
		for i, step := range []time.Duration{-time.Hour, 0, time.Hour} {
			c.Clock(i).StepWall(step)
			c.Clock(i).SetRate(0.95 + 0.05*float64(i))
		}
		quit := make(chan struct{})
		var work sync.WaitGroup
		for i := range c.Size() {
			for k := range 4 {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(k)))
				work.Go(func() { muddle(c.Node(i), rng, quit) })
			}
		}
		same := 0
		seen := make(map[uint64][32]byte)
		compare := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(3 * time.Millisecond) {
				same += compareStates(t, c, seen)
			}
		}
		compare(500 * time.Millisecond)
		last := c.Leader()
		c.HandOver(last)
		compare(500 * time.Millisecond)
		close(quit)
		work.Wait()
		c.CheckState()
		restarted := others(c, c.Leader())[0]
		c.Crash(restarted)
		c.Start(restarted) // applies the same log again
		c.WaitReady()
		c.CheckState()
		if same < 150 || len(seen) < 60 {
			t.Errorf("states compared %d times at %d indexes", same, len(seen))
		}
	})
}

// compareStates gives the number of members that stood at an index at which another state had been seen before.
func compareStates(t *testing.T, c *quorumlocktest.Cluster, seen map[uint64][32]byte) (same int) {
	t.Helper()
	for i := range c.Size() {
		index, hash := sim.State(c.Node(i))
		if other, known := seen[index]; known {
			if same++; other != hash {
				t.Fatalf("instance %d differs at index %d", i, index)
			}
		}
		seen[index] = hash
	}
	return same
}

// muddle uses a few locks in every way.
func muddle(n *quorumlock.Node, rng *rand.Rand, quit <-chan struct{}) {
	for !closed(quit) {
		name := fmt.Sprint("k", rng.IntN(4))
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.IntN(100))*time.Millisecond)
		m := quorumlock.NewMutex(n, name, quorumlock.Note(strings.Repeat("x", rng.IntN(9))))
		take := m.Lock
		if rng.IntN(3) == 0 {
			take = m.TryLock
		}
		if h, err := take(ctx); err == nil {
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			if rng.IntN(8) == 0 {
				_ = n.ForceRelease(ctx, name, h.Token(), quorumlock.ForceOptions{Actor: "a", Reason: "r", Now: rng.IntN(2) == 0})
			}
			_ = h.Unlock()
		}
		cancel()
		time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
	}
}

// What the replicated state is made by reads no clock and no chance: all times and all choices come in by commands.
func TestStateMachineReadsNoClockAndNoChance(t *testing.T) {
	forbidden := map[string]bool{
		"math/rand": true, "math/rand/v2": true, "crypto/rand": true, "os": true, "runtime": true, "sync": true,
		"github.com/quorumlock/quorumlock/internal/clock": true,
	}
	files := 0
	for _, dir := range []string{"../locktable", "../wire"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			files++
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, imp := range file.Imports {
				if path := strings.Trim(imp.Path.Value, `"`); forbidden[path] {
					t.Errorf("%s imports %s", name, path)
				}
			}
			checkPure(t, name, file)
		}
	}
	if files < 20 {
		t.Errorf("only %d files were found", files)
	}
}

// checkPure fails the test for functions of package time that read a clock or wait, and for goroutines and selects.
func checkPure(t *testing.T, name string, file *ast.File) {
	t.Helper()
	harmless := map[string]bool{"Duration": true, "Millisecond": true, "Second": true, "Minute": true, "Nanosecond": true, "Time": true, "UnixMilli": true}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && !harmless[n.Sel.Name] {
				t.Errorf("%s uses time.%s", name, n.Sel.Name)
			}
		case *ast.GoStmt, *ast.SelectStmt:
			t.Errorf("%s starts goroutines or selects", name)
		}
		return true
	})
}
