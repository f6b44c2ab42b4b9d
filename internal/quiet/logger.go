package quiet

import (
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Logger passes on what base would get, but of warnings and errors that repeat only one in Every, and none above Warn: what a consensus
// library calls an error (a heartbeat that failed) is the daily life of a cluster. Two lines repeat each other when they have the same words and
// the same peer. Below Warn everything passes.
func Logger(base hclog.Logger) hclog.Logger {
	return &logger{Logger: base, lines: &Limiter{}}
}

// logger overrides what has a level; With and Named keep the limits of the one they come from.
type logger struct {
	hclog.Logger
	lines *Limiter
}

// Log implements hclog.Logger.
func (l *logger) Log(level hclog.Level, msg string, args ...any) {
	switch level {
	case hclog.Warn, hclog.Error:
		l.warn(msg, args)
	default:
		l.Logger.Log(level, msg, args...)
	}
}

// Warn implements hclog.Logger.
func (l *logger) Warn(msg string, args ...any) { l.warn(msg, args) }

// Error implements hclog.Logger.
func (l *logger) Error(msg string, args ...any) { l.warn(msg, args) }

func (l *logger) warn(msg string, args []any) {
	if l.Logger.IsWarn() && l.lines.Allow(subject(msg, args), time.Now()) {
		l.Logger.Warn(msg, args...)
	}
}

// Named implements hclog.Logger.
func (l *logger) Named(name string) hclog.Logger {
	return &logger{Logger: l.Logger.Named(name), lines: l.lines}
}

// ResetNamed implements hclog.Logger.
func (l *logger) ResetNamed(name string) hclog.Logger {
	return &logger{Logger: l.Logger.ResetNamed(name), lines: l.lines}
}

// With implements hclog.Logger.
func (l *logger) With(args ...any) hclog.Logger {
	return &logger{Logger: l.Logger.With(args...), lines: l.lines}
}

// subject is the words and the peer, where there is one.
func subject(msg string, args []any) string {
	for i := 0; i+1 < len(args); i += 2 {
		key, _ := args[i].(string)
		if key == "peer" || key == "to" || strings.HasSuffix(key, "address") {
			return fmt.Sprint(msg, " ", args[i+1])
		}
	}
	return msg
}
