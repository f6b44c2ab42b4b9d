package quorumlock

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// SlogLogger gives what Config.Logger wants from a *slog.Logger. Levels map to their namesakes, hclog's trace to slog's
// debug, and the name of the part that speaks becomes the attribute "part".
func SlogLogger(l *slog.Logger) hclog.Logger {
	h := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Off})
	h.RegisterSink(slogSink{l})
	return h
}

type slogSink struct{ logger *slog.Logger }

// Accept implements hclog.SinkAdapter.
func (s slogSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	at := slogLevel(level)
	ctx := context.Background()
	if !s.logger.Enabled(ctx, at) {
		return
	}
	if name != "" {
		args = append([]any{"part", name}, args...)
	}
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			if layout, ok := f[0].(string); ok {
				args[i] = fmt.Sprintf(layout, f[1:]...)
			}
		}
	}
	s.logger.Log(ctx, at, msg, args...)
}

func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Error:
		return slog.LevelError
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Info:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
