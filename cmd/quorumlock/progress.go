package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress is a line on a terminal that says how far long work is. The zero value, and nil, show nothing.
type progress struct {
	to    io.Writer // nil: nothing is shown
	what  string
	total int64 // negative: not known
	every time.Duration

	mu    sync.Mutex
	done  int64
	next  time.Time // when it is drawn again
	drawn bool
}

const (
	progressAfter = 300 * time.Millisecond // shorter work needs no line
	progressEvery = 100 * time.Millisecond
	barWidth      = 30
)

// terminal is a writer that says of itself whether somebody looks at it.
type terminal interface{ IsTerminal() bool }

func isTerminal(w io.Writer) bool {
	switch w := w.(type) {
	case terminal:
		return w.IsTerminal()
	case *os.File:
		info, err := w.Stat()
		return err == nil && info.Mode()&os.ModeCharDevice != 0 && w.Name() != os.DevNull && os.Getenv("TERM") != "dumb"
	}
	return false
}

// progress begins a line for work of total bytes; end has to be called.
func (inv *invocation) progress(what string, total int64) *progress {
	p := &progress{what: what, total: total, every: progressEvery, next: time.Now().Add(progressAfter)}
	if !inv.json && isTerminal(inv.errs) {
		p.to = inv.errs
	}
	return p
}

func (p *progress) add(n int) {
	if p == nil || p.to == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += int64(n)
	if now := time.Now(); !now.Before(p.next) {
		p.next = now.Add(p.every)
		p.draw()
	}
}

func (p *progress) draw() {
	p.drawn = true
	line := fmt.Sprintf("%s  %s", p.what, bytesText(p.done))
	if p.total > 0 {
		share := min(float64(p.done)/float64(p.total), 1)
		full := int(share * barWidth)
		line = fmt.Sprintf("%s  [%s%s] %3.0f %%  %s of %s", p.what, strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), share*100, bytesText(p.done), bytesText(p.total))
	}
	fmt.Fprintf(p.to, "\r\x1b[K%s", line)
}

// end wipes the line: what comes next says what became of the work.
func (p *progress) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn && p.to != nil {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
	p.to = nil
}

// bytesText is a size for people.
func bytesText(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/(1<<10), 0
	for units := "KMGT"; value >= 1000 && unit < len(units)-1; unit++ {
		value /= 1 << 10
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGT"[unit])
}

// countingReader and countingWriter tell a progress what passes.
type countingReader struct {
	io.Reader
	p *progress
}

func (r countingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.p.add(n)
	return n, err
}

type countingWriter struct {
	io.Writer
	p *progress
}

func (w countingWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	w.p.add(n)
	return n, err
}
