//go:build unix

package demokit_test

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

func TestTailKeepsTheEnd(t *testing.T) {
	const keeps = 4 << 10
	var log demokit.Tail
	for range 3 {
		_, _ = log.Write(bytes.Repeat([]byte("x"), keeps))
	}
	_, _ = log.Write([]byte("end\n"))
	if s := log.String(); len(s) != keeps-1 || !strings.HasSuffix(s, "xend") {
		t.Errorf("%d bytes, ending in %q", len(s), s[max(0, len(s)-8):])
	}
}

func TestPoll(t *testing.T) {
	never := errors.New("still not")
	ctx, cancel := demokit.Within(t.Context(), 3*demokit.PollPause, "no answer")
	defer cancel()
	err := demokit.Poll(ctx, func() error { return never })
	if !errors.Is(err, never) || !strings.HasPrefix(err.Error(), "no answer within") {
		t.Errorf("poll ended with %v", err)
	}
	left := 2
	if err := demokit.Poll(t.Context(), func() error {
		if left--; left > 0 {
			return never
		}
		return nil
	}); err != nil || left != 0 {
		t.Errorf("%v with %d questions left", err, left)
	}
}

func TestFreeAddrs(t *testing.T) {
	addrs, err := demokit.FreeAddrs(10)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, addr := range addrs {
		if seen[addr] {
			t.Errorf("%s is given twice", addr)
		}
		seen[addr] = true
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Errorf("not free: %v", err)
			continue
		}
		_ = l.Close()
	}
}

func TestTimeline(t *testing.T) {
	var out bytes.Buffer
	line := demokit.NewTimeline(&out)
	line.Say(demokit.Good, "worker-a", "holds", "token %d", 7)
	line.Print("done\n")
	if got := out.String(); !strings.HasSuffix(got, "  worker-a      holds          token 7\ndone\n") || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}
