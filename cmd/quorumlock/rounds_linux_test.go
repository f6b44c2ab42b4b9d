package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/guard"
)

var wantRounds = flag.Int("rounds", 10, "rounds of TestNothingOutlivesTheLease; all of them are 50")

// roundTTL is little more than what NewSession takes with the fast timing.
const roundTTL = 3 * time.Second

// fault is one way to part the lock from the command.
type fault struct {
	name string
	part string // of the heart
	do   func(r *round) error
	// ends is whether quorumlock run comes to its own end, and with which code.
	ends bool
	code int
	// soon is whether the command has to be gone by the end of the lease as it stood at the fault, and not only by the next grant.
	soon bool
}

var faults = []fault{
	{name: "run is killed", part: heartRoot, soon: true, do: func(r *round) error { return r.run.Process.Kill() }},
	{name: "run is stopped", part: heartRoot, ends: true, code: codeRunLost, soon: true, do: func(r *round) error { return r.run.Process.Signal(syscall.SIGSTOP) }},
	{name: "the guard is killed", part: heartRoot, ends: true, code: codeRunFailed, soon: true, do: func(r *round) error { return syscall.Kill(r.guard, syscall.SIGKILL) }},
	{name: "the guard is stopped, the lock forced", part: heartRoot, ends: true, code: codeRunLost, do: func(r *round) error {
		return errors.Join(syscall.Kill(r.guard, syscall.SIGSTOP), r.force())
	}},
	{name: "the lock is forced", part: heartRoot, ends: true, code: codeRunLost, soon: true, do: (*round).force},
	{name: "the command leaves others behind", part: heartLeaves, ends: true, code: 0, soon: true, do: func(*round) error { return nil }},
}

// partition is for all rounds of a batch at once.
var partition = fault{name: "the members are stopped", part: heartRoot, ends: true, code: codeRunLost, soon: true, do: func(*round) error { return nil }}

// round is one command under a lock, and somebody who waits for the lock.
type round struct {
	c      *cluster
	node   *quorumlock.Node
	name   string
	file   string
	fault  fault
	run    *exec.Cmd
	errs   bytes.Buffer
	guard  int
	token  quorumlock.Token
	began  map[int]time.Duration // the beats before the fault
	at     time.Duration         // of the fault
	exited chan error
}

// TestNothingOutlivesTheLease has real processes run a command of four that ignore every signal, and parts lock and command in every way there is. No beat may
// come after the next grant.
func TestNothingOutlivesTheLease(t *testing.T) {
	c := startCluster(t)
	node := c.client(t, "contender")
	for done, batch := 0, 0; done < *wantRounds; batch++ {
		var rounds []*round
		kinds := faults
		if batch%2 == 1 {
			kinds = slices.Repeat([]fault{partition}, 4)
		}
		for i, f := range kinds {
			r := &round{c: c, node: node, fault: f, name: fmt.Sprintf("round/%d/%d", batch, i), file: filepath.Join(t.TempDir(), "beats"), exited: make(chan error, 1)}
			rounds = append(rounds, r)
			r.start(t)
		}
		playBatch(t, c, rounds, batch%2 == 1)
		if t.Failed() {
			return
		}
		done += len(rounds)
		t.Logf("%d rounds", done)
	}
}

func playBatch(t *testing.T, c *cluster, rounds []*round, cut bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	for _, r := range rounds {
		if err := r.settle(ctx); err != nil {
			t.Errorf("%s: %v: %s", r.fault.name, err, r.errs.String())
		}
	}
	defer func() {
		for _, r := range rounds {
			r.clear()
		}
	}()
	if t.Failed() {
		return
	}
	if cut {
		c.signal(t, syscall.SIGSTOP, 0, 1, 2)
	}
	var playing sync.WaitGroup
	for _, r := range rounds {
		playing.Go(func() {
			if err := r.play(ctx); err != nil {
				t.Errorf("%s: %v: %s", r.fault.name, err, r.errs.String())
			}
		})
	}
	if cut {
		// The members come back when all commands have ended: that they end without an answer is what is tested.
		for _, r := range rounds {
			select {
			case err := <-r.exited:
				r.exited <- err
			case <-ctx.Done():
			}
		}
		c.signal(t, syscall.SIGCONT, 0, 1, 2)
	}
	playing.Wait()
}

func (r *round) start(t *testing.T) {
	t.Helper()
	r.run = program(t, r.c.flags("run", "--ttl", roundTTL.String(), r.name, "--", "env", "-u", asProgram, asHeart+"="+r.file, os.Args[0], r.fault.part)...)
	r.run.Stdout, r.run.Stderr = os.Stderr, &r.errs
	if err := r.run.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.exited <- r.run.Wait() }()
}

