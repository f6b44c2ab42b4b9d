package locktable

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// recording is a run written down: each command with its place in the log and what came of it.
type recording []scripted

type scripted struct {
	index, term uint64
	c           *Command
	counter     Rev    // before the command
	base        uint64 // the index to which the command's RenewIndex refers
	result      Result
	effects     Effects
}

// base is the index that a sound command would name for its compare-and-set.
func (g *chaos) base(c *Command) uint64 {
	switch c.Op {
	case OpExpire:
		return g.renewed[c.Session]
	case OpDrained:
		for _, d := range slices.Backward(g.past) {
			if d.Grant == c.Rev {
				return d.Index
			}
		}
	}
	return c.RenewIndex
}

func (s recording) String() string {
	var b strings.Builder
	for _, e := range s {
		fmt.Fprintf(&b, "%6d term %d  %s  -> %v\n", e.index, e.term, describe(e.c), e.result.Code)
	}
	return b.String()
}

// describe is a command without its empty fields.
func describe(c *Command) string {
	var b strings.Builder
	b.WriteString(c.Op.String())
	v := reflect.ValueOf(*c)
	for i := 1; i < v.NumField(); i++ {
		if f := v.Field(i); !f.IsZero() {
			fmt.Fprintf(&b, " %s=%v", v.Type().Field(i).Name, f)
		}
	}
	return b.String()
}

// shrink leaves out whatever a failing script can do without: halves first, single commands at last, until nothing more can go. What it returns
// tells the commands and answers of its own last run.
func shrink(s recording, l limits, tamper func(*Command, *Result)) recording {
	short, err := replay(s, l, tamper)
	if err == nil {
		return s // it failed before for a reason that does not lie in the script: shown as it was
	}
	for size := len(short) / 2; size > 0; {
		again := false
		for at := 0; at < len(short); {
			less := slices.Delete(slices.Clone(short), at, min(at+size, len(short)))
			if less, err := replay(less, l, tamper); err != nil {
				short, again = less, true
			} else {
				at += size
			}
		}
		if !again || size > 1 {
			size /= 2
		}
	}
	return short
}

// replay applies a script with commands left out. What remains is made to mean the same as before: sessions, tokens and indexes that came from the
// log are those of this run. It returns the run as far as it failed.
func replay(s recording, l limits, tamper func(*Command, *Result)) (recording, error) {
	tr, names := newTrial(l), newRenaming(s)
	tr.tamper = tamper
	var run recording
	for _, e := range s {
		was := e.result
		e.c, e.counter, e.base = names.command(&e)
		var err error
		e.result, e.effects, err = tr.apply(e.index, e.term, e.c)
		run = append(run, e)
		if err != nil {
			return run, err
		}
		names.learn(was, &e)
	}
	return run, nil
}

// request names a claim independently of the token that it is granted.
type request struct {
	session SessionID
	seq     uint64
}

// values are what a run gave a claim.
type values struct {
	token      Token
	rev, grant Rev
}

// renaming maps what the counter and the log gave in one run to what they give in another.
type renaming struct {
	sessions map[SessionID]SessionID
	was, is  map[request]values // in the run as written down, and in this one
	tokens   map[Token]request  // in the run as written down: the first claim that had the token
	revs     map[Rev]request    // there too: the claim that an event told of
	renewed  map[SessionID]uint64
	drains   map[Rev]uint64
	founded  map[Rev]Rev // quarantines, there and here
	counter  Rev
	copies   map[*Command]*Command // a request sent again is still the same request
}

func newRenaming(s recording) *renaming {
	n := &renaming{
		sessions: map[SessionID]SessionID{}, was: map[request]values{}, is: map[request]values{},
		tokens: map[Token]request{}, revs: map[Rev]request{},
		founded: map[Rev]Rev{}, renewed: map[SessionID]uint64{}, drains: map[Rev]uint64{}, copies: map[*Command]*Command{},
	}
	for _, e := range s {
		for _, ev := range e.effects.Events {
			note(n.was, ev)
			n.revs[ev.Rev] = request{ev.Session, ev.Seq}
			if _, known := n.tokens[ev.Token]; !known && ev.Kind == EventGranted {
				n.tokens[ev.Token] = request{ev.Session, ev.Seq}
			}
		}
	}
	return n
}

// note takes from an event what it tells of its claim.
func note(of map[request]values, e Event) {
	r := request{e.Session, e.Seq}
	v := of[r]
	if v.rev == 0 {
		v.rev = e.Rev
	}
	if e.Kind == EventGranted && v.grant == 0 {
		v.token, v.grant = e.Token, e.Rev
	}
	of[r] = v
}

