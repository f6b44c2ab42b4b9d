//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/guard"
	"github.com/quorumlock/quorumlock/internal/demokit"
)

// asProgram makes the test binary behave as the program that is tested.
const asProgram = "QUORUMLOCK_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	guard.Main()
	switch {
	case os.Getenv(asHeart) != "":
		beat()
	case os.Getenv(asProgram) != "":
		main()
	}
	heedSignals()
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// heedSignals has children start with the signals' usual effects, also where the tests are run by something that ignores them, as nohup does.
func heedSignals() {
	for _, s := range forwarded {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// program starts the program as a process.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// answer is what one run of the program gave.
type answer struct {
	code      int
	out, errs string
	took      time.Duration
}

// call runs the program within this process.
func call(t *testing.T, args ...string) answer {
	t.Helper()
	var out, errs bytes.Buffer
	start := time.Now()
	code := run(t.Context(), args, strings.NewReader(""), &out, &errs)
	a := answer{code: code, out: out.String(), errs: errs.String(), took: time.Since(start)}
	if strings.Count(a.errs, "\n") > 1 {
		t.Errorf("%v: more than one line of errors:\n%s", args, a.errs)
	}
	return a
}

// want fails the test unless the exit code is the one given.
func (a answer) want(t *testing.T, code int) answer {
	t.Helper()
	if a.code != code {
		t.Fatalf("exit code %d, want %d\n%s%s", a.code, code, a.out, a.errs)
	}
	return a
}

// objects decodes what --json printed, one object per line.
func objects[T any](t *testing.T, text string) []T {
	t.Helper()
	var all []T
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	for {
		var v T
		switch err := decoder.Decode(&v); err {
		case nil:
			all = append(all, v)
		case io.EOF:
			return all
		default:
			t.Fatalf("%v in %s", err, text)
		}
	}
}

// cluster is three agents, each a process.
type cluster struct {
	name   string
	addrs  []string
	agents []*exec.Cmd
}

func startCluster(t *testing.T) *cluster { t.Helper(); return startClusterAt(t, "fast") }

func startClusterAt(t *testing.T, timing string) *cluster {
	t.Helper()
	addrs, err := demokit.FreeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	launcher := demokit.NewLauncher()
	t.Cleanup(launcher.Close)
	c := &cluster{name: "cli-test", addrs: addrs}
	var ready []<-chan bool
	for i, addr := range addrs {
		agent := program(t, "agent", "--json", "--timing", timing, "--cluster", c.name, "--name", "web-"+string(rune('1'+i)),
			"--addr", addr, "--join", strings.Join(addrs, ","), "--expect", "3", "--log-level", "warn")
		out, err := agent.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var log demokit.Tail
		agent.Stderr = &log
		if err := launcher.Start(agent); err != nil {
			t.Fatal(err)
		}
		c.agents = append(c.agents, agent)
		told := make(chan bool, 1)
		ready = append(ready, told)
		read := make(chan struct{})
		go func() {
			defer close(read)
			defer close(told)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var v agentView
				if json.Unmarshal(lines.Bytes(), &v) == nil && v.Event == "ready" {
					told <- true
				}
			}
		}()
		t.Cleanup(func() {
			_ = agent.Process.Kill()
			<-read
			_ = agent.Wait()
			if t.Failed() {
				t.Logf("agent %s: %s", addr, log.String())
			}
		})
	}
	for i, told := range ready {
		select {
		case ok := <-told:
			if !ok {
				t.Fatalf("agent %d ended before it was ready", i)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("agent %d is not ready", i)
		}
	}
	return c
}

// flags are how a command finds the cluster.
func (c *cluster) flags(args ...string) []string {
	return append([]string{"--cluster", c.name, "--join", strings.Join(c.addrs, ","), "--timing", "fast"}, args...)
}

func (c *cluster) call(t *testing.T, args ...string) answer {
	t.Helper()
	return call(t, c.flags(args...)...)
}

// signal tells the agents of these numbers.
func (c *cluster) signal(t *testing.T, s syscall.Signal, numbers ...int) {
	t.Helper()
	for _, i := range numbers {
		if err := c.agents[i].Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
}

// leader is the number of the agent that leads.
func (c *cluster) leader(t *testing.T) int {
	t.Helper()
	status := objects[statusView](t, c.call(t, "status", "--json").want(t, codeOK).out)[0]
	for i, addr := range c.addrs {
		if addr == status.Leader.Addr {
			return i
		}
	}
	t.Fatalf("nobody leads: %+v", status)
	return 0
}

// client is a service of Go in this process.
func (c *cluster) client(t *testing.T, name string) *quorumlock.Node {
	t.Helper()
	node, err := quorumlock.Open(t.Context(), quorumlock.Config{
		Cluster: c.name, Name: name, Join: c.addrs, Role: quorumlock.RoleClient, Timing: quorumlock.TimingFast,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := node.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return node
}

// aligned fails the test unless each column begins under its header on every line, behind two spaces at least.
func aligned(t *testing.T, table string) {
	t.Helper()
	lines := strings.Split(strings.TrimRight(table, "\n"), "\n")
	header := []rune(lines[0])
	var starts []int
	for i, r := range header {
		if r != ' ' && (i == 0 || i > 1 && header[i-1] == ' ' && header[i-2] == ' ') {
			starts = append(starts, i)
		}
	}
	if len(starts) < 2 || len(lines) < 2 {
		t.Fatalf("no table:\n%s", table)
	}
	for _, line := range lines[1:] {
		cells := []rune(line)
		for _, start := range starts {
			if start >= len(cells) || cells[start] == ' ' || start > 0 && (cells[start-1] != ' ' || cells[start-2] != ' ') {
				t.Errorf("not aligned at column %d: %q\n%s", start, line, table)
			}
		}
	}
}
