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

// List shows the names with any claim on them that begin with prefix and come after the name after, in byte order: at most limit, and no more than fit into
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

// Names are the names with any claim on them that begin with prefix and come after the name after, in byte order, at most limit.
func (t *Table) Names(prefix, after string, limit int) []string {
	var names []string
	at := queueEntry{name: prefix}
	if after >= prefix {
		at = behind(after)
	}
	for len(names) < limit {
		e, ok := t.nextInQueue(at)
		if !ok || !strings.HasPrefix(e.name, prefix) {
			break
		}
		names = append(names, e.name)
		at = behind(e.name)
	}
	return names
}
