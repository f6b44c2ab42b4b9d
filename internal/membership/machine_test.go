package membership

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/gossip"
)

// founder makes the config of one of three instances a, b, c.
func founder(id string) Config {
	return Config{Self: id, Name: "name-" + id, Addr: id + ":1", Cluster: "test", Expect: 3, Voters: 3, Boot: "boot-" + id}.normalize()
}

func trio() []Server {
	var servers []Server
	for _, id := range []string{"a", "b", "c"} {
		servers = append(servers, Server{ID: id, Name: "name-" + id, Addr: id + ":1", Voter: true})
	}
	return servers
}

func proposalOf(id string) Promise {
	return Promise{ID: id, Proposer: trio()[0], Boot: "boot-a", Founders: trio()}
}

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	calm  = facts{now: start, wall: start}
)

func asks(p Promise) request {
	return (&machine{cfg: founder("a")}).proposal(p, start)
}

func TestConsider(t *testing.T) {
	member := func(id, cluster string, state bool) gossip.Member {
		return gossip.Member{ServerID: id, Addr: id + ":1", Meta: gossip.Meta{Name: "name-" + id, ClusterID: cluster, HasState: state}}
	}
	other := proposalOf("p2")
	other.Proposer, other.Founders = Server{ID: "0", Name: "name-0", Addr: "0:1", Voter: true}, trio()
	other.Founders[0] = other.Proposer
	successor := proposalOf("p2")
	successor.Proposer.ID, successor.Founders[0].ID = "a2", "a2"
	moved := proposalOf("p1")
	moved.Proposer.Addr = "new:1"

	tests := []struct {
		name   string
		held   *Promise
		from   string
		change func(m *machine, f *facts, q *request)
		want   verdict
		saves  bool
	}{
		{name: "free", want: verdictPromised, saves: true},
		{name: "again", held: ptr(proposalOf("p1")), want: verdictPromised},
		{name: "again from a new address", held: ptr(moved), want: verdictPromised, saves: true},
		{name: "older one of the same proposer", held: ptr(proposalOf("p0")), want: verdictLater},
		{name: "older one of its predecessor", held: &successor, want: verdictLater},
		{name: "promised to another", held: &other, want: verdictRefused},
		{name: "in another's name", from: "c", want: verdictRefused},
		{name: "other cluster name", want: verdictRefused, change: func(_ *machine, _ *facts, q *request) { q.cluster = "other" }},
		{name: "other Expect", want: verdictRefused, change: func(_ *machine, _ *facts, q *request) { q.expect = 4 }},
		{name: "fewer founders than expected", want: verdictRefused, change: func(_ *machine, _ *facts, q *request) {
			q.promise.Founders = q.promise.Founders[:2]
		}},
		{name: "other Founders", want: verdictRefused, change: func(_ *machine, _ *facts, q *request) { q.founders = []string{"x"} }},
		{name: "not wanted", want: verdictRefused, change: func(m *machine, _ *facts, _ *request) { m.cfg.Self = "d" }},
		{name: "only joins", want: verdictRefused, change: func(m *machine, _ *facts, _ *request) { m.cfg.Expect = 0 }},
		{name: "pinned", want: verdictRefused, change: func(m *machine, _ *facts, _ *request) { m.cfg.ClusterIDPinned = "x" }},
		{name: "clock behind", want: verdictRefused, change: func(_ *machine, _ *facts, q *request) { q.wall = start.Add(-61 * time.Minute) }},
		{name: "clock ahead", want: verdictRefused, change: func(_ *machine, _ *facts, q *request) { q.wall = start.Add(61 * time.Minute) }},
		{name: "clock near", want: verdictPromised, saves: true, change: func(_ *machine, _ *facts, q *request) {
			q.wall = start.Add(59 * time.Minute)
		}},
		{name: "sees a cluster", want: verdictRefused, change: func(_ *machine, f *facts, _ *request) {
			f.members = []gossip.Member{member("z", "x", true)}
		}},
		{name: "sees a client of a cluster", want: verdictRefused, change: func(_ *machine, f *facts, _ *request) {
			f.members = []gossip.Member{member("z", "x", false)}
		}},
		{name: "sees the cluster proposed", want: verdictPromised, saves: true, change: func(_ *machine, f *facts, _ *request) {
			f.members = []gossip.Member{member("a", "p1", true)}
		}},
		{name: "has state", want: verdictMember, change: func(_ *machine, f *facts, _ *request) { f.hasState = true }},
		{name: "has joined", want: verdictMember, change: func(m *machine, _ *facts, _ *request) { m.settle("x") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, f, q := &machine{cfg: founder("b")}, calm, asks(proposalOf("p1"))
			if tt.held != nil {
				m.hold(*tt.held, start)
			}
			if tt.name == "older one of its predecessor" {
				m.promise = ptr(proposalOf("p0"))
				q = asks(successor)
			}
			if tt.change != nil {
				tt.change(m, &f, &q)
			}
			from := tt.from
			if from == "" {
				from = q.promise.Proposer.ID
			}
			a, save, drop := m.respond(f, from, q)
			if a.verdict != tt.want || (save != nil) != tt.saves || drop {
				t.Errorf("verdict %d (%s), save %t, drop %t; want verdict %d, save %t", a.verdict, a.reason, save != nil, drop, tt.want, tt.saves)
			}
			if a.verdict != verdictPromised && a.reason == "" {
				t.Error("no reason given")
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

// TestProof lists what frees from a promise to a, and what does not.
func TestProof(t *testing.T) {
	a, b := trio()[0], trio()[1]
	renamed, moved := Server{ID: "a2", Name: "x", Addr: a.Addr}, Server{ID: "a2", Name: a.Name, Addr: "x:1"}
	tests := []struct {
		name  string
		ans   answer
		err   error
		frees bool
	}{
		{name: "stands", ans: answer{verdict: verdictLive, from: a}},
		{name: "abandoned", ans: answer{verdict: verdictAbandoned, from: a}, frees: true},
		{name: "no answer", err: errors.New("timeout")},
		{name: "founded", ans: answer{verdict: verdictMember, from: a, clusterID: "p1"}},
		{name: "has state of a cluster it can not name yet", ans: answer{verdict: verdictMember, from: a}},
		{name: "joined another", ans: answer{verdict: verdictMember, from: a, clusterID: "x"}, frees: true},
		{name: "successor", ans: answer{verdict: verdictAbandoned, from: Server{ID: "a2", Name: a.Name, Addr: a.Addr}}, frees: true},
		{name: "successor in the founded cluster", ans: answer{verdict: verdictMember, clusterID: "p1", from: Server{ID: "a2", Name: a.Name, Addr: a.Addr}}},
		{name: "stranger at the address", ans: answer{verdict: verdictAbandoned, from: renamed}},
		{name: "same name at another address", ans: answer{verdict: verdictAbandoned, from: moved}},
		{name: "another founder", ans: answer{verdict: verdictAbandoned, from: b}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &machine{cfg: founder("c")}
			m.hold(proposalOf("p1"), start)
			m.queried("p0", answer{verdict: verdictAbandoned, from: a}, nil, start) // about an older promise: nothing
			m.queried("p1", tt.ans, tt.err, start)
			if got := m.next(calm).kind == actDrop; got != tt.frees {
				t.Errorf("frees = %t, want %t (%s)", got, tt.frees, m.next(calm).reason)
			}
		})
	}
}

func TestAbandonmentOnlyFromTheProposer(t *testing.T) {
	m := &machine{cfg: founder("c")}
	m.hold(proposalOf("p1"), start)
	for _, tt := range []struct {
		from, id string
		drops    bool
	}{{"b", "p1", false}, {"a", "p0", false}, {"a", "p1", true}} {
		if _, _, drop := m.respond(calm, tt.from, request{kind: kindAbandon, promise: Promise{ID: tt.id}}); drop != tt.drops {
			t.Errorf("abandonment of %s by %s: drop %t", tt.id, tt.from, drop)
		}
	}
}

// TestCount: only the promise of each founder itself, to this very proposal, leads to the bootstrap.
func TestCount(t *testing.T) {
	servers := trio()
	promised := func(s Server) answer { return answer{verdict: verdictPromised, from: s} }
	m := &machine{cfg: founder("a")}
	m.hold(proposalOf("p1"), start)
	m.asked("p1", servers[1], promised(servers[1]), nil, start)
	m.asked("p1", servers[1], promised(servers[1]), nil, start)
	m.asked("p0", servers[2], promised(servers[2]), nil, start)
	m.asked("p1", servers[2], promised(servers[1]), nil, start)
	m.asked("p1", servers[2], answer{verdict: verdictLater, from: servers[2]}, nil, start)
	if act := m.next(calm); act.kind != actAsk || len(act.targets) != 1 || act.targets[0].ID != "c" {
		t.Fatalf("next = %+v, want to ask c", act)
	}
	m.asked("p1", servers[2], promised(servers[2]), nil, start)
	if act := m.next(calm); act.kind != actBootstrap {
		t.Fatalf("next = %+v, want the bootstrap", act)
	}
	m.asked("p1", servers[2], answer{verdict: verdictRefused, from: servers[2]}, nil, start)
	if act := m.next(calm); act.kind != actAbandon {
		t.Fatalf("next = %+v, want to abandon", act)
	}
}

func TestRoundTimesOut(t *testing.T) {
	m := &machine{cfg: founder("a")}
	m.hold(proposalOf("p1"), start)
	m.asked("p1", trio()[1], answer{}, errors.New("no route"), start)
	late := calm
	late.now = start.Add(roundTimeout)
	act := m.next(late)
	if act.kind != actAbandon || !strings.Contains(act.reason, "name-b: no route") || len(act.targets) != 2 {
		t.Errorf("next = %+v", act)
	}
}

func TestBackoffGrows(t *testing.T) {
	m := &machine{cfg: founder("a")}
	for i, most := range []time.Duration{250, 500, 1000, 2000, 4000, 4000, 4000, 4000, 4000} {
		m.abandoned(start, "x", 0.5)
		if got := m.resumeAt.Sub(start); got != most*time.Millisecond {
			t.Errorf("pause %d = %v, want %v", i, got, most*time.Millisecond)
		}
	}
}

func TestEncodings(t *testing.T) {
	p := proposalOf("p1")
	if got, err := DecodePromise(p.Encode()); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("promise: %+v, %v", got, err)
	}
	for _, q := range []request{
		asks(p),
		{kind: kindQuery, promise: Promise{ID: "p1"}},
		{kind: kindAbandon, promise: Promise{ID: "p1"}},
	} {
		got, err := decodeRequest(q.encode())
		got.wall, q.wall = got.wall.UTC(), q.wall.UTC()
		if q.kind != kindPropose {
			got.wall, q.wall = time.Time{}, time.Time{}
		}
		if len(got.founders) == 0 {
			got.founders, q.founders = nil, nil
		}
		if err != nil || !reflect.DeepEqual(got, q) {
			t.Errorf("request: %+v, %v; want %+v", got, err, q)
		}
	}
	a := answer{verdict: verdictMember, from: trio()[1], boot: "x", clusterID: "y", reason: "z"}
	if got, err := decodeAnswer(a.encode()); err != nil || got != a {
		t.Errorf("answer: %+v, %v", got, err)
	}
}

func TestDecodePromiseRefuses(t *testing.T) {
	bad := map[string]func(*Promise){
		"no id":              func(p *Promise) { p.ID = "" },
		"no founders":        func(p *Promise) { p.Founders = nil },
		"proposer not first": func(p *Promise) { p.Proposer = p.Founders[1] },
		"proposer no voter":  func(p *Promise) { p.Founders[0].Voter = false },
		"founder twice":      func(p *Promise) { p.Founders[2] = p.Founders[1] },
		"founders unordered": func(p *Promise) { p.Founders[1], p.Founders[2] = p.Founders[2], p.Founders[1] },
		"one name, two ids":  func(p *Promise) { p.Founders[2].Name = p.Founders[1].Name },
		"founder without id": func(p *Promise) { p.Proposer.ID, p.Founders[0].ID = "", "" },
	}
	for name, spoil := range bad {
		p := proposalOf("p1")
		spoil(&p)
		if _, err := DecodePromise(p.Encode()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	whole := proposalOf("p1").Encode()
	for n := range whole {
		if _, err := DecodePromise(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes: accepted", n, len(whole))
		}
	}
	whole[0] = 9
	if _, err := DecodePromise(whole); err == nil || !strings.Contains(err.Error(), "version 9") {
		t.Errorf("unknown version: %v", err)
	}
}

// disklessEnv keeps a promise in memory; save and clear fail when told.
func disklessEnv(saveErr, clearErr *error) (Env, *[]string) {
	var held *Promise
	var log []string
	return Env{
		Members: func() []gossip.Member { return nil },
		Load: func() (Promise, bool, error) {
			if held == nil {
				return Promise{}, false, nil
			}
			return *held, true, nil
		},
		Save: func(p Promise) error {
			log = append(log, "save "+p.ID)
			if *saveErr == nil {
				held = &p
			}
			return *saveErr
		},
		Clear: func() error {
			log = append(log, "clear")
			if *clearErr == nil {
				held = nil
			}
			return *clearErr
		},
		Ask:       func(context.Context, string, string, []byte) ([]byte, error) { return nil, errors.New("nobody") },
		Bootstrap: func(id string, _ []Server) error { log = append(log, "bootstrap "+id); return nil },
		Join:      func(context.Context, gossip.Member) error { return errors.New("nobody") },
		HasState:  func() bool { return false },
		Adopt:     func(id string) { log = append(log, "adopt "+id) },
		Clock:     fixedClock{},
		NewID:     func() string { return "p1" },
		Rand:      rand.New(rand.NewPCG(1, 1)),
	}, &log
}

type fixedClock struct{}

func (fixedClock) Now() clock.Reading { return clock.Reading{Wall: start} }

// TestPromiseIsDurableBeforeItIsGiven, and nothing is promised that could not be stored.
func TestPromiseIsDurableBeforeItIsGiven(t *testing.T) {
	var saveErr, clearErr error
	env, log := disklessEnv(&saveErr, &clearErr)
	f := New(founder("b"), env)
	msg := asks(proposalOf("p1")).encode()

	saveErr = errors.New("disk full")
	if _, err := f.Handle(t.Context(), "a", msg); !errors.Is(err, saveErr) {
		t.Fatalf("Handle with a failing store: %v", err)
	}
	if f.m.promise != nil {
		t.Fatal("holds what was not saved")
	}
	saveErr = nil
	out, err := f.Handle(t.Context(), "a", msg)
	if a, derr := decodeAnswer(out); err != nil || derr != nil || a.verdict != verdictPromised {
		t.Fatalf("Handle: %+v, %v, %v", a, err, derr)
	}
	if got := strings.Join(*log, ", "); got != "save p1, save p1, adopt p1" {
		t.Errorf("steps: %s", got)
	}

	clearErr = errors.New("disk full")
	if _, err := f.Handle(t.Context(), "a", request{kind: kindAbandon, promise: Promise{ID: "p1"}}.encode()); err != nil {
		t.Fatal(err)
	}
	if f.m.promise == nil || (*log)[len(*log)-1] != "adopt p1" {
		t.Errorf("let go of a promise that is still stored: %v", *log)
	}
}

// TestLoadComesFirst: a process does not answer before it knows what the former one promised.
func TestLoadComesFirst(t *testing.T) {
	var none error
	env, _ := disklessEnv(&none, &none)
	if err := env.Save(proposalOf("p0")); err != nil {
		t.Fatal(err)
	}
	broken := env
	loadErr := errors.New("checksum")
	broken.Load = func() (Promise, bool, error) { return Promise{}, false, loadErr }
	if _, err := New(founder("b"), broken).Handle(t.Context(), "a", asks(proposalOf("p1")).encode()); !errors.Is(err, loadErr) {
		t.Errorf("Handle without its promise: %v", err)
	}
	if err := New(founder("b"), broken).Run(t.Context()); !errors.Is(err, loadErr) {
		t.Errorf("Run without its promise: %v", err)
	}
	out, err := New(founder("b"), env).Handle(t.Context(), "a", asks(proposalOf("p1")).encode())
	if a, derr := decodeAnswer(out); err != nil || derr != nil || a.verdict != verdictLater {
		t.Errorf("Handle after a restart: %+v, %v, %v", a, err, derr)
	}
}

func TestHandleObeysItsContext(t *testing.T) {
	var none error
	env, _ := disklessEnv(&none, &none)
	f := New(founder("b"), env)
	if err := f.lock(t.Context()); err != nil { // a durable step that hangs
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.Handle(ctx, "a", asks(proposalOf("p1")).encode()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Handle: %v", err)
	}
	if f.Status() == "" {
		t.Error("no status while the store hangs")
	}
	f.unlock()
}

func TestBootstrapFailureEndsRun(t *testing.T) {
	var none error
	env, _ := disklessEnv(&none, &none)
	boom := errors.New("disk gone")
	env.Bootstrap = func(string, []Server) error { return boom }
	cfg := founder("a")
	cfg.Expect = 1
	if err := New(cfg, env).Run(t.Context()); !errors.Is(err, boom) {
		t.Errorf("Run: %v", err)
	}
}

func FuzzHandle(f *testing.F) {
	f.Add("a", asks(proposalOf("p1")).encode())
	f.Add("a", request{kind: kindQuery, promise: Promise{ID: "p1"}}.encode())
	f.Add("a", request{kind: kindAbandon, promise: Promise{ID: "p1"}}.encode())
	f.Fuzz(func(t *testing.T, from string, msg []byte) {
		var none error
		env, _ := disklessEnv(&none, &none)
		out, err := New(founder("b"), env).Handle(t.Context(), from, msg)
		if err != nil {
			return
		}
		if _, err := decodeAnswer(out); err != nil {
			t.Errorf("unreadable answer: %v", err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(proposalOf("p1").Encode())
	f.Add(answer{verdict: verdictLive, from: trio()[0]}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := DecodePromise(b); err == nil {
			if q, err := DecodePromise(p.Encode()); err != nil || !q.equal(p) {
				t.Errorf("promise does not survive: %+v, %v", q, err)
			}
		}
		if a, err := decodeAnswer(b); err == nil {
			if c, err := decodeAnswer(a.encode()); err != nil || c != a {
				t.Errorf("answer does not survive: %+v, %v", c, err)
			}
		}
	})
}

// TestStateThatArrivedIsKept: the last stream of a cluster may deliver while its promise is being dropped. Then the promise stays.
func TestStateThatArrivedIsKept(t *testing.T) {
	var none error
	env, log := disklessEnv(&none, &none)
	shut := false
	adopt := env.Adopt
	env.Adopt = func(id string) { shut = shut || id == ""; adopt(id) }
	env.HasState = func() bool { return shut }
	f := New(founder("b"), env)
	if _, err := f.Handle(t.Context(), "a", asks(proposalOf("p1")).encode()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Handle(t.Context(), "a", request{kind: kindAbandon, promise: Promise{ID: "p1"}}.encode()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(*log, ", "); got != "save p1, adopt p1, adopt , adopt p1" {
		t.Errorf("steps: %s", got)
	}
	out, err := f.Handle(t.Context(), "c", request{kind: kindQuery, promise: Promise{ID: "p1"}}.encode())
	if a, derr := decodeAnswer(out); err != nil || derr != nil || a.verdict != verdictMember || a.clusterID != "p1" {
		t.Errorf("answer: %+v, %v, %v", a, err, derr)
	}
}
