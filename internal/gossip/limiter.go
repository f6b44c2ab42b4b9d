package gossip

import (
	"sync"
	"time"
)

const (
	logEvery    = 30 * time.Second // for one subject
	maxSubjects = 1_024
)

// limiter lets one log line per subject pass in logEvery, so that a peer that is down for a day does not fill the host's log.
type limiter struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// allow says whether the subject may be logged now.
func (l *limiter) allow(subject string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.last[subject]; ok && now.Sub(at) < logEvery {
		return false
	}
	if l.last == nil {
		l.last = map[string]time.Time{}
	}
	dropOldest(l.last, maxSubjects-1)
	l.last[subject] = now
	return true
}
