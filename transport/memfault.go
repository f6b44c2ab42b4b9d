package transport

import (
	"syscall"
	"time"
)

// deadHostTimeout is how long the other side of a crashed host's streams takes to give up, if the host does not come back before
// and answers with a reset.
const deadHostTimeout = 20 * time.Second

// Cut stops everything from one host to another, one way.
func (m *Memory) Cut(from, to string) { m.alter(func() { m.cuts.set(from, to, true) }) }

// Heal ends Cut and Isolate for the pairs it names.
func (m *Memory) Heal(from, to string) { m.alter(func() { m.cuts.set(from, to, false) }) }

// HealAll ends every Cut and Isolate. Other faults stay.
func (m *Memory) HealAll() { m.alter(func() { m.cuts = rules[bool]{} }) }

// Isolate cuts a host off from all others, both ways.
func (m *Memory) Isolate(host string) {
	m.alter(func() {
		m.cuts.set(host, "*", true)
		m.cuts.set("*", host, true)
	})
}

// SetDelay makes bytes and datagrams take base plus up to jitter. Streams keep their order, datagrams do not.
func (m *Memory) SetDelay(from, to string, base, jitter time.Duration) {
	m.alter(func() { m.delays.set(from, to, delay{base, jitter}) })
}

// SetLoss drops datagrams with probability p.
func (m *Memory) SetLoss(from, to string, p float64) {
	m.alter(func() { m.losses.set(from, to, p) })
}

// Pause stops a host like SIGSTOP does its process: it neither sends nor receives, and what is on the way is held. (Its
// goroutines go on to run; only the network can be stopped here.)
func (m *Memory) Pause(host string) {
	m.alter(func() { m.eachHost(host, func(h *memHost) { h.paused = true }) })
}

// Resume ends Pause; what was held moves on.
func (m *Memory) Resume(host string) {
	m.alter(func() {
		m.eachHost(host, func(h *memHost) {
			h.paused = false
			parked := h.parked
			h.parked = nil
			for _, f := range parked {
				f()
			}
		})
	})
}

// HoldReplies holds everything that call streams accepted by a host send back, keepalives too, until it is called with false. A
// stream that is held for longer than the keepalive allows is given up by its dialer.
func (m *Memory) HoldReplies(host string, hold bool) {
	m.alter(func() { m.eachHost(host, func(h *memHost) { h.holding = hold }) })
}

// Crash is the sudden death of a host: its endpoints end, bytes it had in flight are lost, and nobody is told. The other sides
// of its streams notice after deadHostTimeout, or when they write after the host listens again. Its ports are free at once.
func (m *Memory) Crash(host string) {
	m.alter(func() {
		m.eachHost(host, func(h *memHost) {
			h.crashed = true
			h.parked = nil
			for _, p := range h.ports {
				p.shut()
			}
		})
		for p := range m.pairs {
			for _, c := range []*memConn{p.dialer, p.acceptor} {
				if matches(host, c.host.name) {
					c.die()
				}
			}
		}
	})
}

// DropConns resets all streams between two hosts, whoever dialled: what is in flight is lost and both ends see a reset.
func (m *Memory) DropConns(a, b string) {
	m.alter(func() {
		for p := range m.pairs {
			x, y := p.dialer.host.name, p.acceptor.host.name
			if matches(a, x) && matches(b, y) || matches(a, y) && matches(b, x) {
				p.dialer.fail(syscall.ECONNRESET)
				p.acceptor.fail(syscall.ECONNRESET)
			}
		}
	})
}

// alter lets everything arrive that was due under the old rules before it changes them.
func (m *Memory) alter(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for p := range m.pairs {
		p.settle(now)
	}
	change()
	m.wake()
}

// wake makes everyone who waits look again.
func (m *Memory) wake() {
	for p := range m.pairs {
		p.cond.Broadcast()
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *Memory) eachHost(pattern string, f func(*memHost)) {
	if pattern != "*" {
		f(m.host(pattern))
		return
	}
	for _, h := range m.hosts {
		f(h)
	}
}

// open tells whether bytes get from one host to another now.
func (m *Memory) open(from, to *memHost) bool {
	return !from.paused && !to.paused && !m.isCut(from, to)
}

func (m *Memory) isCut(from, to *memHost) bool { return m.cuts.get(from.name, to.name) }

func (m *Memory) delay(from, to *memHost) time.Duration {
	d := m.delays.get(from.name, to.name)
	if d.jitter <= 0 {
		return d.base
	}
	return d.base + time.Duration(m.rng.Int64N(int64(d.jitter)))
}

// rules maps pairs of hosts to settings. It keeps patterns instead of pairs, so that hosts made later are covered.
type rules[T any] []rule[T]

type rule[T any] struct {
	from, to string
	value    T
}

func (r *rules[T]) set(from, to string, value T) {
	kept := (*r)[:0]
	for _, old := range *r {
		if !matches(from, old.from) || !matches(to, old.to) { // else the new rule covers it
			kept = append(kept, old)
		}
	}
	*r = append(kept, rule[T]{from, to, value})
}

func (r rules[T]) get(from, to string) (value T) {
	for i := len(r) - 1; i >= 0; i-- {
		wild := r[i].from == "*" || r[i].to == "*"
		if matches(r[i].from, from) && matches(r[i].to, to) && !(wild && from == to) {
			return r[i].value
		}
	}
	return value
}

func matches(pattern, name string) bool { return pattern == "*" || pattern == name }
