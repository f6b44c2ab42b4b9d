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
		OpOpen:    {Op: OpOpen, Node: "n", NodeName: "web", TTL: time.Second, Incarnation: "i"},
		OpRenew:   {Op: OpRenew, Session: 1, Since: 7},
		OpClose:   {Op: OpClose, Session: 1, Now: true},
		OpExpire:  {Op: OpExpire, Session: 1, RenewIndex: 3, Term: 2},
		OpClaim:   {Op: OpClaim, Session: 1, Seq: 1, Floor: 1, Names: []string{"a", "b"}, Try: true, Note: "x", Value: "v\n", Delay: time.Second},
		OpCancel:  {Op: OpCancel, Session: 1, Seq: 1, Floor: 1},
		OpUnlock:  {Op: OpUnlock, Session: 1, Seq: 2, Floor: 1, Of: 1, Token: 9, Barring: true},
		OpForce:   {Op: OpForce, Names: []string{"a"}, Session: 1, Token: 9, Now: true, Note: "x", Actor: "y"},
		OpDrained: {Op: OpDrained, Rev: 9, RenewIndex: 3, Term: 2},
		OpInspect: {Op: OpInspect, Names: []string{"a"}},
		OpBarrier: {Op: OpBarrier},
		OpLevel:   {Op: OpLevel, Level: 2},

		OpDowngrade: {Op: OpDowngrade, Session: 1, Seq: 2, Floor: 1, Of: 1, Token: 9, Note: "x"},
		OpProclaim:  {Op: OpProclaim, Session: 1, Seq: 2, Floor: 1, Of: 1, Token: 9, Value: "x\n"},
		OpHandOver:  {Op: OpHandOver, Session: 1, Seq: 2, Floor: 1, Of: 1, Token: 9, Rev: 10},
		OpResize:    {Op: OpResize, Session: 1, Seq: 2, Floor: 1, Names: []string{"a"}, Limit: MaxPermits, Former: MaxPermits - 1},
		OpOffer:     {Op: OpOffer, Session: 1, Seq: 2, Floor: 1, Of: 1, Token: 9, Secret: OfferHash("s")},
		OpAccept:    {Op: OpAccept, Session: 1, Seq: 2, Floor: 1, From: 2, Of: 1, Token: 9, Secret: "s", Note: "x"},
		OpList:      {Op: OpList, Names: []string{"a"}, After: "ab", Count: MaxList},
		OpRestart:   {Op: OpRestart, Node: "n", Incarnation: "i", RenewIndex: 4},
		OpSessions:  {Op: OpSessions, Rev: 9, Count: MaxList},
		OpAudit:     {Op: OpAudit, Rev: 9, Count: MaxList},
		OpEnd:       {Op: OpEnd, Session: 1, Now: true, Note: "x", Actor: "y"},
		OpAct:       {Op: OpAct, Act: ActRemove, Node: "n", NodeName: "m", Note: "x", Actor: "y"},
	}
}

