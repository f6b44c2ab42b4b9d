package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// childEnv names the directory in which a re-executed test binary writes entries until it is killed; segmentsEnv, if set, has it keep
// them in segments.
const (
	childEnv    = "QUORUMLOCK_STORE_CHILD"
	segmentsEnv = "QUORUMLOCK_STORE_SEGMENTS"
)

// runChild appends batches for ever and prints the last index of each once it is acknowledged.
func runChild(dir string) int {
	s, err := Open(context.Background(), Options{Dir: dir, Segments: os.Getenv(segmentsEnv) != "", Cluster: "c"})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	next, err := s.Logs().LastIndex()
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	for {
		batch := entries(next+1, next+1+next%5)
		next += uint64(len(batch))
		if err := s.Logs().StoreLogs(batch); err != nil {
			fmt.Println("error", err)
			return 1
		}
		fmt.Println("acknowledged", next)
	}
}

// TestKilledProcess kills a process that writes, over and over in one directory: whatever it has acknowledged is there, intact,
// and the lock is free at once.
func TestKilledProcess(t *testing.T) {
	for form, env := range map[string]string{"bolt": "", "segments": "1"} {
		t.Run(form, func(t *testing.T) {
			dir := t.TempDir()
			var acknowledged uint64
			for round := range 3 {
				acknowledged = killChild(t, dir, segmentsEnv+"="+env, 20+20*round)
				s := mustOpen(t, Options{Dir: dir, Cluster: "c"})
				last, err := s.Logs().LastIndex()
				if err != nil || last < acknowledged {
					t.Fatalf("last index %d, %v; acknowledged was %d", last, err, acknowledged)
				}
				wantLog(t, s, 1, last)
				mustClose(t, s)
			}
			if acknowledged < 100 {
				t.Fatalf("only %d entries were written: the test tests nothing", acknowledged)
			}
			if _, err := os.Stat(filepath.Join(dir, "log")); (err == nil) != (env != "") {
				t.Errorf("a directory of its own for the log: %v", err)
			}
		})
	}
}

// killChild runs a child until it has acknowledged so many batches, kills it, and returns the last index it acknowledged.
func killChild(t *testing.T, dir, env string, batches int) uint64 {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir, env)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var last uint64
	lines := bufio.NewScanner(out)
	for n := 1; lines.Scan(); n++ {
		index, ok := strings.CutPrefix(lines.Text(), "acknowledged ")
		if !ok {
			t.Errorf("child: %s", lines.Text())
			continue
		}
		if last, err = strconv.ParseUint(index, 10, 64); err != nil {
			t.Error(err)
		}
		if n == batches {
			if err := cmd.Process.Kill(); err != nil { // and read on: what it printed before it died counts too
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("child ended by itself")
	}
	return last
}