// settle waits until the whole heart beats under the lock.
func (r *round) settle(ctx context.Context) error {
	members := heartMembers
	if r.fault.part == heartLeaves {
		members-- // the first one does not beat
	}
	for {
		text, _ := os.ReadFile(r.file)
		if r.began = beats(text); len(r.began) >= members {
			break
		}
		if err := rest(ctx, "heart does not beat"); err != nil {
			return err
		}
	}
	if r.fault.part == heartLeaves {
		return nil
	}
	guards := childrenOf(r.run.Process.Pid)
	if len(guards) != 1 {
		return fmt.Errorf("%d guards", len(guards))
	}
	r.guard = guards[0]
	info, err := r.node.Inspect(ctx, r.name)
	if err != nil {
		return err
	}
	if info.Holding != 1 {
		return fmt.Errorf("not held: %+v", info)
	}
	r.token = info.Holders[0].Token
	return nil
}

func rest(ctx context.Context, why string) error {
	select {
	case <-ctx.Done():
		return errors.New(why)
	case <-time.After(5 * time.Millisecond):
		return nil
	}
}

func (r *round) force() error {
	return r.node.ForceRelease(context.Background(), r.name, r.token, quorumlock.ForceOptions{Actor: "test", Reason: "round"})
}

// play makes the fault and waits for the next grant.
func (r *round) play(ctx context.Context) error {
	r.at = guard.Now().Boot
	if err := r.fault.do(r); err != nil {
		return fmt.Errorf("make fault: %w", err)
	}
	session, err := r.node.NewSession(ctx, 10*time.Second)
	if err != nil {
		return err
	}
	defer session.Close()
	hold, err := quorumlock.NewMutex(session, r.name).Lock(ctx)
	if err != nil {
		return err
	}
	granted := guard.Now().Boot
	defer hold.Unlock()
	text, err := os.ReadFile(r.file)
	if err != nil {
		return err
	}
	if err := r.judge(beats(text), granted); err != nil {
		return err
	}
	after, err := os.ReadFile(r.file)
	if err != nil {
		return err
	}
	if len(after) != len(text) {
		return fmt.Errorf("the file grew by %d bytes after the grant", len(after)-len(text))
	}
	_ = r.run.Process.Signal(syscall.SIGCONT) // if it was stopped, it tells now what became of it
	return r.ended(ctx)
}

func (r *round) judge(last map[int]time.Duration, granted time.Duration) error {
	if r.fault.part != heartLeaves && len(last) != heartMembers {
		return fmt.Errorf("%d members beat", len(last))
	}
	bit := false
	for pid, at := range last {
		if at > granted {
			return fmt.Errorf("process %d beat %v after the next grant", pid, at-granted)
		}
		if limit := r.at + roundTTL*8/10; r.fault.soon && at > limit {
			return fmt.Errorf("process %d beat %v after the end of the lease", pid, at-limit)
		}
		if alive(pid) {
			return fmt.Errorf("process %d is alive after the next grant", pid)
		}
		bit = bit || at >= r.at-100*time.Millisecond
	}
	if !bit && r.fault.part != heartLeaves {
		return errors.New("nothing beat when the fault came")
	}
	return nil
}

// ended checks how quorumlock run came to its end.
func (r *round) ended(ctx context.Context) error {
	if !r.fault.ends {
		return nil
	}
	select {
	case err := <-r.exited:
		r.exited <- err
	case <-ctx.Done():
		return errors.New("quorumlock run does not end")
	}
	if code := r.run.ProcessState.ExitCode(); code != r.fault.code {
		return fmt.Errorf("exit code %d, want %d", code, r.fault.code)
	}
	if r.fault.part == heartLeaves && !strings.Contains(r.errs.String(), "left behind") {
		return errors.New("does not tell what it left behind")
	}
	return nil
}

// clear ends what a round that failed may have left.
func (r *round) clear() {
	_ = r.run.Process.Signal(syscall.SIGCONT)
	_ = r.run.Process.Kill()
	text, _ := os.ReadFile(r.file)
	for _, pid := range slices.Collect(maps.Keys(beats(text))) {
		if alive(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	<-r.exited
}

// alive tells whether a process of the heart is still there and not only waits to be reaped.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X" && bytes.Contains(environ, []byte(asHeart))
}

func childrenOf(pid int) []int {
	var children []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(field); err == nil {
				children = append(children, n)
			}
		}
	}
	return children
}
