//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/servers"
	"github.com/quorumlock/quorumlock/internal/servers/servertest"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// asProgram is the environment variable that makes the test's binary the program, for its children too: so they are all watched by
// the race detector where the test is.
const asProgram = "STORAGE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// TestRuns has the program run to its end as a user does, on each kind of store, all at once: most of the time they wait for a
// TTL. Three rounds are the fewest with both variants: a successor that has written loses three jobs without the fence, one that
// has only claimed undoes the late write.
func TestRuns(t *testing.T) {
	t.Parallel()
	dsn := servertest.Postgres(t).DSN("postgres")
	const oneRound = "ok: stale writes refused 1, lost updates 0 (unfenced control: 3)"
	runs := map[string]*programRun{
		"embedded": begin(t, "ok: stale writes refused 3, lost updates 0 (unfenced control: 7)", "-embedded", "-rounds", "3"),
		"dsn":      begin(t, oneRound, "-dsn", dsn, "-rounds", "1"),
		"private":  begin(t, oneRound, "-private", "-rounds", "1"),
	}
	for name, r := range runs {
		t.Run(name, r.await)
	}
	if n := schemas(t, dsn); n != 0 {
		t.Errorf("%d schemas are left", n)
	}
}

type programRun struct {
	cmd            *exec.Cmd
	last           string // line that is wanted
	stdout, stderr bytes.Buffer
}

func begin(t *testing.T, last string, args ...string) *programRun {
	t.Helper()
	r := &programRun{cmd: program(t, args...), last: last}
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	must(t, r.cmd.Start())
	return r
}

func (r *programRun) await(t *testing.T) {
	err := r.cmd.Wait()
	t.Logf("\n%s", r.stdout.String())
	if err != nil || r.stderr.Len() > 0 {
		t.Fatalf("%v\n%s", err, r.stderr.String())
	}
	if !strings.HasSuffix(r.stdout.String(), "\n"+r.last+"\n") {
		t.Errorf("the last line is not %q", r.last)
	}
	nothingLeft(t, r.cmd)
}

// An interrupt, while one worker stands still and the other waits for the lock, ends all of them and the server.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	servertest.Postgres(t).Stop()
	cmd := program(t, "-private")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var children []int
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if children == nil && strings.Contains(line, "SIGSTOP") {
			children = childrenOf(t, cmd.Process.Pid)
			must(t, cmd.Process.Signal(os.Interrupt))
		}
		if strings.HasPrefix(line, "ok:") {
			t.Error("claims success")
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("ended with %v", err)
	}
	if len(children) != 4 { // the service, two workers and the server
		t.Errorf("%d children were seen", len(children))
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
	binary, err := os.Executable()
	must(t, err)
	tmp, err := os.MkdirTemp("", "storagetest") // which the user that PostgreSQL runs as can pass through
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	must(t, os.Chmod(tmp, 0o711))
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(cmd.Environ(), asProgram+"=1", "TMPDIR="+tmp)
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
	must(t, err)
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) == 2 && f[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(f[0])
			must(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestCommandLine(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		code int
		says string
	}{
		"nothing":      {"", exitUsage, "one of -embedded, -private and -dsn URL"},
		"two places":   {"-embedded -private", exitUsage, "one of -embedded, -private and -dsn URL"},
		"argument":     {"-embedded now", exitUsage, `unexpected argument "now"`},
		"no such flag": {"-x", exitUsage, "-x"},
		"no round":     {"-embedded -rounds 0", exitUsage, "-rounds 0: must lie between 1 and 6"},
		"too many":     {"-embedded -rounds 7", exitUsage, "-rounds 7: must lie between 1 and 6"},
		"help":         {"-h", 0, "-embedded"},
		"no server":    {"-dsn postgres://127.0.0.1:1/x", exitFailed, "connect"},
		"no options":   {"-child", exitFailed, "read options"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), strings.Fields(c.args), strings.NewReader(""), &stdout, &stderr); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(stderr.String(), c.says) {
				t.Errorf("says %q, want %q in it", stderr.String(), c.says)
			}
			if strings.Contains(stdout.String(), "ok:") {
				t.Errorf("claims success: %s", stdout.String())
			}
			if left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// Where PostgreSQL is not installed the exit code says so, and the message names the package.
func TestMissingServer(t *testing.T) {
	err := fmt.Errorf("start PostgreSQL: %w", &servers.MissingError{Program: "initdb", Package: "postgresql"})
	if code := exitCode(err); code != exitUsage || !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Errorf("exit code %d: %v", code, err)
	}
}

// What a child is told on its standard input ends with an answer each, and the child with its input.
func TestRunChild(t *testing.T) {
	addrs, err := demokit.FreeAddrs(1)
	must(t, err)
	options := fmt.Sprintf(`{"Name":"alone","Addr":%q,"Join":[%q],"TTL":%d,"Service":"http://127.0.0.1:1"}`, addrs[0], addrs[0], ttl)
	in := strings.NewReader(options + `{"Verb":"ready"} {"Verb":"dance"} {"Verb":"finish"} {"Verb":"work","Jobs":1}`)
	var out bytes.Buffer
	must(t, runChild(t.Context(), in, &out, io.Discard))
	answers := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{"{}", `{"Voters":1}`, "no such command", "no job has been begun", "connection refused"} {
		if i >= len(answers) || !strings.Contains(answers[i], want) {
			t.Errorf("answer %d is not %s: %s", i, want, out.String())
		}
	}
}
