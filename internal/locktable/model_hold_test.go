package locktable

import (
	"cmp"
	"slices"
	"strings"
)

// What a model's hold can be asked for, the limits of semaphores, and the reads.

// aboutHold applies a new request that names a hold. Whatever it comes to is remembered, except that a hold which is being drained can only end.
func (m *model) aboutHold(s *modelSession, c *Command) Result {
	from := s.ID
	if c.Op == OpAccept {
		from = c.From
	}
	h := m.live(from, c.Of)
	if h == nil || h.Grant == 0 || h.Token != c.Token || !m.suits(h, c) {
		return m.done(s, c, CodeNotHeld)
	}
	if h.DrainRev != 0 && c.Op != OpUnlock {
		return m.standing(h)
	}
	switch c.Op {
	case OpUnlock:
		if !c.Barring {
			m.retire(h, EventReleased, h.Note)
			return m.done(s, c, CodeReleased)
		}
		m.fail(h, EventReleased, h.Note)
		m.finish(s, h.Seq, OpClaim, CodeCancelled, h.Token)
		m.promote()
		return m.done(s, c, CodeReleased)
	case OpProclaim:
		if changed := h.Value != c.Value; changed {
			h.Value = c.Value
			m.emit(EventValue, h, h.Note)
		}
		return m.done(s, c, CodeOK)
	case OpOffer:
		h.Offer = c.Secret
		return m.done(s, c, CodeOK)
	case OpHandOver:
		return m.handOver(s, h, c)
	}
	next := &ClaimRecord{
		Session: s.ID, Seq: c.Seq, Names: h.Names, Mode: h.Mode, Count: h.Count, Note: c.Note, Value: h.Value, Delay: h.Delay, Created: m.wall,
	}
	if c.Op == OpDowngrade {
		next.Mode = Shared
	}
	m.claims = append(m.claims, next)
	m.move(h, next)
	m.promote()
	return Result{Code: CodeGranted, Rev: next.Rev, Token: next.Token}
}

// suits says whether a hold is of the kind that the request is for.
func (m *model) suits(h *ClaimRecord, c *Command) bool {
	switch c.Op {
	case OpDowngrade:
		return h.Mode == Exclusive && len(h.Names) == 1
	case OpHandOver:
		return h.Mode == Exclusive
	case OpAccept:
		return h.Offer != "" && h.Offer == OfferHash(c.Secret)
	}
	return true
}

func (m *model) done(s *modelSession, c *Command, code Code) Result {
	m.finish(s, c.Seq, c.Op, code, c.Token)
	return Result{Code: code, Token: c.Token}
}

func (m *model) handOver(s *modelSession, h *ClaimRecord, c *Command) Result {
	want := slices.Sorted(slices.Values(h.Names))
	for _, w := range m.claims {
		if w.Rev == c.Rev && w.Grant == 0 && w.Mode == Exclusive && slices.Equal(slices.Sorted(slices.Values(w.Names)), want) {
			m.move(h, w)
			return m.done(s, c, CodeReleased)
		}
	}
	return m.done(s, c, CodeNoWaiter)
}

// move ends a hold and grants the claim next in its place. Readers keep the token of their phase.
func (m *model) move(h, next *ClaimRecord) {
	m.remove(h)
	m.emit(EventReleased, h, h.Note)
	m.finish(m.sessions[h.Session], h.Seq, OpClaim, CodeCancelled, h.Token)
	if next.Rev == 0 {
		next.Rev = m.counter + 1
	}
	next.Pos, next.Grant, next.Granted, next.Token = h.Pos, m.counter+1, m.wall, Token(m.counter+1)
	if h.Mode == Shared {
		next.Token = h.Token
	}
	m.byPlace()
	m.emit(EventGranted, next, next.Note)
}

// resize sets a limit, or forgets that it was set. Claims that wait for more than it end, and their sessions hear of it, or nothing happens at all.
func (m *model) resize(s *modelSession, c *Command) Result {
	name := c.Names[0]
	if m.misused(c.Names, Permits) != "" {
		m.finish(s, c.Seq, OpResize, CodeKind, 0)
		return m.resized(CodeKind, c)
	}
	if c.Limit == 0 {
		if sem := m.semaphores[name]; sem != nil {
			sem.Set = false
		}
		m.forgetSemaphores()
		m.emitEvent(Event{Kind: EventResized, Name: name, Session: s.ID, Node: s.Node, Mode: Permits})
		m.finish(s, c.Seq, OpResize, CodeOK, 0)
		return m.resized(CodeOK, c)
	}
	limits := 0
	for _, sem := range m.semaphores {
		if sem.Set && sem.Name != name {
			limits++
		}
	}
	sem := m.semaphores[name]
	word := map[SessionID]int{}
	var part []*ClaimRecord
	oversized := 0
	for _, w := range m.queue(name) {
		if w.Grant != 0 || w.Count <= c.Limit {
			continue
		}
		oversized++
		if len(m.sessions[w.Session].lost)+word[w.Session] < m.limits.lost {
			word[w.Session]++
			part = append(part, w)
		}
	}
	switch {
	case limits >= m.limits.limits && (sem == nil || !sem.Set):
		return Result{Code: CodeOverloaded, Detail: "too many semaphores with a limit of their own"}
	case len(part) < oversized:
		for _, w := range part {
			m.dropOversized(w, c.Limit)
		}
		m.promote()
		return Result{Code: CodeOverloaded, Detail: "a waiting session has not heard of too many lost claims", More: len(part) > 0}
	case sem == nil:
		sem = &LimitRecord{Name: name, Limit: c.Limit, Former: c.Former}
		m.semaphores[name] = sem
	case sem.Limit != c.Limit:
		sem.Former, sem.Limit = sem.Limit, c.Limit
	case sem.Former == 0:
		sem.Former = c.Former
	}
	sem.Set = true
	m.emitEvent(Event{Kind: EventResized, Name: name, Session: s.ID, Node: s.Node, Mode: Permits, Count: c.Limit})
	for _, w := range part {
		m.dropOversized(w, c.Limit)
	}
	m.finish(s, c.Seq, OpResize, CodeOK, 0)
	m.promote()
	return m.resized(CodeOK, c)
}

