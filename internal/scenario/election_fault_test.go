package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// S41: a leader whose lease ran out cannot touch its successor's term by anything that it still calls.
func TestFormerLeaderCannotTouchItsSuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		a := leadNow(t, c.Node(f[0]), "e", "a")
		b := campaign(t, c.Node(f[1]), "e", "b").queued(c, "e", 1)
		d := campaign(t, c.Node(f[1]), "e", "d").queued(c, "e", 2)
		c.Isolate(f[0])
		next := b.leads(2 * deadBound)
		c.Heal()
		c.WaitReady()
		ctx := context.Background()
		for what, err := range map[string]error{"Proclaim": a.Proclaim(ctx, "x"), "HandOver": a.HandOver(ctx, nodeName(f[1])), "Err": a.Err(), "Resign": a.Resign()} {
			var lost *quorumlock.LostError
			if !errors.As(err, &lost) || lost.Token != a.Token() || !ranOut(lost.Cause) {
				t.Errorf("%s: %v", what, err)
			}
		}
		time.Sleep(time.Second)
		if shown, err := leaderShown(t, c.Node(f[0]), "e"); err != nil || shown.Token != next.Token() || shown.Value != "b" || next.Err() != nil || closed(d.done) {
			t.Errorf("the successor is shown as %+v, %v; %v", shown, err, next.Err())
		}
		resign(t, next)
		resign(t, d.leads(time.Second))
		c.CheckState()
	})
}

// S43: a candidate's process dies and comes back, several times, while the claims of its dead sessions still wait. It leads by the claim of its present session only, after the leader died.
func TestCandidateLeadsByItsPresentSessionOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		a := leadNow(t, c.Node(f[0]), "k", "a")
		dead := waitInVain(t, c, f[1], 3)
		s := openSession(t, c.Node(f[1]))
		b := campaign(t, s, "k", "b").queued(c, "k", len(dead)+1)
		c.Crash(f[0])
		next := b.leads(2 * deadBound)
		shown, err := leaderShown(t, c.Node(f[1]), "k")
		if err != nil || shown.Session != s.ID() || shown.Token != next.Token() || next.Token() <= a.Token() || shown.Value != "b" {
			t.Errorf("session %v leads with %v after %v, shown as %+v, %v", s.ID(), next.Token(), a.Token(), shown, err)
		}
		resign(t, next)
		becomesFree(t, c, "k", deadBound)
		c.CheckState()
	})
}

// S44 (a) and (b): the disk of the raft leader, which is also the node of the elected one, hangs or fails. The term goes on through another raft leader; its value changes, and is observed.
func TestTermOutlivesTheDiskOfTheRaftLeader(t *testing.T) {
	for name, fault := range map[string]func(d *quorumlocktest.Disk){
		"hangs": func(d *quorumlocktest.Disk) { d.Hang(true) },
		"fails": func(d *quorumlocktest.Disk) { d.Fail(errors.New("disk on fire")) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				old := c.Leader()
				r := startRun(c.Node(old), "e", "v", 0)
				l := r.leads(t, grantBound)
				g := observe(t, c.Node(others(c, old)[0]), "e")
				fault(c.Disk(old))
				endsIn(t, "another leader", hungBound, func() { c.LeaderExcept(old) })
				time.Sleep(2 * quorumTTL)
				ctx, cancel := context.WithTimeout(context.Background(), grantBound)
				defer cancel()
				if err := l.Proclaim(ctx, "still here"); err != nil || l.Err() != nil {
					t.Errorf("Proclaim returned %v, the leadership is %v", err, l.Err())
				}
				g.becomes(t, "the observer", []string{line(nodeName(old), "v", l.Token()), line(nodeName(old), "still here", l.Token())})
				c.Disk(old).Hang(false)
				r.stopped(t)
				becomesFree(t, c, "e", time.Second)
				c.CheckState()
			})
		})
	}
}

// S27: gossip between the leader's node and another is lost both ways for two minutes, and gossip everywhere flaps. Terms end by leases only, so none does.
func TestGossipEndsNoTerm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		lead, f := roles(c)
		r := startRun(c.Node(f[0]), "e", "v", 0)
		l := r.leads(t, grantBound)
		g := observe(t, c.Node(f[1]), "e")
		c.Network().SetLoss(c.Host(lead), c.Host(f[0]), 1)
		c.Network().SetLoss(c.Host(f[0]), c.Host(lead), 1)
		for range 12 {
			c.Network().SetLoss(c.Host(f[1]), "*", 1)
			time.Sleep(7 * time.Second)
			c.Network().SetLoss(c.Host(f[1]), "*", 0)
			time.Sleep(3 * time.Second)
		}
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		g.becomes(t, "the observer", []string{line(nodeName(f[0]), "v", l.Token())})
		c.Network().SetLoss("*", "*", 0)
		r.stopped(t)
		c.CheckState()
	})
}

