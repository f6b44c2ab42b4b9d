//go:build unix

package main

import (
	"bytes"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
)

// process runs the program as a process of its own, which a guard needs, and without the variable that would make commands of the test the program too.
func process(t *testing.T, args ...string) answer {
	t.Helper()
	cmd := program(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	_ = cmd.Run()
	return answer{code: cmd.ProcessState.ExitCode(), out: out.String(), errs: errs.String(), took: time.Since(start)}
}

func TestRunEmbedded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string
		errs string
	}{
		{"its exit code is passed on", []string{"x", "--", "sh", "-c", "exit 7"}, 7, "", ""},
		{"and the signal that killed it", []string{"x", "--", "sh", "-c", "kill -9 $$"}, 128 + 9, "", ""},
		{"flags behind the dashes are the command's", []string{"x", "--", "echo", "--json"}, 0, "--json\n", ""},
		{"no command of that name", []string{"x", "--", "no-such-command"}, codeRunNotFound, "", "not found"},
		{"not executable", []string{"x", "--", "/etc/passwd"}, codeRunCannot, "", "permission denied"},
		{"no dashes", []string{"x", "true"}, codeRunFailed, "", "--help"},
		{"no name", []string{"--", "true"}, codeRunFailed, "", "--help"},
		{"a bad name", []string{"a\x01b", "--", "true"}, codeRunFailed, "", "control character"},
		{"a bad flag", []string{"--no-such-flag", "x", "--", "true"}, codeRunFailed, "", "unknown flag"},
		{"a grace longer than the lease", []string{"--grace", "9s", "x", "--", "true"}, codeRunFailed, "", "--grace"},
		{"a signal that is none", []string{"--warn-signal", "NOPE", "x", "--", "true"}, codeRunFailed, "", "NOPE"},
		{"a TTL that is too short", []string{"--ttl", "1ms", "x", "--", "true"}, codeRunFailed, "", "--ttl"},
		{"patience and none", []string{"--try", "--wait", "3s", "x", "--", "true"}, codeRunFailed, "", "try"},
		{"arguments of more than a pipe takes", append([]string{"x", "--", "sh", "-c", "echo $#"}, slices.Repeat([]string{strings.Repeat("a", 100_000)}, 4)...), 0, "3\n", ""},
		{"what it leaves behind is killed", []string{"x", "--", "sh", "-c", "sleep 60 & exit 3"}, 3, "", "left behind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := process(t, append([]string{"run", "--embedded"}, c.args...)...).want(t, c.code)
			if a.out != c.out || !strings.Contains(a.errs, c.errs) || c.errs == "" && c.code < codeRunLost && a.errs != "" {
				t.Errorf("printed %q, and %q to standard error", a.out, a.errs)
			}
			if strings.Count(a.errs, "\n") > 1 {
				t.Errorf("more than one line: %s", a.errs)
			}
		})
	}
	t.Run("the grant is in the environment", func(t *testing.T) {
		t.Parallel()
		a := process(t, "run", "--embedded", "job-x", "--", "env").want(t, 0)
		environ := make(map[string]string)
		for line := range strings.Lines(a.out) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			environ[key] = value
		}
		grant, err := fence.FromEnviron(func(key string) (string, bool) { v, ok := environ[key]; return v, ok })
		if err != nil || grant.Lock != "job-x" || grant.Token == 0 {
			t.Errorf("%+v, %v", grant, err)
		}
		if _, err := time.Parse(time.RFC3339Nano, environ[fence.EnvDeadline]); err != nil {
			t.Error(err)
		}
	})
	t.Run("standard input is the command's", func(t *testing.T) {
		t.Parallel()
		cmd := program(t, "run", "--embedded", "x", "--", "cat")
		cmd.Stdin = strings.NewReader("words")
		if out, err := cmd.Output(); err != nil || string(out) != "words" {
			t.Errorf("%q, %v", out, err)
		}
	})
	t.Run("elect", func(t *testing.T) {
		t.Parallel()
		a := process(t, "elect", "--embedded", "chief", "--", "sh", "-c", "echo $QUORUMLOCK_LOCK; exit 4").want(t, 4)
		if a.out != "chief\n" {
			t.Errorf("printed %q", a.out)
		}
		process(t, "elect", "--embedded", "chief", "--", "no-such-command").want(t, codeRunNotFound)
	})
}

// started starts the program and waits until its command has printed a line.
func started(t *testing.T, args ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd, out, errs := startedWith(t, args...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to standard error: %s", errs)
		}
	})
	return cmd, out
}

