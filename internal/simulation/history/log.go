package history

import (
	"cmp"
	"slices"
)

// entry is one event of the log, with the instants between which it was committed.
type entry struct {
	*sighting
	commit span
	unseen bool // the revision before it was seen by nobody
}

// logbook is what all observers together saw, in revision order.
type logbook struct {
	entries []entry
	unseen  int // revisions between the first and the last that nobody saw
}

func (h *History) logbook() *logbook {
	l := &logbook{entries: make([]entry, 0, len(h.seen))}
	for _, s := range h.seen {
		l.entries = append(l.entries, entry{sighting: s, commit: span{ever, s.first}})
	}
	slices.SortFunc(l.entries, func(a, b entry) int { return cmp.Compare(a.Rev, b.Rev) })
	for i := 1; i < len(l.entries); i++ {
		if missing := l.entries[i].Rev - l.entries[i-1].Rev - 1; missing > 0 {
			l.entries[i].unseen = true
			l.unseen += int(missing)
		}
	}
	return l
}

// checkIndexes finds log indexes that fall between events that no single observer saw one after the other.
func (l *logbook) checkIndexes(f *findings) {
	for i := 1; i < len(l.entries); i++ {
		if a, b := &l.entries[i-1], &l.entries[i]; b.Index < a.Index && a.by != b.by {
			f.add(WatchOrder, "revision %d has log index %d for %s, revision %d has %d for %s", a.Rev, a.Index, a.by, b.Rev, b.Index, b.by)
		}
	}
}

// find is the position of a revision, or where it would stand.
func (l *logbook) find(rev int64) (int, bool) {
	return slices.BinarySearchFunc(l.entries, rev, func(e entry, rev int64) int { return cmp.Compare(e.Rev, rev) })
}

// blind says that nobody saw the revision although the run went past it: what it was is not known. Beyond the last revision seen nothing may be, as
// the run has to wait until all has been seen.
func (l *logbook) blind(rev int64) bool {
	i, seen := l.find(rev)
	return !seen && i < len(l.entries) && (i > 0 || l.unseenBefore())
}

// unseenBefore says that the log began before the observers did: somebody uses a session that is older than the first event.
func (l *logbook) unseenBefore() bool { return len(l.entries) > 0 && l.entries[0].unseen }

// markBeginning finds out whether the observers were there from the beginning. Nothing can happen to a lock before a session is opened,
// and whatever happens names one, so something that matters was missed exactly if a session older than the first event is ever named.
func (l *logbook) markBeginning() {
	if len(l.entries) == 0 {
		return
	}
	first := l.entries[0].Rev
	l.entries[0].unseen = slices.ContainsFunc(l.entries, func(e entry) bool { return e.Session != 0 && e.Session < first })
}

// cause notes that a call brought about the event: it was committed while the call ran.
func (e *entry) cause(c *call) {
	e.commit.from = max(e.commit.from, c.from)
	e.commit.to = min(e.commit.to, c.to)
}

// settle draws the spans together: entries are committed one after the other, and all revisions of one at once. A span that is left empty is a
// contradiction between the order of the log and the order that somebody saw; settle reports it, and says whether there was none.
func (l *logbook) settle(f *findings) bool {
	groups := l.groups()
	good := true
	to, by := never, &entry{}
	for _, g := range slices.Backward(groups) {
		for i := range g {
			if g[i].commit.to <= to {
				to, by = g[i].commit.to, &g[i]
			}
		}
		for i := range g {
			g[i].commit.to = to
			if from := g[i].commit.from; from > to {
				good = false
				f.add(Linearizable, "revision %d (%s) was caused by a call that began at %v, but revision %d had been seen by %v",
					g[i].Rev, describe(&g[i].Event), from, by.Rev, to)
			}
		}
	}
	from := ever
	for _, g := range groups {
		for i := range g {
			from = max(from, g[i].commit.from)
		}
		for i := range g {
			g[i].commit.from = from
		}
	}
	return good
}

// groups are the revisions of each log entry.
func (l *logbook) groups() (list [][]entry) {
	for rest := l.entries; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Index == rest[0].Index {
			n++
		}
		list = append(list, rest[:n])
		rest = rest[n:]
	}
	return list
}
