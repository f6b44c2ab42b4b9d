package transport

import (
	"net"
	"slices"
	"sync"
)

const (
	maxPending          = 256 // handshakes at once in all
	maxPendingPerSource = 64
)

// admission bounds the handshakes that run at once. When a bound is passed the OLDEST handshake of the source that uses most is
// shed, not the newcomer: an honest handshake takes milliseconds, a silent one sits for the whole timeout, so shedding newcomers
// would let anybody who opens silent connections lock the others out.
type admission struct {
	mu      sync.Mutex
	total   int
	sources map[string][]*ticket // oldest first
}

type ticket struct {
	source string
	conn   net.Conn
}

func newAdmission() *admission { return &admission{sources: map[string][]*ticket{}} }

// admit enters a connection and returns the one to close for it, if any.
func (a *admission) admit(source string, c net.Conn) (t *ticket, shed net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case len(a.sources[source]) >= maxPendingPerSource:
		shed = a.shedOldest(source)
	case a.total >= maxPending:
		shed = a.shedOldest(a.busiest())
	}
	t = &ticket{source: source, conn: c}
	a.sources[source] = append(a.sources[source], t)
	a.total++
	return t, shed
}

// leave is called once for each admitted ticket; one that was shed is gone already.
func (a *admission) leave(t *ticket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.sources[t.source], t); i >= 0 {
		a.remove(t.source, i)
	}
}

func (a *admission) shedOldest(source string) net.Conn {
	c := a.sources[source][0].conn
	a.remove(source, 0)
	return c
}

func (a *admission) busiest() (source string) {
	most := 0
	for s, list := range a.sources {
		if len(list) > most {
			source, most = s, len(list)
		}
	}
	return source
}

func (a *admission) remove(source string, i int) {
	a.total--
	if list := slices.Delete(a.sources[source], i, i+1); len(list) > 0 {
		a.sources[source] = list
	} else {
		delete(a.sources, source)
	}
}
