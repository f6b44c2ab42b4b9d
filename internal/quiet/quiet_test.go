package quiet

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestLimiter(t *testing.T) {
	now := time.Unix(1000, 0)
	var l Limiter
	if !l.Allow("a", now) || l.Allow("a", now.Add(Every-1)) || !l.Allow("b", now) || !l.Allow("a", now.Add(Every)) {
		t.Error("not one line per subject and interval")
	}
	for i := range 2 * maxSubjects {
		l.Allow(fmt.Sprint(i), now)
	}
	if len(l.last) > maxSubjects {
		t.Errorf("%d subjects", len(l.last))
	}
}

func TestLoggerRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := Logger(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Debug})).Named("raft").With("node", 1)
		for range 100 {
			l.Error("failed to heartbeat to", "peer", "a", "error", "refused")
			l.Error("failed to heartbeat to", "peer", "b", "error", "refused")
			l.Info("entering follower state")
			time.Sleep(300 * time.Millisecond)
		}
		got := out.String()
		for want, n := range map[string]int{"peer=a": 1, "peer=b": 1, "[WARN]": 2, "[ERROR]": 0, "[INFO]": 100} {
			if have := strings.Count(got, want); have != n {
				t.Errorf("%d lines with %q, want %d", have, want, n)
			}
		}
		time.Sleep(Every)
		l.Warn("failed to heartbeat to", "peer", "a")
		if n := strings.Count(out.String(), "peer=a"); n != 2 {
			t.Errorf("after a while there are %d lines about a, want 2", n)
		}
	})
}