// S52: giving up takes no context, so one that has ended stops nothing: the term is released, and the next one begins.
func TestResignAfterTheContextHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx, cancel := context.WithCancel(context.Background())
		a, err := quorumlock.NewElection(c.Node(0), "e").Campaign(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		b := campaign(t, c.Node(1), "e", "b").queued(c, "e", 1)
		cancel()
		for what, err := range map[string]error{"Proclaim": a.Proclaim(ctx, "x"), "HandOver": a.HandOver(ctx, nodeName(1))} {
			if !errors.Is(err, context.Canceled) || a.Err() != nil {
				t.Errorf("%s with a ctx that has ended: %v; the leadership is %v", what, err, a.Err())
			}
		}
		if shown, err := leaderShown(t, c.Node(2), "e"); err != nil || shown.Value != "a" || shown.Token != a.Token() {
			t.Errorf("shown as %+v, %v", shown, err)
		}
		resign(t, a)
		resign(t, b.leads(time.Second))
		becomesFree(t, c, "e", time.Second)
		c.CheckState()
	})
}

// S56: the leader's session has a TTL of 30 s, the candidate's one of 5 s. A silence of 6 s ends nothing, and one without end is waited for by the leader's TTL.
func TestTheLeadersTTLDecides(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		session := func(i int, ttl time.Duration) *quorumlock.Session {
			s, err := c.Node(i).NewSession(context.Background(), ttl)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		a := leadNow(t, session(f[0], 30*time.Second), "e", "a")
		b := campaign(t, session(f[1], 5*time.Second), "e", "b").queued(c, "e", 1)
		c.Isolate(f[0])
		time.Sleep(6 * time.Second)
		c.Heal()
		time.Sleep(6 * time.Second)
		if err := a.Err(); err != nil || closed(b.done) {
			t.Fatalf("after a silence of 6 s: %v", err)
		}
		c.Isolate(f[0])
		began := time.Now()
		next := b.leads(40 * time.Second)
		if took := b.at.Sub(began); took < 24*time.Second || took > 32*time.Second {
			t.Errorf("the successor began after %v", took)
		}
		resign(t, next)
		c.Heal()
		c.CheckState()
	})
}

// S58: on small boxes each process stands still for 60 ms of every 100 ms, disks are slow, and locks go on. The term stays, and raft's leader changes once at most.
func TestTermOutlivesSmallBoxes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		diary, kept := keepDiary()
		c := quorumlocktest.New(t, 3, kept)
		_, f := roles(c)
		r := startRun(c.Node(f[0]), "e", "v", 0)
		l := r.leads(t, grantBound)
		before := len(diary.leaders(t))
		slowDisks(c, 5*time.Millisecond, 0, 1, 2)
		busy := trafficOn(t, c, "k")
		var throttled sync.WaitGroup
		for i := range c.Size() {
			throttled.Go(func() {
				time.Sleep(time.Duration(i) * 33 * time.Millisecond)
				for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(40 * time.Millisecond) {
					c.Pause(i)
					time.Sleep(60 * time.Millisecond)
					c.Resume(i)
				}
			})
		}
		throttled.Wait()
		grants, _ := busy.seen()
		busy.stop()
		if err := l.Err(); err != nil || grants < 60 {
			t.Errorf("the leadership: %v; %d grants meanwhile", err, grants)
		}
		if changes := len(diary.leaders(t)) - before; changes > 1 {
			t.Errorf("%d raft leaders in a minute", changes)
		}
		r.stopped(t)
		c.CheckState()
	})
}

// terms is what all leads of one election have to say: never two at once, tokens rising.
type terms struct {
	t      *testing.T
	mu     sync.Mutex
	holder *quorumlock.Leadership
	all    []string // as an observer must see them
	tokens []quorumlock.Token
}

func (s *terms) enter(l *quorumlock.Leadership, node, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder != nil && s.holder.Err() == nil {
		s.t.Errorf("token %v leads while %v does", l.Token(), s.holder.Token())
	}
	if n := len(s.tokens); n > 0 && s.tokens[n-1] >= l.Token() {
		s.t.Errorf("token %v after %v", l.Token(), s.tokens[n-1])
	}
	s.holder = l
	s.tokens = append(s.tokens, l.Token())
	s.all = append(s.all, line(node, value, l.Token()))
}

func (s *terms) leader() (*quorumlock.Leadership, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder, len(s.tokens)
}

// leadsOn is the instance whose node leads, asked on n.
func leadsOn(t *testing.T, n *quorumlock.Node, name string) (instance int) {
	t.Helper()
	shown, err := leaderShown(t, n, name)
	for end := time.Now().Add(2 * deadBound); errors.Is(err, quorumlock.ErrNoLeader) && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		shown, err = leaderShown(t, n, name)
	}
	if _, err := fmt.Sscanf(shown.Node, "node-%d", &instance); err != nil {
		t.Fatalf("leader %+v: %v", shown, err)
	}
	return instance
}

