package locktable

import (
	"fmt"
	"strings"
)

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, "    "+format+"\n", args...) }

// optional are words that stand in a line only where they say something.
type optional struct{ strings.Builder }

func add[T comparable](o *optional, format string, v T) {
	if v != *new(T) {
		fmt.Fprintf(o, " "+format, v)
	}
}

func (s *script) printResult(r *Result) {
	var b optional
	fmt.Fprintf(&b, "%v index=%d rev=%d", r.Code, r.Index, r.Rev)
	add(&b, "token=%d", r.Token)
	add(&b, "session=%d", r.Session)
	if r.Blocker != nil {
		fmt.Fprintf(&b, " blocker=%s:%d", s.names[r.Blocker.Session], r.Blocker.Token)
	}
	if r.Code == CodeWaiting || r.Code == CodeLocked {
		fmt.Fprintf(&b, " ahead=%d waiters=%d", r.Ahead, r.Waiters)
	}
	add(&b, "drain=%d", r.DrainIndex)
	add(&b, "limit=%d", r.Limit)
	add(&b, "ended=%d", r.Ended)
	if r.Renewed {
		b.WriteString(" renewed")
	}
	add(&b, "(%s)", r.Detail)
	s.printf("-> %s", b.String())
	for _, g := range r.Grants {
		s.printf("   grant seq=%d token=%d", g.Seq, g.Token)
	}
	for _, l := range r.Lost {
		s.printLost(l)
	}
	if r.Info != nil {
		s.printInfo(*r.Info)
	}
	for _, info := range r.Infos {
		s.printf("   %s", info.Name)
		s.printInfo(info)
	}
	for _, v := range r.Sessions {
		s.printf("   session %s of %s ttl=%v opened=%d holding=%d waiting=%d", s.names[v.ID], v.Node, v.TTL, v.Opened, v.Holding, v.Waiting)
	}
	for _, a := range r.Audit {
		s.printAudit(&a)
	}
	if r.More {
		s.printf("   more")
	}
}

func (s *script) printLost(l Lost) {
	if l.Cause == LostLimit {
		s.printf("   lost seq=%d cause=%d rev=%d limit=%d", l.Seq, l.Cause, l.Rev, l.Limit)
		return
	}
	s.printf("   lost seq=%d token=%d cause=%d rev=%d by %s: %s", l.Seq, l.Token, l.Cause, l.Rev, l.Actor, l.Reason)
}

func (s *script) printInfo(info Info) {
	for _, h := range info.Holders {
		var b optional
		fmt.Fprintf(&b, "holder %s token=%d since=%d draining=%v note=%q", s.names[h.Session], h.Token, h.Since, h.Draining, h.Note)
		add(&b, "barred=%v", h.Barred)
		add(&b, "offered=%v", h.Offered)
		add(&b, "%v", h.Mode%Permits) // permits tell of themselves
		add(&b, "permits=%d", h.Count)
		add(&b, "value=%s", h.Value)
		s.printf("   %s", b.String())
	}
	for _, w := range info.Waiters {
		var b optional
		fmt.Fprintf(&b, "waiter %s rev=%d since=%d", s.names[w.Session], w.Rev, w.Since)
		add(&b, "%v", w.Mode%Permits)
		add(&b, "permits=%d", w.Count)
		s.printf("   %s", b.String())
	}
	var b optional
	if info.Limit != 0 {
		fmt.Fprintf(&b, "%d of %d permits, ", info.InUse, info.Limit)
	}
	if info.Holding > 1 {
		fmt.Fprintf(&b, "%d holding, ", info.Holding)
	}
	s.printf("   %s%d waiting, index=%d rev=%d", b.String(), info.Waiting, info.Index, info.Rev)
}

func (s *script) printEffects(eff *Effects) {
	for _, e := range eff.Events {
		var b optional
		fmt.Fprintf(&b, "%d %v", e.Rev, e.Kind)
		add(&b, "%s", e.Name)
		fmt.Fprintf(&b, " %s", s.names[e.Session])
		if e.Seq != 0 {
			fmt.Fprintf(&b, ".%d", e.Seq)
		}
		add(&b, "token=%d", e.Token)
		add(&b, "note=%s", e.Note)
		add(&b, "%v", e.Mode)
		add(&b, "count=%d", e.Count)
		add(&b, "value=%s", e.Value)
		s.printf("%s", b.String())
	}
	for _, id := range eff.Ended {
		s.printf("ended %s", s.names[id])
	}
	for _, d := range eff.Drains {
		s.printf("drain grant=%d index=%d wait=%v", d.Grant, d.Index, d.Wait)
	}
}

func (s *script) state() {
	snap := s.table.Snapshot()
	s.printf("%s", strings.Replace(fmt.Sprintf("%+v", snap.Header()), fmt.Sprintf(" Quarantine:%+v", Quarantine{}), "", 1))
	for r := range snap.Sessions() {
		var b optional
		fmt.Fprintf(&b, "session %s renewed=%d floor=%d", s.names[r.ID], r.RenewIndex, r.Floor)
		add(&b, "inc=%s", r.Incarnation)
		add(&b, "opened=%d", r.Opened)
		s.printf("%s", b.String())
	}
	for r := range snap.Claims() {
		s.printClaim(&r)
	}
	for r := range snap.Finished() {
		s.printf("finished %s.%d %v %v token=%d", s.names[r.Session], r.Seq, r.Op, r.Code, r.Token)
	}
	for r := range snap.Lost() {
		s.printf("lost %s.%d token=%d rev=%d", s.names[r.Session], r.Lost.Seq, r.Lost.Token, r.Lost.Rev)
	}
	for r := range snap.Audit() {
		s.printAudit(&r)
	}
	for r := range snap.Limits() {
		s.printf("limit %s %d former=%d set=%v", r.Name, r.Limit, r.Former, r.Set)
	}
}

func (s *script) printAudit(r *AuditRecord) {
	if r.Act == ActForce {
		s.printf("audit %d %s token=%d now=%v %s: %s", r.Rev, r.Name, r.Token, r.Now, r.Actor, r.Reason)
		return
	}
	s.printf("audit %d act=%d session=%s node=%s now=%v %s: %s", r.Rev, r.Act, s.names[r.Session], r.Node, r.Now, r.Actor, r.Reason)
}

// printClaim tells the place and the grant of a claim only where they are not the create revision and the token.
func (s *script) printClaim(r *ClaimRecord) {
	var b optional
	fmt.Fprintf(&b, "claim %s.%d %s rev=%d token=%d drain=%d", s.names[r.Session], r.Seq, strings.Join(r.Names, ","), r.Rev, r.Token, r.DrainIndex)
	if r.Pos != r.Rev {
		add(&b, "place=%d", r.Pos)
	}
	if r.Grant != Rev(r.Token) {
		add(&b, "grant=%d", r.Grant)
	}
	add(&b, "%v", r.Mode%Permits)
	add(&b, "permits=%d", r.Count)
	add(&b, "value=%s", r.Value)
	add(&b, "delay=%v", r.Delay)
	add(&b, "offered=%v", r.Offer != "")
	add(&b, "barred=%v", r.Barred)
	s.printf("%s", b.String())
}