func TestCheckAccepts(t *testing.T) {
	for op := OpFound; op <= OpAct; op++ {
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
		{"unknown mode", "Mode", OpClaim, func(c *Command) { c.Mode = Permits + 1 }},
		{"readers of two names", "Names", OpClaim, func(c *Command) { c.Mode = Shared }},
		{"two semaphores", "Names", OpClaim, func(c *Command) { c.Mode, c.Count, c.Limit = Permits, 1, 1 }},
		{"permits of a lock", "Count", OpClaim, func(c *Command) { c.Count = 1 }},
		{"limit of a lock", "Limit", OpClaim, func(c *Command) { c.Limit = 1 }},
		{"no permits", "Count", OpClaim, func(c *Command) { c.Names, c.Mode, c.Limit = c.Names[:1], Permits, 1 }},
		{"no limit", "Count", OpClaim, func(c *Command) { c.Names, c.Mode, c.Count = c.Names[:1], Permits, 1 }},
		{"more permits than the limit", "Count", OpClaim, func(c *Command) { c.Names, c.Mode, c.Count, c.Limit = c.Names[:1], Permits, 3, 2 }},
		{"limit too high", "Limit", OpResize, func(c *Command) { c.Limit = MaxPermits + 1 }},
		{"former limit too high", "Former", OpResize, func(c *Command) { c.Limit, c.Former = 1, MaxPermits+1 }},
		{"former limit the same", "Former", OpResize, func(c *Command) { c.Former = c.Limit }},
		{"former limit of none", "Former", OpResize, func(c *Command) { c.Limit = 0 }},
		{"long value", "Value", OpProclaim, func(c *Command) { c.Value = strings.Repeat("x", MaxValueLen+1) }},
		{"value not UTF-8", "Value", OpClaim, func(c *Command) { c.Value = "\xff" }},
		{"long delay", "Delay", OpClaim, func(c *Command) { c.Delay = MaxDelay + time.Millisecond }},
		{"negative delay", "Delay", OpClaim, func(c *Command) { c.Delay = -time.Millisecond }},
		{"delay of microseconds", "Delay", OpClaim, func(c *Command) { c.Delay = time.Second + time.Microsecond }},
		{"no claim to unlock", "Of", OpUnlock, func(c *Command) { c.Of = 0 }},
		{"no waiter to hand over to", "Rev", OpHandOver, func(c *Command) { c.Rev = 0 }},
		{"no secret", "Secret", OpAccept, func(c *Command) { c.Secret = "" }},
		{"long secret", "Secret", OpOffer, func(c *Command) { c.Secret = long }},
		{"nobody to accept from", "From", OpAccept, func(c *Command) { c.From = 0 }},
		{"negative giver", "From", OpAccept, func(c *Command) { c.From = -1 }},
		{"list of nothing", "Count", OpList, func(c *Command) { c.Count = 0 }},
		{"list of too many", "Count", OpList, func(c *Command) { c.Count = MaxList + 1 }},
		{"two prefixes", "Names", OpList, func(c *Command) { c.Names = []string{"a", "b"} }},
		{"list after a long name", "After", OpList, func(c *Command) { c.After = long }},
		{"restart at no index", "RenewIndex", OpRestart, func(c *Command) { c.RenewIndex = 0 }},
		{"restart of no start", "Incarnation", OpRestart, func(c *Command) { c.Incarnation = "" }},
		{"page of no sessions", "Count", OpSessions, func(c *Command) { c.Count = 0 }},
		{"page of too many sessions", "Count", OpSessions, func(c *Command) { c.Count = MaxList + 1 }},
		{"page after less than nothing", "Rev", OpAudit, func(c *Command) { c.Rev = -1 }},
		{"end of no session", "Session", OpEnd, func(c *Command) { c.Session = 0 }},
		{"end by nobody", "Actor", OpEnd, func(c *Command) { c.Actor = "" }},
		{"end for nothing", "Note", OpEnd, func(c *Command) { c.Note = "" }},
		{"act of the table's own", "Act", OpAct, func(c *Command) { c.Act = ActEnd }},
		{"drain of nobody", "Node", OpAct, func(c *Command) { c.Act, c.Node = ActDrain, "" }},
		{"unknown act", "Act", OpAct, func(c *Command) { c.Act = lastAct + 1 }},
		{"act on a claim", "Act", OpClaim, func(c *Command) { c.Act = ActRemove }},
		{"long incarnation", "Incarnation", OpOpen, func(c *Command) { c.Incarnation = long }},
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
		{"negative token", "Token", OpForce, func(c *Command) { c.Token = -5 }},
		{"negative since", "Since", OpRenew, func(c *Command) { c.Since = -1 }},
		{"no first value", "Rev", OpFound, func(c *Command) { c.Rev = 0 }},
		{"negative first value", "Rev", OpFound, func(c *Command) { c.Rev = -1 }},
		{"first value too high", "Rev", OpFound, func(c *Command) { c.Rev = math.MaxInt64 }},
		{"no cluster id", "ClusterID", OpFound, func(c *Command) { c.ClusterID = "" }},
		{"no level", "Level", OpLevel, func(c *Command) { c.Level = 0 }},
		{"field of another operation", "Token", OpClaim, func(c *Command) { c.Token = 1 }},
		{"a claim that bars", "Barring", OpClaim, func(c *Command) { c.Barring = true }},
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
		{ClusterID: "a"}, {Level: 1}, {Of: 1}, {Count: 1}, {Limit: 1}, {Value: "a"}, {Delay: time.Second}, {From: 1}, {Secret: "a"}, {After: "a"},
		{Incarnation: "a"}, {Former: 1},
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
