package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// demoBound is what the demonstration may take, by its own promise.
const demoBound = 60 * time.Second

var lastLine = regexp.MustCompile(`^ok: (\d+) leaders, tokens strictly rising, (\d+) stale writes refused, (\d+\.\d) s$`)

// TestDemo builds the example as a user does, and runs it once.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three processes and waits for two leases to end")
	}
	checkStory(t, play(t))
}

// play builds the example, runs it to its end, and gives what it printed. It must print no more, and leave nothing behind.
func play(t *testing.T, args ...string) (lines []string) {
	t.Helper()
	if canPause != nil {
		t.Skip(canPause)
	}
	binary := filepath.Join(t.TempDir(), "leader")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), demoBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(cmd.Environ(), "TMPDIR="+t.TempDir())
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
	if left, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR="), "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
}

func checkStory(t *testing.T, lines []string) {
	t.Helper()
	m := lastLine.FindStringSubmatch(lines[len(lines)-1])
	if m == nil {
		t.Fatalf("last line %q", lines[len(lines)-1])
	}
	leaders, _ := strconv.Atoi(m[1])
	refused, _ := strconv.Atoi(m[2])
	if leaders < 3 || refused < 1 {
		t.Errorf("%d leaders, %d refusals", leaders, refused)
	}
	checkEvents(t, lines,
		"quorum formed", "leader", "writes accepted", "pause", "leader", "resume", "write refused", "kill", "leader", "stopped")
}

// checkEvents finds the events in the timeline, in this order; others may stand between them.
func checkEvents(t *testing.T, lines []string, events ...string) {
	t.Helper()
	story := strings.Join(lines, "\n")
	at := 0
	for _, event := range events {
		i := strings.Index(story[at:], "s  "+event)
		if i < 0 {
			t.Fatalf("no %q after:\n%s", event, story[:at])
		}
		at += i + len(event)
	}
}

func TestCommandLine(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		code int
		says string
	}{
		"even":             {"-n 4", exitUsage, "-n 4: must be 3 or 5"},
		"one":              {"-n 1", exitUsage, "-n 1: must be 3 or 5"},
		"short ttl":        {"-ttl 1s", exitUsage, "-ttl 1s: must lie between 5s and 1m0s"},
		"both at once":     {"-n 2 -ttl 2h", exitUsage, "-ttl 2h"},
		"argument":         {"start", exitUsage, `unexpected argument "start"`},
		"no such flag":     {"-x", exitUsage, "-x"},
		"half an instance": {"-addr 127.0.0.1:0", exitUsage, "needs -join, -dir and -ledger"},
		"no directory":     {"-addr 127.0.0.1:0 -join 127.0.0.1:1 -ledger x", exitUsage, "needs -join, -dir and -ledger"},
		"stray leave":      {"-leave", exitUsage, "-leave is for one instance"},
		"stray traffic":    {"-traffic 3", exitUsage, "-traffic is for one instance"},
		"less than none":   {"-traffic -1", exitUsage, "must not be negative"},
		"stray dirs":       {"-dirs", exitUsage, "-dirs is for -deploy"},
		"deploy and keep":  {"-deploy -keep", exitUsage, "-deploy excludes"},
		"stray flag":       {"-dir /tmp/x", exitUsage, "-dir is for one instance"},
		"two modes":        {"-serve 127.0.0.1:0 -addr 127.0.0.1:0", exitUsage, "exclude each other"},
		"help":             {"-h", 0, "-keep"},
		"no such address":  {"-serve 127.0.0.1:x", exitFailed, "serve ledger"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(stderr.String(), c.says) {
				t.Errorf("says %q, want %q in it", stderr.String(), c.says)
			}
			if strings.Contains(stdout.String(), "ok:") {
				t.Errorf("claims success: %s", stdout.String())
			}
		})
	}
}

// An instance whose address is taken must say so by its exit code: the parent starts over with other ports then.
func TestAddressInUse(t *testing.T) {
	addr, release, err := reserve()
	if err != nil || addr == "" {
		t.Fatal(addr, err)
	}
	defer release()
	for flag, args := range map[string][]string{
		"-addr": {"-addr", addr, "-http", loopback},
		"-http": {"-addr", loopback, "-http", addr},
	} {
		t.Run(flag, func(t *testing.T) {
			var stderr bytes.Buffer
			args := append(args, "-join", addr, "-dir", t.TempDir(), "-ledger", "http://"+addr, "-name", "web-1")
			if code := run(t.Context(), args, io.Discard, &stderr); code != exitAddressInUse {
				t.Errorf("exit code %d: %s", code, stderr.String())
			}
		})
	}
}

func TestFreeAddrs(t *testing.T) {
	addrs, err := freeAddrs(10)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, a := range addrs {
		if seen[a] {
			t.Errorf("%s was given twice", a)
		}
		seen[a] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d addresses", len(seen))
	}
}

func TestOutputKeepsWholeLines(t *testing.T) {
	var echo bytes.Buffer
	o := &output{name: "web-1", echo: &echo}
	for _, part := range []string{"one\ntw", "o\n", "", "thr"} {
		if n, err := o.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	const want = "web-1 | one\nweb-1 | two\n"
	if echo.String() != want || strings.Join(o.tail(), "\n")+"\n" != want {
		t.Errorf("echo %q, tail %q", echo.String(), o.tail())
	}
	for range 3 * keptLines {
		_, _ = o.Write([]byte("\n"))
	}
	if n := len(o.tail()); n != keptLines {
		t.Errorf("%d lines kept", n)
	}
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		err := poll(t.Context(), func() error {
			if asked++; asked < 4 {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil || asked != 4 {
			t.Errorf("%v after %d questions", err, asked)
		}
		ctx, cancel := within(t.Context(), time.Second, "no answer")
		defer cancel()
		never := errors.New("still not")
		err = poll(ctx, func() error { return never })
		if !errors.Is(err, never) || !strings.HasPrefix(err.Error(), "no answer within 1s") {
			t.Errorf("poll ended with %v", err)
		}
	})
}

func TestUntilClosed(t *testing.T) {
	r, w := io.Pipe()
	ctx, stop := untilClosed(t.Context(), r)
	defer stop()
	if _, err := w.Write([]byte("input is of no interest\n")); err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
	_ = w.Close()
	<-ctx.Done()
}
