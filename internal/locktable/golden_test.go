package locktable

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/*.txt")

// TestGolden runs the scripts of testdata. A line that begins with a blank is an answer; all others are commands or comments:
//
//	found 100                      the counter's first value; the longest TTL is 60s
//	A = open n1 10s inc=i1         session A of node n1, in its start i1
//	A claim 1 job,other try note=x value=v delay=5s floor=1
//	A claim 1 doc shared | A claim 1 pool permits=2/5
//	A cancel 1 | A unlock 3 A.1 | A renew since=104 | A close now
//	A downgrade 2 A.1 | A proclaim 2 A.1 value=v | A hand-over 2 A.1 B.1 | A resize 2 pool 8 former=4
//	A offer 2 A.1 secret=s | B accept 1 A.1 secret=s
//	expire A index=3 term=1        defaults: the session's present renewal index, the present term
//	restart n1 inc=i1 index=9      default: the log index before this command
//	force job A.1 now session=A note=x actor=y | drained A.1 index=9 term=1
//	end A now note=x actor=y | act 3 node=n1 note=x actor=y
//	sessions 10 rev=105 | audit 10 rev=105
//	refound c2 500                 the state becomes the first one of cluster c2, whose counter is 500 at least
//	drained quarantine index=9     ends its quarantine
//	inspect job | list 10 prefix=a after=b | barrier | level 2 | term 2 | state
//	& A claim ...                  in the same log entry as the command before
//
// A.1 is the claim of session A with sequence 1: its token, its grant or its create revision, as the command wants; ?5 is the literal
// token 5 of a claim with sequence 99.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 30 {
		t.Fatalf("scripts: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newScript(t).run(string(want))
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(got, want) {
				t.Errorf("%s: answers differ\n%s", file, firstDifference(string(want), string(got)))
			}
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		a, b := "(end)", "(end)"
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, a, b)
		}
	}
	return "(no difference)"
}

type script struct {
	t           *testing.T
	table       *Table
	out         bytes.Buffer
	index, term uint64
	ids         map[string]SessionID
	names       map[SessionID]string
	claims      map[string]named
}

// named is what a script may say of a claim by its name.
type named struct {
	session    SessionID
	seq        uint64
	token      Token
	rev, grant Rev
}

func newScript(t *testing.T) *script {
	return &script{
		t: t, table: New(), term: 1, ids: map[string]SessionID{}, names: map[SessionID]string{}, claims: map[string]named{},
	}
}

func (s *script) run(text string) []byte {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); strings.HasPrefix(line, " ") {
			continue
		}
		fmt.Fprintln(&s.out, line)
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			s.line(fields)
			if err := checkInvariants(s.table); err != nil {
				s.t.Errorf("after %q: %v", line, err)
			}
		}
	}
	return s.out.Bytes()
}

func (s *script) line(f []string) {
	if f[0] == "&" {
		f = f[1:]
	} else {
		s.index++
	}
	switch {
	case f[0] == "term":
		s.term = s.number(f[1])
	case f[0] == "state":
		s.index--
		s.state()
	case f[0] == "refound":
		s.refound(f[1], Rev(s.number(f[2])))
	case len(f) > 2 && f[1] == "=":
		c := &Command{Op: OpOpen, Node: f[3], TTL: s.duration(f[4])}
		for _, word := range f[5:] {
			s.option(c, word)
		}
		s.apply(c, f[0])
	default:
		s.apply(s.command(f), "")
	}
}

// command reads one command from its words.
func (s *script) command(f []string) *Command {
	c := &Command{}
	if id, ok := s.ids[f[0]]; ok {
		c.Session = id
		f = f[1:]
	}
	c.Op = s.op(f[0])
	var args []string
	for _, word := range f[1:] {
		if !s.option(c, word) {
			args = append(args, word)
		}
	}
	s.arguments(c, args)
	s.defaults(c, strings.Join(f, " "))
	return c
}

func (s *script) arguments(c *Command, args []string) {
	switch c.Op {
	case OpFound:
		c.ClusterID, c.Rev, c.TTL = "c1", Rev(s.number(args[0])), time.Minute
	case OpClaim:
		c.Seq, c.Names = s.number(args[0]), strings.Split(args[1], ",")
	case OpCancel:
		c.Seq = s.number(args[0])
	case OpExpire, OpEnd:
		c.Session = s.ids[args[0]]
	case OpSessions, OpAudit:
		c.Count = uint32(s.number(args[0]))
	case OpAct:
		c.Act = Act(s.number(args[0]))
	case OpForce:
		c.Names, c.Token = []string{args[0]}, s.claim(args[1]).token
	case OpDrained:
		if args[0] == "quarantine" {
			c.Rev = s.table.quarantine.Rev
			break
		}
		c.Rev = s.claim(args[0]).grant
	case OpInspect:
		c.Names = []string{args[0]}
	case OpList:
		c.Count = uint32(s.number(args[0]))
	case OpRestart:
		c.Node = args[0]
	case OpLevel:
		c.Level = uint32(s.number(args[0]))
	case OpResize:
		c.Seq, c.Names, c.Limit = s.number(args[0]), []string{args[1]}, uint32(s.number(args[2]))
	case OpUnlock, OpDowngrade, OpProclaim, OpHandOver, OpOffer, OpAccept:
		s.aboutHold(c, args)
	}
}

// aboutHold reads the arguments of the commands that name a hold.
func (s *script) aboutHold(c *Command, args []string) {
	hold := s.claim(args[1])
	c.Seq, c.Of, c.Token = s.number(args[0]), hold.seq, hold.token
	switch c.Op {
	case OpAccept:
		c.From = hold.session
	case OpOffer:
		c.Secret = OfferHash(c.Secret)
	case OpHandOver:
		c.Rev = s.claim(args[2]).rev
	}
}

// defaults are the operands of compare-and-set that a script does not give.
func (s *script) defaults(c *Command, line string) {
	if !strings.Contains(line, "index=") {
		switch c.Op {
		case OpExpire:
			v, _ := s.table.sessions.Get(c.Session)
			c.RenewIndex = v.renewIndex
		case OpRestart:
			c.RenewIndex = s.index - 1
		}
	}
	if (c.Op == OpExpire || c.Op == OpDrained) && !strings.Contains(line, "term=") {
		c.Term = s.term
	}
}

func (s *script) option(c *Command, word string) bool {
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "try":
		c.Try = true
	case "now":
		c.Now = true
	case "barring":
		c.Barring = true
	case "shared":
		c.Mode = Shared
	case "permits":
		count, limit, _ := strings.Cut(value, "/")
		c.Mode, c.Count, c.Limit = Permits, uint32(s.number(count)), uint32(s.number(limit))
	case "note":
		c.Note = value
	case "value":
		c.Value = value
	case "delay":
		c.Delay = s.duration(value)
	case "actor":
		c.Actor = value
	case "secret":
		c.Secret = value
	case "inc":
		c.Incarnation = value
	case "rev":
		c.Rev = Rev(s.number(value))
	case "node":
		c.Node = value
	case "prefix":
		c.Names = []string{value}
	case "after":
		c.After = value
	case "session":
		c.Session = s.ids[value]
	case "former":
		c.Former = uint32(s.number(value))
	case "floor":
		c.Floor = s.number(value)
	case "since":
		c.Since = Rev(s.number(value))
	case "index":
		c.RenewIndex = s.number(value)
	case "term":
		c.Term = s.number(value)
	default:
		return false
	}
	return true
}

func (s *script) op(word string) Op {
	for op, name := range opNames {
		if name == word {
			return Op(op)
		}
	}
	s.t.Fatalf("unknown command %q", word)
	return OpNone
}

func (s *script) number(word string) uint64 {
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *script) claim(word string) named {
	if literal, ok := strings.CutPrefix(word, "?"); ok {
		return named{seq: 99, token: Token(s.number(literal))}
	}
	c, ok := s.claims[word]
	if !ok {
		s.t.Fatalf("no claim %s so far", word)
	}
	return c
}

// apply applies a command and prints all that came of it. name is what to call the session that it opens.
func (s *script) apply(c *Command, name string) {
	var eff Effects
	r := s.table.Apply(s.index, s.term, int64(s.index)*1000, c, &eff)
	if r.Session != 0 {
		s.ids[name], s.names[r.Session] = r.Session, name
	}
	s.learn(&eff)
	s.printResult(&r)
	s.printEffects(&eff)
}

// learn takes the names of claims from the first event that tells of them.
func (s *script) learn(eff *Effects) {
	for _, e := range eff.Events {
		name := fmt.Sprintf("%s.%d", s.names[e.Session], e.Seq)
		c, known := s.claims[name]
		if !known {
			c = named{session: e.Session, seq: e.Seq, rev: e.Rev}
		}
		if e.Kind == EventGranted && c.grant == 0 {
			c.token, c.grant = e.Token, e.Rev
		}
		s.claims[name] = c
	}
}
