package router

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/commit"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
)

// sim is a cluster of Routers over a network that loses, delays and cuts, with a leader that moves and a state machine that, like
// the real one, answers a sequence it knows with the answer it gave.
type sim struct {
	t     *testing.T
	rnd   *rand.Rand // under mu
	nodes []*simNode

	mu      sync.Mutex
	leader  int // index of the node that leads, -1 for none
	down    map[int]bool
	results map[simKey]locktable.Result // the state machine
	arrived map[simKey]int              // copies that reached it
	wanted  map[simKey]locktable.Command
	next    locktable.Token
	seen    map[string]int // which faults and ends happened: a fault that did not bite tests nothing
}

type simKey struct {
	session locktable.SessionID
	seq     uint64
}

type simNode struct {
	sim     *sim
	i       int
	router  *Router
	view    int // the leader as this node knows it; lags behind
	changed chan struct{}
}

func peer(i int) Peer { return Peer{ID: fmt.Sprint("s", i), Addr: fmt.Sprint("addr", i)} }

func newSim(t *testing.T, seed uint64, n int) *sim {
	s := &sim{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), leader: -1, down: map[int]bool{},
		results: map[simKey]locktable.Result{}, arrived: map[simKey]int{}, wanted: map[simKey]locktable.Command{}, seen: map[string]int{}}
	for i := range n {
		node := &simNode{sim: s, i: i, view: -1, changed: make(chan struct{})}
		node.router = New(node.env())
		s.nodes = append(s.nodes, node)
	}
	return s
}

func (s *sim) chance(percent int) bool { return s.rnd.IntN(100) < percent }

func (s *sim) some(d time.Duration) time.Duration { return time.Duration(s.rnd.Int64N(int64(d))) }

func (s *sim) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[what]++
}

func (n *simNode) env() Env {
	return Env{
		Self:  peer(n.i).ID,
		Local: n.local,
		Leader: func() (Peer, <-chan struct{}) {
			n.sim.mu.Lock()
			defer n.sim.mu.Unlock()
			if n.view < 0 {
				return Peer{}, n.changed
			}
			return peer(n.view), n.changed
		},
		Others: func() []Peer {
			var all []Peer
			for _, o := range n.sim.nodes {
				if o != n {
					all = append(all, peer(o.i))
				}
			}
			return all
		},
		Call: n.call,
		Why:  func() string { return "no quorum: sim" },
	}
}

// local is a leader's write: it takes time, it can be lost with the leadership before or after it was done, and its queue can be full.
func (n *simNode) local(ctx context.Context, c *locktable.Command) (locktable.Result, error) {
	s := n.sim
	s.mu.Lock()
	if s.leader != n.i {
		s.mu.Unlock()
		return locktable.Result{}, ErrNotLeader
	}
	wait, lost, full, late := s.some(20*time.Millisecond), s.chance(15), s.chance(5), s.chance(50)
	s.mu.Unlock()
	if full {
		return locktable.Result{}, notDone(commit.ErrOverloaded)
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return locktable.Result{}, notDone(ctx.Err())
	}
	if !lost {
		return s.apply(c), nil
	}
	if late {
		s.apply(c)
	}
	return locktable.Result{}, unknown(errLog)
}

func (s *sim) apply(c *locktable.Command) locktable.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := simKey{c.Session, c.Seq}
	s.arrived[k]++
	if want := s.wanted[k]; !reflect.DeepEqual(*c, want) {
		s.t.Errorf("%v arrived as %+v, was sent as %+v", k, *c, want)
	}
	if res, ok := s.results[k]; ok {
		return res
	}
	s.next++
	s.results[k] = locktable.Result{Code: locktable.CodeGranted, Token: s.next, Session: c.Session}
	return s.results[k]
}

// call is the network: a request may find nobody, be lost, or arrive late and after its caller left; its reply may be lost.
func (n *simNode) call(ctx context.Context, p Peer, req wire.ProposeRequest) (wire.ProposeReply, error) {
	s := n.sim
	var to int
	fmt.Sscanf(p.ID, "s%d", &to)
	if to == n.i {
		s.t.Error("a node called itself")
	}
	if req.Hops > maxHops {
		s.t.Errorf("a request with %d hops", req.Hops)
	}
	s.mu.Lock()
	there, back := s.some(30*time.Millisecond), s.some(30*time.Millisecond)
	if s.chance(5) {
		there += time.Second
	}
	noDial, lost, lostReply := s.down[to] || s.down[n.i] || s.chance(3), s.chance(8), s.chance(8)
	s.mu.Unlock()
	if noDial {
		return wire.ProposeReply{}, &transport.DialError{Addr: p.Addr, Err: errors.New("unreachable")}
	}
	replies := make(chan wire.ProposeReply, 1)
	go func() { // not the caller's goroutine: what was sent arrives even if nobody waits
		time.Sleep(there)
		if lost {
			return
		}
		rep := s.nodes[to].router.Serve(context.Background(), req)
		time.Sleep(back)
		if !lostReply {
			replies <- rep
		}
	}()
	select {
	case rep := <-replies:
		return rep, nil
	case <-ctx.Done():
		s.count("no reply")
		return wire.ProposeReply{}, &transport.UnknownError{Addr: p.Addr, Err: ctx.Err()}
	}
}

