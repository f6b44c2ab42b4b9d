package locktable

import "strings"

// Inspect shows one name: who holds it and who waits. It changes nothing.
func (t *Table) Inspect(name string) Info { return t.inspect(name, MaxInspect) }

// inspect lists at most most holders and as many waiters.
func (s *state) inspect(name string, most int) Info {
	info := Info{Name: name, Waiting: s.waiters(name), Holding: s.holders(name), Index: s.index, Rev: s.counter}
	if u, ok := s.semaphore(name); ok {
		info.Limit, info.InUse = u.limit, u.inUse
	}
	s.eachHolding(name, func(c *claim) bool {
		info.Holders = append(info.Holders, c.holder())
		return len(info.Holders) < most
	})
	s.eachWaiting(name, func(c *claim) bool {
		info.Waiters = append(info.Waiters, c.waiter())
		return len(info.Waiters) < most
	})
	return info
}

// maxPage bounds the answer to OpList by the texts in it; one name always fits.
const maxPage = 256 << 10

// List shows the names in use that begin with prefix and come after the name after, in byte order: at most limit, and no more than fit into
// an answer. more says that there are others behind them.
func (t *Table) List(prefix, after string, limit int) (infos []Info, more bool) {
	size := 0
	for _, name := range t.Names(prefix, after, limit+1) {
		info := t.inspect(name, MaxListed)
		size += info.size()
		if len(infos) == limit || len(infos) > 0 && size > maxPage {
			return infos, true
		}
		infos = append(infos, info)
	}
	return infos, false
}

// size is about how many bytes an Info takes in an answer.
func (i *Info) size() int {
	const fixed = 64 // what has no text, at most
	n := fixed + len(i.Name)
	for _, h := range i.Holders {
		n += fixed + len(h.Node) + len(h.NodeName) + len(h.Note) + len(h.Value)
	}
	for _, w := range i.Waiters {
		n += fixed + len(w.Node) + len(w.NodeName) + len(w.Note)
	}
	return n
}

// Names are the names in use that begin with prefix and come after the name after, in byte order, at most limit. In use are
// those with any claim on them, and semaphores whose limit was set: it keeps the name from locks while nobody claims it.
func (t *Table) Names(prefix, after string, limit int) []string {
	var names []string
	from := prefix
	if after >= prefix {
		from = successor(after)
	}
	for len(names) < limit {
		name, ok := t.nextName(from)
		if !ok || !strings.HasPrefix(name, prefix) {
			break
		}
		names = append(names, name)
		from = successor(name)
	}
	return names
}

// successor is the first of all names after one.
func successor(name string) string { return name + "\x00" }

// nextName is the first name in use from one on. What has a use and no claim is a semaphore whose limit was set.
func (s *state) nextName(from string) (name string, ok bool) {
	e, ok := s.nextInQueue(queueEntry{name: from})
	name = e.name
	s.uses.Ascend(from, func(used string, _ use) bool {
		if !ok || used < name {
			name, ok = used, true
		}
		return false
	})
	return name, ok
}
