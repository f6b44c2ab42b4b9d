package quorumlock

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestSlogLogger(t *testing.T) {
	var out bytes.Buffer
	l := SlogLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	part := l.Named("raft")
	part.Warn("lost a peer", "peer", "a", "why", hclog.Fmt("after %d s", 3))
	part.Debug("not wanted")
	l.Info("plain")
	got := out.String()
	for _, want := range []string{`level=WARN msg="lost a peer" part=raft peer=a why="after 3 s"`, "level=INFO msg=plain\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "not wanted") {
		t.Errorf("debug was logged:\n%s", got)
	}
}
