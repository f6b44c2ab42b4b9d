package locktable

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func valid() map[Op]Command {
	return map[Op]Command{
		OpFound:   {Op: OpFound, ClusterID: "c", Rev: 1, TTL: time.Minute},
		OpOpen:    {Op: OpOpen, Node: "n", NodeName: "web", TTL: time.Second},
		OpRenew:   {Op: OpRenew, Session: 1, Since: 7},
		OpClose:   {Op: OpClose, Session: 1},
		OpExpire:  {Op: OpExpire, Session: 1, RenewIndex: 3, Term: 2},
		OpClaim:   {Op: OpClaim, Session: 1, Seq: 1, Floor: 1, Names: []string{"a", "b"}, Try: true, Note: "x"},
		OpCancel:  {Op: OpCancel, Session: 1, Seq: 1, Floor: 1},
		OpUnlock:  {Op: OpUnlock, Session: 1, Seq: 1, Floor: 1, Token: 9},
		OpForce:   {Op: OpForce, Names: []string{"a"}, Token: 9, Now: true, Note: "x", Actor: "y"},
		OpDrained: {Op: OpDrained, Token: 9, RenewIndex: 3, Term: 2},
		OpInspect: {Op: OpInspect, Names: []string{"a"}},
		OpBarrier: {Op: OpBarrier},
		OpLevel:   {Op: OpLevel, Level: 2},
	}
}

func TestCheckAccepts(t *testing.T) {
	for op := OpFound; op <= OpLevel; op++ {
		c, ok := valid()[op]
		if !ok {
			t.Fatalf("no example of %v", op)
		}
		if err := Check(&c); err != nil {
			t.Errorf("%v: %v", op, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	long := strings.Repeat("x", MaxNoteLen+1)
	table := rich(t)
	for _, test := range []struct {
		name, field string
		op          Op
		change      func(c *Command)
	}{
		{"unknown operation", "Op", OpClaim, func(c *Command) { c.Op = 200 }},
		{"no operation", "Op", OpClaim, func(c *Command) { c.Op = OpNone }},
		{"no session", "Session", OpClaim, func(c *Command) { c.Session = 0 }},
		{"negative session", "Session", OpRenew, func(c *Command) { c.Session = -1 }},
		{"no sequence", "Seq", OpCancel, func(c *Command) { c.Seq = 0 }},
		{"no names", "Names", OpClaim, func(c *Command) { c.Names = nil }},
		{"empty names", "Names", OpClaim, func(c *Command) { c.Names = []string{} }},
		{"empty name", "Names", OpClaim, func(c *Command) { c.Names = []string{"a", ""} }},
		{"same name twice", "Names", OpClaim, func(c *Command) { c.Names = []string{"a", "b", "a"} }},
		{"long name", "Names", OpClaim, func(c *Command) { c.Names = []string{long[:MaxNameLen+1]} }},
		{"control character", "Names", OpClaim, func(c *Command) { c.Names = []string{"a\u0085"} }},
		{"not UTF-8", "Names", OpClaim, func(c *Command) { c.Names = []string{"a\xff"} }},
		{"too many names", "Names", OpClaim, func(c *Command) { c.Names = make([]string, MaxNames+1) }},
		{"two names to force", "Names", OpForce, func(c *Command) { c.Names = []string{"a", "b"} }},
		{"two names to inspect", "Names", OpInspect, func(c *Command) { c.Names = []string{"a", "b"} }},
		{"unknown mode", "Mode", OpClaim, func(c *Command) { c.Mode = 1 }},
		{"long note", "Note", OpClaim, func(c *Command) { c.Note = long }},
		{"note with a newline", "Note", OpForce, func(c *Command) { c.Note = "a\nb" }},
		{"long actor", "Actor", OpForce, func(c *Command) { c.Actor = long }},
		{"no node", "Node", OpOpen, func(c *Command) { c.Node = "" }},
		{"long node", "Node", OpOpen, func(c *Command) { c.Node = long }},
		{"node name not UTF-8", "NodeName", OpOpen, func(c *Command) { c.NodeName = "\xc3" }},
		{"no TTL", "TTL", OpOpen, func(c *Command) { c.TTL = 0 }},
		{"short TTL", "TTL", OpOpen, func(c *Command) { c.TTL = MinTTL - 1 }},
		{"negative TTL", "TTL", OpFound, func(c *Command) { c.TTL = -time.Hour }},
		{"no token", "Token", OpUnlock, func(c *Command) { c.Token = 0 }},
		{"negative token", "Token", OpDrained, func(c *Command) { c.Token = -5 }},
		{"negative since", "Since", OpRenew, func(c *Command) { c.Since = -1 }},
		{"no first value", "Rev", OpFound, func(c *Command) { c.Rev = 0 }},
		{"negative first value", "Rev", OpFound, func(c *Command) { c.Rev = -1 }},
		{"first value too high", "Rev", OpFound, func(c *Command) { c.Rev = math.MaxInt64 }},
		{"no cluster id", "ClusterID", OpFound, func(c *Command) { c.ClusterID = "" }},
		{"no level", "Level", OpLevel, func(c *Command) { c.Level = 0 }},
		{"field of another operation", "Token", OpClaim, func(c *Command) { c.Token = 1 }},
		{"term on a request", "Term", OpClose, func(c *Command) { c.Term = 1 }},
		{"names on a barrier", "Names", OpBarrier, func(c *Command) { c.Names = []string{"a"} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := valid()[test.op]
			test.change(&c)
			var err *CommandError
			if !errors.As(Check(&c), &err) || err.Field != test.field {
				t.Fatalf("error %v, want one about %s", err, test.field)
			}
			if r := table.Apply(table.index+1, 1, 0, &c, nil); r.Code != CodeMalformed || r.Detail != err.Error() || r.Renewed {
				t.Errorf("Apply answers %+v", r)
			}
		})
	}
}

// TestEveryFieldBelongsSomewhere sets each field alone on a barrier, which allows none.
func TestEveryFieldBelongsSomewhere(t *testing.T) {
	for i, c := range []Command{
		{Session: 1}, {Seq: 1}, {Floor: 1}, {Names: []string{"a"}}, {Mode: 1}, {Try: true}, {Now: true}, {Token: 1}, {Note: "a"},
		{Actor: "a"}, {Node: "a"}, {NodeName: "a"}, {TTL: time.Hour}, {Since: 1}, {RenewIndex: 1}, {Term: 1}, {Rev: 1},
		{ClusterID: "a"}, {Level: 1},
	} {
		c.Op = OpBarrier
		var err *CommandError
		if !errors.As(Check(&c), &err) || err.Field != fieldNames[i] {
			t.Errorf("%s: %v", fieldNames[i], err)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"job": true, "a/b c": true, "schlüssel": true, strings.Repeat("x", MaxNameLen): true,
		"": false, strings.Repeat("x", MaxNameLen+1): false, "a\x00": false, "a\tb": false, "\xff": false, "\u009f": false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestCommandBeforeFounding(t *testing.T) {
	table := New()
	for op, c := range valid() {
		if op == OpFound {
			continue
		}
		if r := table.Apply(1, 1, 0, &c, nil); r.Code != CodeNotFounded {
			t.Errorf("%v: %v", op, r.Code)
		}
	}
	for _, c := range []*Command{nil, {}, {Op: 99}} {
		if r := table.Apply(1, 1, 0, c, nil); r.Code != CodeNotFounded {
			t.Errorf("%+v: %v", c, r.Code)
		}
	}
}
