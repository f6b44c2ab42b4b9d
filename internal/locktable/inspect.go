package locktable

// Inspect shows one name: who holds it and who waits. It changes nothing.
func (t *Table) Inspect(name string) Info {
	info := Info{Name: name, Waiting: t.waiters(name), Index: t.index, Rev: t.counter}
	t.queue.Ascend(queueEntry{name: name}, func(e queueEntry) bool {
		switch {
		case e.name != name:
			return false
		case e.claim.token != 0:
			info.Holders = append(info.Holders, e.claim.holder())
		case len(info.Waiters) < MaxInspect:
			info.Waiters = append(info.Waiters, e.claim.waiter())
		default:
			return false
		}
		return true
	})
	return info
}
