//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// timeline prints one line for each event, with the time since the start. It is safe for concurrent use.
type timeline struct {
	start  time.Time
	colour bool

	mu  sync.Mutex
	out io.Writer
}

func newTimeline(out io.Writer) *timeline {
	return &timeline{start: time.Now(), out: out, colour: isTerminal(out)}
}

// tone is the colour of an event.
type tone string

const (
	plain   tone = ""
	good    tone = "\x1b[32m"
	trouble tone = "\x1b[33m"
	fatal   tone = "\x1b[31m"
	noTone  tone = "\x1b[0m"
)

func (t *timeline) say(c tone, who, what, format string, args ...any) {
	at := fmt.Sprintf("+%.1fs", time.Since(t.start).Seconds())
	what = fmt.Sprintf("%-13s", what)
	if t.colour && c != plain {
		what = string(c) + what + string(noTone)
	}
	t.print(fmt.Sprintf("%7s  %-12s  %s  %s\n", at, who, what, fmt.Sprintf(format, args...)))
}

func (t *timeline) print(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = io.WriteString(t.out, text)
}

// isTerminal is good enough for colours: a character device, unless the user asked for none.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