// startedWith gives its standard error as well, which is whole once the program was waited for.
func startedWith(t *testing.T, args ...string) (*exec.Cmd, io.Reader, *bytes.Buffer) {
	t.Helper()
	cmd := program(t, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := out.Read(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	return cmd, out, &errs
}

func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	for signal, name := range map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP", syscall.SIGUSR1: "USR1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, out := started(t, "run", "--embedded", "x", "--", "sh", "-c", "trap 'echo got "+name+"; exit 9' "+name+"; echo ready; while :; do sleep 0.05; done")
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			said, _ := io.ReadAll(out)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 9 || string(said) != "got "+name+"\n" {
				t.Errorf("exit code %d, said %q", code, said)
			}
		})
	}
}

// TestRunPassesOnNoIgnoredSignal: where a signal is ignored, as under nohup, it reaches neither the program nor its command.
func TestRunPassesOnNoIgnoredSignal(t *testing.T) {
	t.Parallel()
	cmd := program(t)
	cmd.Args = []string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, cmd.Path, "run", "--embedded", "x", "--", "sh", "-c", "echo ready; read line; echo got $line"}
	cmd.Path = "/bin/sh"
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := out.Read(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "on\n"); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil || string(said) != "got on\n" {
		t.Errorf("%v, said %q", err, said)
	}
}

// TestRunInTheQueue has commands meet a lock that is taken, one that is released, and one whose holder is told to end.
func TestRunInTheQueue(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	holder := c.client(t, "orders-1")
	hold, err := quorumlock.NewMutex(holder, "job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--try", "--wait=300ms"} {
		a := process(t, c.flags("run", flag, "job", "--", "echo", "ran")...).want(t, codeRunNotGranted)
		if a.out != "" || !strings.Contains(a.errs, "orders-1") {
			t.Errorf("%s: printed %q, %q", flag, a.out, a.errs)
		}
	}
	waits := program(t, c.flags("run", "job", "--", "echo", "ran")...)
	var out bytes.Buffer
	waits.Stdout = &out
	if err := waits.Start(); err != nil {
		t.Fatal(err)
	}
	interrupted := program(t, c.flags("run", "job", "--", "echo", "ran")...)
	if err := interrupted.Start(); err != nil {
		t.Fatal(err)
	}
	waiting := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; {
			info, err := holder.Inspect(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			if info.Waiting == n {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d wait", info.Waiting)
			}
		}
	}
	waiting(2)
	_ = interrupted.Process.Signal(syscall.SIGTERM)
	_ = interrupted.Wait()
	if code := interrupted.ProcessState.ExitCode(); code != codeInterrupted {
		t.Errorf("exit code %d", code)
	}
	waiting(1)
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := waits.Wait(); err != nil || out.String() != "ran\n" {
		t.Errorf("%v, printed %q", err, out.String())
	}
	info, err := holder.Inspect(t.Context(), "job")
	if err != nil || info.Holding != 0 {
		t.Errorf("not released: %+v, %v", info, err)
	}

	t.Run("a forced release warns first, and then ends it", func(t *testing.T) {
		cmd, out, errs := startedWith(t, c.flags("run", "--ttl", "3s", "--warn-signal", "USR1", "forced", "--", "sh", "-c",
			"trap 'echo warned' USR1; trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.02; done")...)
		lock := objects[inspectView](t, c.call(t, "inspect", "forced", "--json").want(t, codeOK).out)[0]
		if h := lock.Holders[0]; !strings.Contains(h.Note, "trap") {
			t.Errorf("the note does not tell what runs: %+v", h)
		}
		c.call(t, "release", "forced", "--token", lock.Holders[0].Token, "--reason", "test").want(t, codeOK)
		said, _ := io.ReadAll(out)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != codeRunLost || string(said) != "warned\ntold\n" {
			t.Errorf("exit code %d, said %q", code, said)
		}
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		first, last := lines[0], lines[len(lines)-1] // the shell may speak in between
		if !strings.Contains(first, "released by force by") || !strings.Contains(first, ": test; the command is ended before") ||
			!strings.Contains(last, "was ended: ") || !strings.Contains(last, ": test") {
			t.Errorf("it says of the release %q", errs.String())
		}
	})
	t.Run("elect campaigns again", func(t *testing.T) {
		cmd := program(t, c.flags("elect", "--ttl", "3s", "chief", "--", "sh", "-c", "echo lead; while :; do sleep 0.02; done")...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lead := func() string {
			t.Helper()
			if _, err := io.ReadFull(out, make([]byte, len("lead\n"))); err != nil {
				t.Fatal(err)
			}
			return objects[leaderView](t, c.call(t, "elect", "chief", "--once", "--json").want(t, codeOK).out)[0].Token
		}
		first := lead()
		c.call(t, "release", "chief", "--token", first, "--reason", "test", "--now").want(t, codeOK)
		if second := lead(); second <= first {
			t.Errorf("token %s after %s", second, first)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGTERM) {
			t.Errorf("exit code %d", code)
		}
	})
}