// trouble moves the leadership and takes nodes down until the time is over; every node learns of the leader at its own time.
func (s *sim) trouble(until time.Time) {
	for time.Now().Before(until) {
		s.mu.Lock()
		s.down = map[int]bool{}
		if s.chance(40) {
			s.down[s.rnd.IntN(len(s.nodes))] = true
		}
		s.leader = s.rnd.IntN(len(s.nodes)+1) - 1
		leader := s.leader
		if leader >= 0 && s.down[leader] {
			s.leader = -1 // it does not know, and neither do they
		}
		s.seen["moves"]++
		for _, n := range s.nodes {
			time.AfterFunc(s.some(400*time.Millisecond), func() { n.learn(leader) })
		}
		pause := s.some(1500 * time.Millisecond)
		s.mu.Unlock()
		time.Sleep(pause)
	}
}

func (n *simNode) learn(leader int) {
	n.sim.mu.Lock()
	defer n.sim.mu.Unlock()
	n.view = leader
	close(n.changed)
	n.changed = make(chan struct{})
}

// client makes calls with all kinds of time limits, one after the other, and notes how each ended.
func (s *sim) client(id int, calls int) {
	for seq := range uint64(calls) {
		c := locktable.Command{Op: locktable.OpClaim, Session: locktable.SessionID(id + 1), Seq: seq + 1, Names: []string{"job"}}
		k := simKey{c.Session, c.Seq}
		var timeout time.Duration
		var n *simNode
		s.mu.Lock()
		s.wanted[k] = c
		timeout = s.some(4 * time.Second)
		if s.chance(30) {
			timeout = s.some(50 * time.Millisecond)
		}
		n = s.nodes[s.rnd.IntN(len(s.nodes))]
		renewal := s.chance(25)
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		begin := time.Now()
		res, err := n.router.Do(ctx, &c, Options{Renewal: renewal})
		took := time.Since(begin)
		cancel()
		s.check(k, res, err, took, timeout)
	}
}

func (s *sim) check(k simKey, res locktable.Result, err error, took, timeout time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if took > timeout {
		s.t.Errorf("%v took %v of %v", k, took, timeout)
	}
	if err == nil {
		s.seen["done"]++
		if s.arrived[k] > 1 {
			s.seen["copies"]++
		}
		if got, ok := s.results[k]; !ok || !reflect.DeepEqual(got, res) {
			s.t.Errorf("%v was answered %+v, applied as %+v (%v)", k, res, got, ok)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) {
		s.t.Errorf("%v: %T %v", k, err, err)
		return
	}
	if !e.Sent {
		s.seen["not sent"]++
		delete(s.wanted, k) // a copy that arrives from now on differs from what is wanted
		if s.arrived[k] != 0 {
			s.t.Errorf("%v was called not sent, and arrived: %v", k, err)
		}
	} else if s.arrived[k] > 0 {
		s.seen["sent, applied"]++
	} else {
		s.seen["sent"]++
	}
	switch {
	case errors.Is(err, commit.ErrOverloaded):
		s.seen["overloaded"]++
	case !errors.Is(err, context.DeadlineExceeded):
		s.t.Errorf("%v: %v", k, err)
	case errors.Is(err, ErrNoQuorum):
		s.seen["no quorum"]++
	}
}

func TestRandomClusters(t *testing.T) {
	total := map[string]int{}
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, seed, 2+int(seed%4))
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() { s.client(i, 40) })
			}
			s.trouble(time.Now().Add(30 * time.Second))
			wg.Wait()
			for _, n := range s.nodes {
				n.router.Wait()
			}
			time.Sleep(time.Minute) // for everything that is still under way
			s.mu.Lock()
			defer s.mu.Unlock()
			for k, v := range s.seen {
				total[k] += v
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Log(total)
	for _, what := range []string{"moves", "no reply", "done", "copies", "not sent", "sent", "sent, applied", "no quorum"} {
		if total[what] == 0 {
			t.Errorf("%q never happened", what)
		}
	}
}