func (m *model) dropOversized(w *ClaimRecord, limit uint32) {
	owner := m.sessions[w.Session]
	owner.lost = append(owner.lost, Lost{Seq: w.Seq, Cause: LostLimit, Rev: m.counter + 1, Limit: limit})
	m.remove(w)
	m.emit(EventCancelled, w, w.Note)
	m.finish(owner, w.Seq, OpClaim, CodeCancelled, 0)
}

func (m *model) resized(code Code, c *Command) Result {
	if code == CodeKind {
		return Result{Code: code, Detail: m.misused(c.Names, Permits)}
	}
	return Result{Code: code, Limit: m.limit(c.Names[0])}
}

// again answers a claim that is live.
func (m *model) again(live *ClaimRecord, c *Command) Result {
	if !slices.Equal(live.Names, c.Names) || live.Note != c.Note || live.Mode != c.Mode || live.Count != c.Count || live.Delay != c.Delay ||
		live.Grant == 0 && c.Try {
		return Result{Code: CodeMismatch, Rev: live.Rev, Detail: "the sequence is a live claim with other content"}
	}
	return m.standing(live)
}

func (m *model) standing(live *ClaimRecord) Result {
	switch {
	case live.DrainRev != 0:
		return Result{Code: CodeDraining, Rev: live.Rev, Token: live.Token, DrainIndex: live.DrainIndex}
	case live.Grant != 0:
		return Result{Code: CodeGranted, Rev: live.Rev, Token: live.Token}
	}
	return m.waitingResult(live)
}

func (m *model) waitingResult(c *ClaimRecord) Result {
	r := Result{Code: CodeWaiting, Rev: c.Rev, Blocker: m.blocker(c.Names)}
	for _, name := range c.Names {
		r.Waiters = max(r.Waiters, m.waiters(name))
		n := 0
		for _, other := range m.queue(name) {
			if other.Pos < c.Pos && other.Grant == 0 {
				n++
			}
		}
		r.Ahead = max(r.Ahead, n)
	}
	return r
}

func (m *model) waiters(name string) int {
	return len(slices.DeleteFunc(m.queue(name), func(c *ClaimRecord) bool { return c.Grant != 0 }))
}

func (m *model) holderInfo(c *ClaimRecord) Holder {
	h := Holder{
		Session: c.Session, Node: c.Node, NodeName: c.NodeName, Note: c.Note, Token: c.Token, Since: c.Granted,
		Draining: c.DrainRev != 0 && !c.Barred, Barred: c.Barred, Offered: c.Offer != "" && !c.Barred, Mode: c.Mode, Count: c.Count, Value: c.Value,
	}
	if s := m.sessions[c.Session]; s != nil {
		h.Node, h.NodeName = s.Node, s.NodeName
	}
	return h
}

func (m *model) blocker(names []string) *Holder {
	for _, name := range names {
		if info := m.inspect(name, 1); len(info.Holders) > 0 {
			return &info.Holders[0]
		}
	}
	return nil
}

func (m *model) inspect(name string, most int) Info {
	info := Info{Name: name, Limit: m.limit(name), Index: m.index, Rev: m.counter}
	for _, c := range m.queue(name) {
		h := m.holderInfo(c)
		if c.Grant != 0 {
			info.Holding++
			info.InUse += c.Count
			if len(info.Holders) < most {
				info.Holders = append(info.Holders, h)
			}
			continue
		}
		info.Waiting++
		if len(info.Waiters) < most {
			info.Waiters = append(info.Waiters, Waiter{h.Session, h.Node, h.NodeName, c.Note, c.Rev, c.Created, c.Mode, c.Count})
		}
	}
	return info
}

// list knows no bound in bytes: the texts of random commands never reach it (TestListIsBounded does).
func (m *model) list(c *Command) Result {
	prefix := strings.Join(c.Names, "")
	names := m.names(prefix, c.After, int(c.Count)+1)
	r := Result{Code: CodeOK, More: len(names) > int(c.Count)}
	for _, name := range names[:min(len(names), int(c.Count))] {
		r.Infos = append(r.Infos, m.inspect(name, MaxListed))
	}
	return r
}

func (m *model) grantOf(id SessionID, seq uint64) (Token, bool) {
	if c := m.live(id, seq); c != nil && c.Grant != 0 && c.DrainRev == 0 {
		return c.Token, true
	}
	return 0, false
}

func (m *model) drains() []Drain {
	var all []Drain
	if q := m.quarantine; q.Rev != 0 {
		all = append(all, Drain{q.Rev, q.Wait, q.Index})
	}
	for _, c := range m.claims {
		if c.DrainRev != 0 {
			all = append(all, Drain{c.Grant, m.wait(c), c.DrainIndex})
		}
	}
	slices.SortFunc(all, func(a, b Drain) int { return cmp.Compare(a.Grant, b.Grant) })
	return all
}

func (m *model) names(prefix, after string, limit int) []string {
	var all []string
	for _, c := range m.claims {
		for _, name := range c.Names {
			if strings.HasPrefix(name, prefix) && (after == "" || name > after) {
				all = append(all, name)
			}
		}
	}
	for name := range m.semaphores {
		if strings.HasPrefix(name, prefix) && (after == "" || name > after) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(limit, len(all))]
}
