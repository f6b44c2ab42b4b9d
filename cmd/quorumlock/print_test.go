package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/transport"
)

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 1234 * time.Microsecond: "1ms", 999 * time.Millisecond: "999ms", 2345 * time.Millisecond: "2.3s",
		42 * time.Second: "42s", 61 * time.Second: "1m01s", 3*time.Hour + 5*time.Minute: "3h05m", 50 * time.Hour: "2d02h",
	} {
		if got := short(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// TestWhatIsPrintedCannotMoveTheCursor: names of nodes and published values come from whoever uses the cluster.
func TestWhatIsPrintedCannotMoveTheCursor(t *testing.T) {
	var out bytes.Buffer
	inv := &invocation{out: &out}
	if err := inv.table([]string{"NAME", "VALUE"}, [][]string{{"a\tb", "\x1b[2Jx\ny"}, {"", "ü"}}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\t") || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("%q", out.String())
	}
	if want := "NAME  VALUE\na\\tb  \\x1b[2Jx\\ny\n-     ü\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestShortenCutsBetweenCharacters(t *testing.T) {
	for most := range 8 {
		if got := shorten("aüüüb", most); strings.ContainsRune(got, '�') {
			t.Errorf("%d: %q", most, got)
		}
	}
}

// TestExitCodes is the documented table.
func TestExitCodes(t *testing.T) {
	wait := func(err error) error { return &quorumlock.WaitError{Op: "inspect", Waiting: "test", Err: err} }
	for _, c := range []struct {
		err  error
		code int
	}{
		{errors.New("some"), codeFailed},
		{&quorumlock.FieldError{Field: "name", Problem: "is bad"}, codeUsage},
		{usage("bad"), codeUsage},
		{&quorumlock.LockedError{Name: "x"}, codeLocked},
		{fmt.Errorf("look: %w", quorumlock.ErrNoLeader), codeNotHeld},
		{quorumlock.ErrUnlocked, codeNotHeld},
		{wait(errors.Join(context.DeadlineExceeded, quorumlock.ErrNoQuorum)), codeNoQuorum},
		{&transport.RefusedError{Code: transport.RefusedCluster}, codeWrongCluster},
		{quorumlock.ErrClusterChanged, codeWrongCluster},
		{releaseRefused(&quorumlock.LockedError{Name: "x"}), codeWrongToken},
		{errDegraded, codeDegraded},
		{fmt.Errorf("restore: %w", quorumlock.ErrSnapshotTruncated), codeTruncated},
		{fmt.Errorf("restore: %w", quorumlock.ErrSnapshotAltered), codeAltered},
		{fmt.Errorf("restore: %w", quorumlock.ErrSnapshotForeign), codeForeign},
		{fmt.Errorf("restore: %w: %w", quorumlock.ErrSnapshotNewer, quorumlock.ErrLevel), codeNewer},
		{fmt.Errorf("restore: %w", quorumlock.ErrSnapshotKey), codeKey},
		{fmt.Errorf("remove: %w", quorumlock.ErrRefused), codeRefused},
		{fmt.Errorf("end session: %w", quorumlock.ErrNoSession), codeNotHeld},
		{&failure{err: context.Canceled, interrupted: true}, codeInterrupted},
	} {
		if code, _ := verdict(c.err); code != c.code {
			t.Errorf("%v gives %d, want %d", c.err, code, c.code)
		}
	}
}

func TestHelpAndCompletion(t *testing.T) {
	var out, errs bytes.Buffer
	inv := func(args ...string) int {
		out.Reset()
		errs.Reset()
		return run(t.Context(), args, strings.NewReader(""), &out, &errs)
	}
	if code := inv("--help"); code != codeOK || errs.Len() > 0 {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	for _, command := range []string{"status", "members", "locks", "inspect", "sessions", "audit", "watch", "release", "session", "transfer-leader", "drain", "undrain", "remove", "snapshot", "recover", "run", "elect", "agent", "bench", "version", "completion"} {
		if !strings.Contains(out.String(), "\n  "+command+" ") {
			t.Errorf("--help does not list %s", command)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code := inv("completion", shell); code != codeOK || out.Len() < 1000 {
			t.Errorf("%s: exit code %d, %d bytes", shell, code, out.Len())
		}
	}
	if code := inv("version", "--json"); code != codeOK || !strings.Contains(out.String(), `"go":"go`) {
		t.Errorf("exit code %d: %s", code, out.String())
	}
	for _, args := range [][]string{{"no-such-command"}, {"status", "--no-such-flag"}, {"inspect"}, {"locks", "a", "b"}, {"status", "--timeout", "0s"}, {"status"}, {"status", "--cluster", "x"}} {
		if code := inv(args...); code != codeUsage || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%v: exit code %d: %s", args, code, errs.String())
		}
	}
}
