package history

import "time"

// Check judges what was recorded so far. timeout bounds, in the time of the caller, the search for an order of what happened; what is not decided by
// then is a violation, and 0 is no bound. In fake time, where no time passes while goroutines work, the search is bounded by its steps alone.
func (h *History) Check(timeout time.Duration) *Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	var deadline time.Time
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
	}
	return h.check(deadline, stepsPerPiece)
}

// check bounds the search in each piece by steps, too.
func (h *History) check(deadline time.Time, steps int64) *Report {
	f := h.order.clone()
	l := h.logbook()
	l.markBeginning()
	l.checkIndexes(f)
	r := newReplay(f, h)
	report := &Report{
		Calls: h.calls, Failed: h.failed, Events: len(l.entries), Unseen: l.unseen, Late: l.unseenBefore(),
		SmallestGap: make(map[Ending]time.Duration),
	}
	if !h.forked { // without one log there is nothing to set the calls against
		r.run(l)
		j := &judge{
			History: h, findings: f, log: l, replay: r,
			given: make(map[string]*claimCall), unlockedAt: make(map[string]instant), closedAt: make(map[int64]instant),
		}
		j.all(report, deadline, steps)
	}
	report.Violations, report.Found = f.list, f.found
	return report
}

func (j *judge) all(report *Report, deadline time.Time, steps int64) {
	j.openings()
	j.closings()
	j.acquisitions()
	j.unlocks()
	j.handOvers()
	j.proclamations()
	settled := j.log.settle(j.findings)
	j.resizes()
	j.leaders()
	j.beliefs()
	j.company(report.SmallestGap)
	report.Tally = j.replay.tally
	report.Grants = len(j.replay.granted)
	for _, c := range j.replay.granted {
		if j.given[c.ID] == nil {
			report.Abandoned++
		}
	}
	if settled {
		j.linearizability(deadline, steps)
	}
}

// linearizability checks the names whose log obeys the rules; of the others there is no state to read.
func (j *judge) linearizability(deadline time.Time, steps int64) {
	reads := make(map[string][]*read)
	for i := range j.reads {
		r := &j.reads[i]
		if r.lock == "" {
			j.refusedSet(r)
			continue
		}
		reads[r.lock] = append(reads[r.lock], r)
		j.replay.queue(r.lock)
	}
	for _, name := range j.replay.names {
		q := j.replay.queues[name]
		if !q.broken && q.checkReads(reads[name], j.findings) {
			q.linearizable(reads[name], deadline, steps, j.findings)
		}
	}
}

// refusedSet: a try for several names was refused without one of them being named. Whoever is told as the holder must have held one meanwhile.
func (j *judge) refusedSet(r *read) {
	c := j.replay.claims[r.asked]
	if c == nil {
		j.add(AskedRule, "%v: nobody asked for it", r.call)
		return
	}
	for _, name := range c.Names {
		if q := j.replay.queue(name); q.broken || q.possible(r) {
			return
		}
	}
	j.add(Linearizable, "%v; none of %q can have shown that", r, c.Names)
}
