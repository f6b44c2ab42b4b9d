// Package quiet keeps repeated complaints out of the host's log: a peer that is down for a day is one line in half a minute, not ten
// a second.
package quiet

import (
	"sync"
	"time"
)

const (
	// Every is how often one subject may be logged.
	Every = 30 * time.Second

	maxSubjects = 1_024
)

// Limiter lets one line per subject pass in Every. The zero value is ready; it is safe for concurrent use.
type Limiter struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// Allow says whether the subject may be logged now.
func (l *Limiter) Allow(subject string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.last[subject]; ok && now.Sub(at) < Every {
		return false
	}
	if l.last == nil {
		l.last = make(map[string]time.Time)
	}
	if len(l.last) >= maxSubjects {
		l.forget(now)
	}
	l.last[subject] = now
	return true
}

// forget makes room: by what could be logged again anyway, or else by everything, which costs some repeated lines.
func (l *Limiter) forget(now time.Time) {
	for subject, at := range l.last {
		if now.Sub(at) >= Every {
			delete(l.last, subject)
		}
	}
	if len(l.last) >= maxSubjects {
		clear(l.last)
	}
}