// now is what this run gave the claim that is r in the run as written down.
func (n *renaming) now(r request) values {
	if id, ok := n.sessions[r.session]; ok {
		r.session = id
	}
	return n.is[r]
}

// token is the token for this run. Readers of one phase share theirs, so it is that of the claim which the command names, if it names one.
func (n *renaming) token(c *Command) Token {
	r := request{cmp.Or(c.From, c.Session), c.Of}
	if n.was[r].token != c.Token {
		r = n.tokens[c.Token]
	}
	return cmp.Or(n.now(r).token, c.Token)
}

// rev is the create revision or the grant for this run.
func (n *renaming) rev(rev Rev) Rev {
	if q, ok := n.founded[rev]; ok {
		return q
	}
	r := n.revs[rev]
	switch was := n.was[r]; rev {
	case was.grant:
		return cmp.Or(n.now(r).grant, rev)
	case was.rev:
		return cmp.Or(n.now(r).rev, rev)
	}
	return rev
}

// command is the command for this run, with the counter and the compare-and-set index as they are in it.
func (n *renaming) command(e *scripted) (c *Command, counter Rev, base uint64) {
	if c, ok := n.copies[e.c]; ok {
		return c, n.counter, n.base(c)
	}
	next := *e.c
	next.Token = n.token(e.c)
	if next.Op == OpDrained || next.Op == OpHandOver {
		next.Rev = n.rev(next.Rev)
	}
	next.Session = cmp.Or(n.sessions[next.Session], next.Session)
	next.From = cmp.Or(n.sessions[next.From], next.From)
	if next.Since > 0 {
		next.Since = max(0, next.Since+n.counter-e.counter)
	}
	if base = n.base(&next); next.Op == OpExpire || next.Op == OpDrained {
		next.RenewIndex += base - e.base
	}
	n.copies[e.c] = &next
	return &next, n.counter, base
}

func (n *renaming) base(c *Command) uint64 {
	switch c.Op {
	case OpExpire:
		return n.renewed[c.Session]
	case OpDrained:
		return n.drains[c.Rev]
	}
	return c.RenewIndex
}

func (n *renaming) learn(was Result, e *scripted) {
	if was.Session != 0 && e.result.Session != 0 {
		n.sessions[was.Session] = e.result.Session
	}
	if e.c.Op == opRefound {
		n.counter, n.founded[was.Rev] = e.result.Rev, e.result.Rev
	}
	for _, ev := range e.effects.Events {
		n.counter = ev.Rev
		note(n.is, ev)
	}
	for _, r := range e.effects.Renewed {
		n.renewed[r.Session] = r.Index
	}
	for _, d := range e.effects.Drains {
		if d.Index != 0 {
			n.drains[d.Grant] = d.Index
		}
	}
}

// TestShrink plants a wrong answer that needs four commands before it: an unlock of a hold that was released by force. The shrunk recording must
// have those, and nothing else.
func TestShrink(t *testing.T) {
	owner, forced := map[Token]SessionID{}, map[Token]bool{}
	tamper := func(c *Command, r *Result) {
		switch {
		case c.Op == OpFound && r.Code == CodeOK: // a new run
			clear(owner)
			clear(forced)
		case c.Op == OpClaim && r.Code == CodeGranted:
			owner[r.Token] = c.Session
		case c.Op == OpForce && r.Code == CodeOK:
			forced[c.Token] = true
		case c.Op == OpUnlock && r.Code == CodeNotHeld && forced[c.Token] && owner[c.Token] == c.Session:
			r.Code = CodeReleased
		}
	}
	const seed = 44 // the fault shows soon: a script that is shrunk is replayed for each thing left out
	sound, err := explore(seed, perSeed/4, tally{})
	if err != nil {
		t.Fatal(err)
	}
	failed, err := replay(sound, limitsOf(seed), tamper)
	if err == nil {
		t.Fatal("the planted fault never showed")
	}
	short := shrink(failed, limitsOf(seed), tamper)
	var ops []Op
	for _, e := range short {
		ops = append(ops, e.c.Op)
	}
	if want := []Op{OpFound, OpOpen, OpClaim, OpForce, OpUnlock}; !slices.Equal(ops, want) {
		t.Errorf("%d commands shrunk to %d:\n%v", len(failed), len(short), short)
	}
	again, err := replay(sound, limitsOf(seed), nil)
	if err != nil || again.String() != sound.String() {
		t.Errorf("a replay of all commands is another run: %v", err)
	}
}
