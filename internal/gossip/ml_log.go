//go:build !wasip1

package gossip

import (
	"log"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock/internal/quiet"
)

// mlLog is the io.Writer under memberlist's standard logger. memberlist reports each failed probe of a dead peer as an error, for
// days; what a host has to know of it (lost, seen again) is logged by this package once. So its lines go to Debug and its debug
// lines to Trace, except those that tell of a wrong configuration, which are warnings. All are limited by their text
// without its numbers and addresses.
type mlLog struct {
	log     hclog.Logger
	lines   *quiet.Limiter
	watch   *datagramWatch
	foreign *foreigners
	muted   atomic.Bool // after Close: a suspicion timer of memberlist's may still fire
}

func (l *mlLog) logger() *log.Logger { return log.New(l, "", 0) }

// misconfigured are memberlist's words for peers with another key, otherLabel those for datagrams of a cluster of another name.
var misconfigured = []string{"Decrypt packet failed", "encryption is", "No installed keys could decrypt"}

const otherLabel = "unacceptable label"

// Write takes one line.
func (l *mlLog) Write(b []byte) (int, error) {
	if l.muted.Load() {
		return len(b), nil
	}
	level, text := splitLevel(string(b))
	l.watch.line(text, time.Now())
	if strings.Contains(text, otherLabel) {
		l.foreign.take("", "", errOtherName, time.Now())
	}
	if !l.enabled(level) || !l.lines.Allow("memberlist "+subject(text), time.Now()) {
		return len(b), nil
	}
	l.log.Log(level, text)
	return len(b), nil
}

func (l *mlLog) enabled(level hclog.Level) bool {
	have := l.log.GetLevel()
	return have != hclog.Off && (have == hclog.NoLevel || have <= level)
}

// splitLevel takes memberlist's "[LEVEL] memberlist: " off and decides at which level the line goes on.
func splitLevel(line string) (hclog.Level, string) {
	line = strings.TrimSpace(line)
	level := hclog.Debug
	if strings.HasPrefix(line, "[DEBUG]") {
		level = hclog.Trace
	}
	if _, rest, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(line, "[") {
		line = rest
	}
	for _, words := range misconfigured {
		if strings.Contains(line, words) {
			level = hclog.Warn
		}
	}
	return level, strings.TrimPrefix(line, "memberlist: ")
}

// subject is what a line is about, without the ports, times and counters that make each one new.
func subject(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}