// Every leader is observed, once, with rising tokens, while the leader's node is killed again and again, the raft leader among them.
func TestObserversSeeEveryLeaderOverCrashes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		watcher := 2
		s := &terms{t: t}
		run := func(i int) {
			value := fmt.Sprint("of ", i)
			go func() {
				_ = quorumlock.NewElection(c.Node(i), "e").Run(context.Background(), value, func(ctx context.Context, l *quorumlock.Leadership) error {
					s.enter(l, nodeName(i), value)
					<-ctx.Done()
					return nil
				})
			}()
		}
		g := observe(t, c.Node(watcher), "e")
		for i := range watcher {
			run(i)
			time.Sleep(100 * time.Millisecond)
		}
		const rounds = 4
		for round := range rounds {
			_, count := s.leader()
			dies := leadsOn(t, c.Node(watcher), "e")
			if round%2 == 0 {
				leadWith(t, c, dies) // and the raft leader dies with it
			}
			c.Crash(dies)
			for end := time.Now().Add(2 * deadBound); ; time.Sleep(10 * time.Millisecond) {
				if _, now := s.leader(); now > count {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("round %d: nobody leads", round)
				}
			}
			c.Start(dies)
			readyIn(t, c.Node(dies), grantBound)
			run(dies)
		}
		time.Sleep(time.Second)
		seen := slices.DeleteFunc(g.lines(), func(l string) bool { return l == "nobody" })
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.all) != rounds+1 || !slices.Equal(seen, s.all) {
			t.Errorf("observed %v, led %v", seen, s.all)
		}
		c.CheckState()
	})
}

// S55: for a minute everything goes on at once: every node runs for two terms at a time, resigns, hands over, proclaims, is asked and observed, is revoked and cut off. Nothing but the race
// detector, the terms themselves and the observers judges it.
func TestElectionsUnderEverythingAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		s := &terms{t: t}
		var values, handed, resigned, losses atomic.Int64
		var cut atomic.Bool // a node is cut off: nobody gives up, so that its leader loses
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		var all sync.WaitGroup
		for i := range c.Size() {
			n := c.Node(i)
			for k := range 2 {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(k)))
				all.Go(func() {
					err := quorumlock.NewElection(n, "e").Run(ctx, nodeName(i), func(ctx context.Context, l *quorumlock.Leadership) error {
						s.enter(l, nodeName(i), nodeName(i))
						for ctx.Err() == nil {
							brief, cancel := context.WithTimeout(ctx, time.Duration(1+rng.IntN(200))*time.Millisecond)
							switch way := rng.IntN(8); {
							case way == 0 && !cut.Load():
								if l.HandOver(brief, nodeName(rng.IntN(3))) == nil {
									handed.Add(1)
								}
							case way == 1 && !cut.Load():
								if l.Resign() == nil {
									resigned.Add(1)
								}
							default:
								if l.Proclaim(brief, fmt.Sprint(rng.IntN(100))) == nil {
									values.Add(1)
								}
								<-brief.Done()
							}
							cancel()
							_, _ = l.Deadline(), l.Jeopardy()
						}
						if errors.Is(context.Cause(ctx), quorumlock.ErrLost) {
							losses.Add(1)
						}
						return ctx.Err()
					})
					if !errors.Is(err, context.Canceled) {
						t.Errorf("Run returned %v", err)
					}
				})
			}
			all.Go(func() {
				var last quorumlock.Token
				for l, err := range quorumlock.NewElection(n, "e").Observe(ctx) {
					switch {
					case err != nil && !errors.Is(err, context.Canceled):
						t.Errorf("observer %d: %v", i, err)
					case l.Token != 0 && l.Token < last:
						t.Errorf("observer %d: token %v after %v", i, l.Token, last)
					}
					last = max(last, l.Token)
				}
			})
			all.Go(func() {
				e, rng := quorumlock.NewElection(n, "e"), rand.New(rand.NewPCG(uint64(i), 99))
				for ctx.Err() == nil {
					brief, cancel := context.WithTimeout(ctx, time.Second)
					if l, err := e.Leader(brief); err == nil && rng.IntN(10) == 0 {
						_ = n.ForceRelease(brief, "e", l.Token, quorumlock.ForceOptions{Actor: "a", Reason: "r"})
					}
					_, _ = e.Candidates(brief)
					cancel()
					time.Sleep(300 * time.Millisecond)
				}
			})
		}
		for range 3 {
			time.Sleep(8 * time.Second)
			cut.Store(true)
			time.Sleep(500 * time.Millisecond)
			c.Isolate(leadsOn(t, c.Node(0), "e"))
			time.Sleep(11 * time.Second)
			c.Heal()
			cut.Store(false)
		}
		time.Sleep(5 * time.Second)
		stop()
		all.Wait()
		for what, n := range map[string]int64{"values": values.Load() / 20, "hand overs": handed.Load() / 3, "resignations": resigned.Load() / 5, "losses": losses.Load() / 2} {
			if n < 1 {
				t.Errorf("too few %s: %d values, %d hand overs, %d resignations, %d losses", what, values.Load(), handed.Load(), resigned.Load(), losses.Load())
			}
		}
		becomesFree(t, c, "e", 2*deadBound)
		c.CheckState()
	})
}
