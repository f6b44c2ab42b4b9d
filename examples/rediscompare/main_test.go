//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/servers/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var lastLine = regexp.MustCompile(`^ok: Single Redis lock: (\d+) overlaps, .*; Redlock, 3 servers: (\d+) overlaps; ` +
	`quorumlock, 3 instances: 0 overlaps, 0 fenced updates lost, (\d+) stale writes refused; 8 speeds measured; \d+\.\d s$`)

// TestComparison runs the whole program as a user does, with each fault once.
func TestComparison(t *testing.T) {
	servertest.Redis(t).Stop() // the program needs what this needs
	cmd := program(t, "-rounds", "1", "-for", "200ms")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	t.Logf("\n%s", stdout.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr: %s", stderr.String())
	}
	lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
	m := lastLine.FindStringSubmatch(lines[len(lines)-1])
	if m == nil {
		t.Fatalf("last line %q", lines[len(lines)-1])
	}
	for i, what := range []string{"overlaps of one Redis", "overlaps of Redlock", "refusals of quorumlock's late writes"} {
		if n, _ := strconv.Atoi(m[i+1]); n < 1 {
			t.Errorf("%d %s", n, what)
		}
	}
	nothingLeft(t, cmd)
}

// An interrupt, while servers and workers run and some are stopped, ends all of them.
func TestInterrupt(t *testing.T) {
	servertest.Redis(t).Stop()
	cmd := program(t)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var children []int
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if children == nil && strings.Contains(line, "quorumlock    replicas lag") {
			children = childrenOf(t, cmd.Process.Pid)
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
		if strings.HasPrefix(line, "ok:") {
			t.Error("claims success")
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("ended with %v", err)
	}
	if len(children) < 8 { // five Redis servers, seven workers, less whoever is being restarted
		t.Errorf("only %d children were seen", len(children))
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left behind: %v", pid, err)
		}
	}
	nothingLeft(t, cmd)
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "rediscompare")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(cmd.Environ(), "TMPDIR="+t.TempDir())
	return cmd
}

func nothingLeft(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	dir := strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR=")
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func childrenOf(t *testing.T, parent int) (pids []int) {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) == 2 && f[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(f[0])
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// Without Redis installed the message names the package, whichever part needs it, and nothing is left running.
func TestWithoutRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	for _, part := range []string{kindSingle, kindRedlock, speedPart.name} {
		t.Run(part, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), []string{"-only", part}, strings.NewReader(""), &stdout, &stderr)
			if code != exitUsage || !strings.Contains(stderr.String(), "apt-get install redis-server") {
				t.Errorf("exit code %d, stderr %s", code, stderr.String())
			}
			if strings.Contains(stdout.String(), "ok:") {
				t.Errorf("claims success: %s", stdout.String())
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		code int
		says string
	}{
		"argument":     {"start", exitUsage, `unexpected argument "start"`},
		"no such flag": {"-x", exitUsage, "-x"},
		"no such part": {"-only zookeeper", exitUsage, "must be one of speed, single, redlock, quorumlock"},
		"no round":     {"-rounds 0", exitUsage, "-rounds 0: must lie between 1 and 3"},
		"too long":     {"-for 1h", exitUsage, "-for 1h0m0s: must lie between 100ms and 2s"},
		"help":         {"-h", 0, "-only"},
		"no such kind": {"-worker paper", exitFailed, `no such kind of worker: "paper"`},
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
