package demokit

import (
	"strings"
	"sync"
)

// Tail keeps the end of what is written to it.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4 << 10

// Write never fails.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
	return len(b), nil
}

// String is what was kept, without space around it.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
