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
//	A = open n1 10s                session A of node n1
//	A claim 1 job,other try note=x floor=1
//	A cancel 1 | A unlock 3 A.1 | A renew since=104 | A close
//	expire A index=3 term=1        defaults: the session's present renewal index, the present term
//	force job A.1 now note=x actor=y | drained A.1 index=9 term=1
//	inspect job | barrier | level 2 | term 2 | state
//	& A claim ...                  in the same log entry as the command before
//
// A.1 is the token that session A was granted for sequence 1; ?5 is the literal token 5.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 12 {
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
	tokens      map[string]Token
}

func newScript(t *testing.T) *script {
	return &script{
		t: t, table: New(), term: 1, ids: map[string]SessionID{}, names: map[SessionID]string{}, tokens: map[string]Token{},
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
	case len(f) > 2 && f[1] == "=":
		ttl, err := time.ParseDuration(f[4])
		if err != nil {
			s.t.Fatal(err)
		}
		s.apply(&Command{Op: OpOpen, Node: f[3], TTL: ttl}, f[0])
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
	s.arguments(c, args, strings.Join(f, " "))
	return c
}

func (s *script) arguments(c *Command, args []string, line string) {
	switch c.Op {
	case OpFound:
		c.ClusterID, c.Rev, c.TTL = "c1", Rev(s.number(args[0])), time.Minute
	case OpClaim:
		c.Seq, c.Names = s.number(args[0]), strings.Split(args[1], ",")
	case OpCancel:
		c.Seq = s.number(args[0])
	case OpUnlock:
		c.Seq, c.Token = s.number(args[0]), s.token(args[1])
	case OpExpire:
		c.Session = s.ids[args[0]]
		if !strings.Contains(line, "index=") {
			v, _ := s.table.sessions.Get(c.Session)
			c.RenewIndex = v.renewIndex
		}
	case OpForce:
		c.Names, c.Token = []string{args[0]}, s.token(args[1])
	case OpDrained:
		c.Token = s.token(args[0])
	case OpInspect:
		c.Names = []string{args[0]}
	case OpLevel:
		c.Level = uint32(s.number(args[0]))
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
	case "note":
		c.Note = value
	case "actor":
		c.Actor = value
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

func (s *script) token(word string) Token {
	if literal, ok := strings.CutPrefix(word, "?"); ok {
		return Token(s.number(literal))
	}
	token, ok := s.tokens[word]
	if !ok {
		s.t.Fatalf("no grant %s so far", word)
	}
	return token
}

// apply applies a command and prints all that came of it. name is what to call the session that it opens.
func (s *script) apply(c *Command, name string) {
	var eff Effects
	r := s.table.Apply(s.index, s.term, int64(s.index)*1000, c, &eff)
	if r.Session != 0 {
		s.ids[name], s.names[r.Session] = r.Session, name
	}
	for _, e := range eff.Events {
		if e.Kind == EventGranted {
			s.tokens[fmt.Sprintf("%s.%d", s.names[e.Session], e.Seq)] = e.Token
		}
	}
	s.printResult(&r)
	s.printEffects(&eff)
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, "    "+format+"\n", args...) }

func (s *script) printResult(r *Result) {
	var b strings.Builder
	fmt.Fprintf(&b, "%v index=%d rev=%d", r.Code, r.Index, r.Rev)
	if r.Token != 0 {
		fmt.Fprintf(&b, " token=%d", r.Token)
	}
	if r.Session != 0 {
		fmt.Fprintf(&b, " session=%d", r.Session)
	}
	if r.Blocker != nil {
		fmt.Fprintf(&b, " blocker=%s:%d", s.names[r.Blocker.Session], r.Blocker.Token)
	}
	if r.Code == CodeWaiting || r.Code == CodeLocked {
		fmt.Fprintf(&b, " ahead=%d waiters=%d", r.Ahead, r.Waiters)
	}
	if r.DrainIndex != 0 {
		fmt.Fprintf(&b, " drain=%d", r.DrainIndex)
	}
	if r.Renewed {
		b.WriteString(" renewed")
	}
	if r.Detail != "" {
		fmt.Fprintf(&b, " (%s)", r.Detail)
	}
	s.printf("-> %s", b.String())
	for _, g := range r.Grants {
		s.printf("   grant seq=%d token=%d", g.Seq, g.Token)
	}
	for _, l := range r.Lost {
		s.printf("   lost seq=%d token=%d cause=%d rev=%d by %s: %s", l.Seq, l.Token, l.Cause, l.Rev, l.Actor, l.Reason)
	}
	s.printInfo(r.Info)
}

func (s *script) printInfo(info *Info) {
	if info == nil {
		return
	}
	for _, h := range info.Holders {
		s.printf("   holder %s token=%d since=%d draining=%v note=%q", s.names[h.Session], h.Token, h.Since, h.Draining, h.Note)
	}
	for _, w := range info.Waiters {
		s.printf("   waiter %s rev=%d since=%d", s.names[w.Session], w.Rev, w.Since)
	}
	s.printf("   %d waiting, index=%d rev=%d", info.Waiting, info.Index, info.Rev)
}

func (s *script) printEffects(eff *Effects) {
	for _, e := range eff.Events {
		line := fmt.Sprintf("%d %v", e.Rev, e.Kind)
		if e.Name != "" {
			line += " " + e.Name
		}
		line += " " + s.names[e.Session]
		if e.Seq != 0 {
			line += fmt.Sprintf(".%d", e.Seq)
		}
		if e.Token != 0 {
			line += fmt.Sprintf(" token=%d", e.Token)
		}
		if e.Note != "" {
			line += " note=" + e.Note
		}
		s.printf("%s", line)
	}
	for _, id := range eff.Ended {
		s.printf("ended %s", s.names[id])
	}
	for _, d := range eff.Drains {
		s.printf("drain token=%d index=%d ttl=%v", d.Token, d.Index, d.TTL)
	}
}

func (s *script) state() {
	snap := s.table.Snapshot()
	s.printf("%+v", snap.Header())
	for r := range snap.Sessions() {
		s.printf("session %s renewed=%d floor=%d", s.names[r.ID], r.RenewIndex, r.Floor)
	}
	for r := range snap.Claims() {
		s.printf("claim %s.%d %s rev=%d token=%d drain=%d", s.names[r.Session], r.Seq, strings.Join(r.Names, ","), r.Rev, r.Token,
			r.DrainIndex)
	}
	for r := range snap.Finished() {
		s.printf("finished %s.%d %v %v token=%d", s.names[r.Session], r.Seq, r.Op, r.Code, r.Token)
	}
	for r := range snap.Lost() {
		s.printf("lost %s.%d token=%d rev=%d", s.names[r.Session], r.Lost.Seq, r.Lost.Token, r.Lost.Rev)
	}
	for r := range snap.Audit() {
		s.printf("audit %d %s token=%d now=%v %s: %s", r.Rev, r.Name, r.Token, r.Now, r.Actor, r.Reason)
	}
}
