//go:build unix

package demokit

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Timeline prints one line for each event, with the time since the start. It is safe for concurrent use.
type Timeline struct {
	start  time.Time
	colour bool

	mu  sync.Mutex
	out io.Writer
}

// NewTimeline begins now; it is coloured on a terminal.
func NewTimeline(out io.Writer) *Timeline {
	return &Timeline{start: time.Now(), out: out, colour: isTerminal(out)}
}

// Tone is the colour of an event.
type Tone string

// The tones of events.
const (
	Plain   Tone = ""
	Good    Tone = "\x1b[32m"
	Trouble Tone = "\x1b[33m"
	Fatal   Tone = "\x1b[31m"
	noTone  Tone = "\x1b[0m"
)

// Say prints one line: who does what.
func (t *Timeline) Say(c Tone, who, what, format string, args ...any) {
	at := fmt.Sprintf("+%.1fs", t.Elapsed().Seconds())
	what = fmt.Sprintf("%-13s", what)
	if t.colour && c != Plain {
		what = string(c) + what + string(noTone)
	}
	t.Print(fmt.Sprintf("%7s  %-12s  %s  %s\n", at, who, what, fmt.Sprintf(format, args...)))
}

// Print prints text as it is.
func (t *Timeline) Print(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = io.WriteString(t.out, text)
}

// Elapsed is the time since the start.
func (t *Timeline) Elapsed() time.Duration { return time.Since(t.start) }

// isTerminal is good enough for colours: a character device, unless the user asked for none.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
