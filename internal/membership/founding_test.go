package membership

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inWorld runs a scenario in a bubble and checks safety at its end.
func inWorld(t *testing.T, seed uint64, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		defer w.end()
		f(w)
	})
}

// founders counts the clusters that were ever bootstrapped.
func (w *world) wantFounded(n int) {
	w.t.Helper()
	defer w.lock()()
	if len(w.founded) != n {
		w.t.Errorf("%d clusters were founded, want %d: %v", len(w.founded), n, w.founded)
	}
}

func (w *world) wantStatus(h *host, part string) {
	w.t.Helper()
	if got := h.proc.f.Status(); !strings.Contains(got, part) {
		w.t.Errorf("status of %s is %q, want %q in it", h.name, got, part)
	}
}

func TestThreeAtOnce(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.hostsOf(3, 3, 3)
		w.startAll()
		w.wantOne(time.Second)
		w.wantFounded(1)
	})
}

func TestAlone(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.hostsOf(1, 1, 3)
		w.startAll()
		synctest.Wait()
		if w.clusters()[0] == "" {
			t.Error("a single expected instance must found without waiting")
		}
	})
}

func TestOneAtATime(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.hostsOf(4, 3, 3)
		w.hosts[0].start()
		w.run(3 * time.Second)
		w.wantStatus(w.hosts[0], "1 of 3 seen")
		w.hosts[1].start()
		w.run(10 * time.Second)
		w.wantNone()
		w.wantStatus(w.hosts[1], "2 of 3 seen")
		w.hosts[2].start()
		w.wantOne(time.Second)
		w.hosts[3].start()
		w.wantOne(2 * time.Second)
		w.wantFounded(1)
	})
}

func TestFoundersByName(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		names := []string{"db-1", "db-2", "db-3"}
		for i := range 4 {
			w.host(fmt.Sprintf("db-%d", i+1), Config{Founders: names})
		}
		w.hosts[0].start()
		w.hosts[1].start()
		w.hosts[3].start() // no founder: waits for the cluster
		w.run(5 * time.Second)
		w.wantNone()
		w.wantStatus(w.hosts[0], "2 of 3 seen (missing db-3)")
		w.wantStatus(w.hosts[3], "not a founder")
		w.hosts[2].start()
		w.wantOne(3 * time.Second)
		w.wantFounded(1)
	})
}

func TestFiveExpectFive(t *testing.T) {
	for _, voters := range []int{3, 5} {
		inWorld(t, 2, func(w *world) {
			w.hostsOf(5, 5, voters)
			w.startAll()
			w.wantOne(3 * time.Second)
			w.wantFounded(1)
			for _, vs := range w.configs {
				if len(vs) != voters {
					t.Errorf("%d founding voters, want %d", len(vs), voters)
				}
			}
		})
	}
}

// TestFourMakeThreeVoters: an even number is not founded by choice; the fourth joins.
func TestFourMakeThreeVoters(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.hostsOf(4, 4, 5)
		w.startAll()
		w.wantOne(3 * time.Second)
		for _, vs := range w.configs {
			if len(vs) != 3 {
				t.Errorf("%d founding voters, want 3", len(vs))
			}
		}
	})
}

// TestCutWhileFounding cuts five instances 2|3 at twelve moments. Expect 5 can wait for the heal, Expect 3 must go on in the larger part.
func TestCutWhileFounding(t *testing.T) {
	for _, expect := range []int{3, 5} {
		for i := range 12 {
			at := time.Duration(i) * 50 * time.Millisecond
			t.Run(fmt.Sprintf("expect%d/%v", expect, at), func(t *testing.T) {
				inWorld(t, uint64(i), func(w *world) {
					w.hostsOf(5, expect, 3)
					w.startAll()
					w.run(at)
					w.partition(2)
					w.run(20 * time.Second)
					w.heal()
					w.wantOne(15 * time.Second)
					if len(w.worked) != 1 {
						t.Errorf("clusters that worked: %v", w.worked)
					}
				})
			})
		}
	}
}

// TestHalvesMakeTwoClusters documents what Expect of only half the instances costs. The two never merge.
func TestHalvesMakeTwoClusters(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.allowTwo = true
		w.hostsOf(6, 3, 3)
		w.partition(3)
		w.startAll()
		w.run(10 * time.Second)
		w.heal()
		w.run(time.Minute)
		if ids := w.clusters(); len(ids) != 2 || ids[0] == "" {
			t.Errorf("clusters %q, want two", ids)
		}
		w.wantFounded(2)

		w.lag = 0
		late := w.host("late", Config{Expect: 3})
		late.start()
		w.run(10 * time.Second)
		w.wantStatus(late, "two clusters of this name are seen")
		late.stop()
		late.cfg.ClusterIDPinned = w.clusters()[1]
		late.start()
		w.run(3 * time.Second)
		if got := late.proc.disk.state; got != late.cfg.ClusterIDPinned {
			t.Errorf("pinned to %q, joined %q", late.cfg.ClusterIDPinned, got)
		}
	})
}

func TestPinnedNeverFounds(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.hostsOf(3, 3, 3)
		for _, h := range w.hosts {
			h.cfg.ClusterIDPinned = "elsewhere"
		}
		w.startAll()
		w.run(20 * time.Second)
		w.wantNone()
		w.wantStatus(w.hosts[0], "waiting for a member of cluster elsewhere")
	})
}

func TestOneFounderPinned(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		names := []string{"db-1", "db-2", "db-3"}
		for _, n := range names {
			w.host(n, Config{Founders: names})
		}
		w.hosts[1].cfg.ClusterIDPinned = "elsewhere"
		w.startAll()
		w.run(30 * time.Second)
		w.wantNone()
	})
}

func TestJoinOnly(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.hostsOf(3, 0, 3)
		w.startAll()
		w.run(20 * time.Second)
		w.wantNone()
		w.wantStatus(w.hosts[0], "not a founder")
	})
}

func TestExpectDisagreement(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		w.hostsOf(3, 3, 3)
		w.hosts[2].cfg.Expect = 2
		w.startAll()
		w.run(20 * time.Second)
		w.wantNone()
		w.wantStatus(w.hosts[0], "disagree: db-3 expects 2, this one expects 3")
		w.hosts[2].stop()
		w.hosts[2].cfg.Expect = 3
		w.hosts[2].start()
		w.wantOne(15 * time.Second)
	})
}

// TestFoundersDisagreement: gossip does not tell the lists, the promisers compare them.
func TestFoundersDisagreement(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		for i := range 3 {
			w.host(fmt.Sprintf("db-%d", i+1), Config{Founders: []string{"db-1", "db-2", "db-3"}})
		}
		w.hosts[2].cfg.Founders = []string{"db-2", "db-3"}
		w.startAll()
		w.run(30 * time.Second)
		w.wantNone()
		w.hosts[2].stop()
		w.hosts[2].cfg.Founders = []string{"db-3", "db-2", "db-1", "db-1"}
		w.hosts[2].start()
		w.wantOne(30 * time.Second)
	})
}

func TestNamesUsedTwice(t *testing.T) {
	for _, cfg := range []Config{{Expect: 3}, {Founders: []string{"db-1", "db-2", "db-3"}}} {
		inWorld(t, 5, func(w *world) {
			for i := range 3 {
				w.host(fmt.Sprintf("db-%d", i+1), cfg)
			}
			double := w.host("db-3", cfg)
			double.addr = "elsewhere:7000"
			w.hosts[2].start()
			double.start()
			w.run(3 * time.Second)
			w.hosts[0].start()
			w.hosts[1].start()
			w.run(20 * time.Second)
			w.wantNone()
			w.wantStatus(w.hosts[0], "two instances are named db-3")
			double.stop()
			w.wantOne(15 * time.Second)
			w.wantFounded(1)
		})
	}
}

func TestClocksApart(t *testing.T) {
	inWorld(t, 6, func(w *world) {
		w.hostsOf(3, 3, 3)
		w.hosts[1].wall = -61 * time.Minute
		w.startAll()
		w.run(30 * time.Second)
		w.wantNone()
		found := false
		for _, h := range w.hosts {
			found = found || strings.Contains(h.proc.f.Status(), "clocks differ by 1h1m0s")
		}
		if !found {
			t.Errorf("nobody says that the clocks differ\n%s", w.describe())
		}
		unlock := w.lock()
		w.hosts[1].wall = -59 * time.Minute
		unlock()
		w.wantOne(15 * time.Second)
	})
}

// steps at which a process can die while it founds.
var steps = []string{
	"before save", "after save", "before bootstrap", "after bootstrap", "before clear", "after clear",
}

// TestCrashAtEachStep kills one instance, each of three in turn, at each durable step, with and without a disk, and starts it again
// after a while that is shorter or longer than gossip needs to notice. A clock that is wrong at first makes the clear steps happen.
func TestCrashAtEachStep(t *testing.T) {
	hit := map[string]int{}
	for _, durable := range []bool{true, false} {
		for _, step := range steps {
			for i := range 3 {
				for _, away := range []time.Duration{300 * time.Millisecond, 12 * time.Second} {
					name := fmt.Sprintf("durable=%t/%s/%d/%v", durable, step, i, away)
					t.Run(name, func(t *testing.T) { crashOnce(t, durable, step, i, away, hit) })
				}
			}
		}
	}
	for _, step := range steps {
		if hit[step] == 0 {
			t.Errorf("no run crashed %s", step)
		}
	}
}

func crashOnce(t *testing.T, durable bool, step string, i int, away time.Duration, hit map[string]int) {
	inWorld(t, uint64(i), func(w *world) {
		w.hostsOf(3, 3, 3)
		for _, h := range w.hosts {
			h.durable = durable
		}
		victim := w.hosts[i]
		if strings.HasSuffix(step, "clear") {
			w.hosts[(i+1)%3].wall = 2 * time.Hour
		}
		crashed := false
		victim.crash = func(at string) bool {
			if at != step || crashed {
				return false
			}
			crashed = true
			hit[step]++
			return true
		}
		w.startAll()
		w.run(5 * time.Second)
		unlock := w.lock()
		w.hosts[(i+1)%3].wall = 0
		unlock()
		if crashed {
			victim.stop()
			w.run(away)
			victim.start()
		}
		w.wantOne(40 * time.Second)
	})
}

// TestProposerGoneForGood: its promisers wait, say for whom, and an operator frees them.
func TestProposerGoneForGood(t *testing.T) {
	inWorld(t, 8, func(w *world) {
		w.hostsOf(3, 3, 3)
		var proposer *host
		for _, h := range w.hosts {
			h.crash = func(at string) bool {
				if at == "before bootstrap" {
					proposer = h
					return true
				}
				return false
			}
		}
		w.startAll()
		w.run(10 * time.Second)
		if proposer == nil {
			t.Fatal("nobody came to the bootstrap")
		}
		proposer.stop()
		other := w.host("db-4", Config{Expect: 3})
		other.start()
		w.run(30 * time.Second)
		w.wantNone()
		for _, h := range w.hosts {
			h.crash = nil
			if h == proposer || h == other {
				continue
			}
			w.wantStatus(h, "promised to "+proposer.name)
			if err := h.proc.f.Reset(w.t.Context()); err != nil {
				t.Errorf("reset %s: %v", h.name, err)
			}
		}
		w.wantOne(15 * time.Second)
		if err := other.proc.f.Reset(w.t.Context()); !errors.Is(err, ErrHasState) {
			t.Errorf("reset of a member: %v, want ErrHasState", err)
		}
	})
}

// TestWrongSeed: two clusters that come to see each other stay two.
func TestWrongSeed(t *testing.T) {
	inWorld(t, 9, func(w *world) {
		w.allowTwo = true
		w.hostsOf(6, 3, 3)
		w.partition(3)
		w.startAll()
		w.run(5 * time.Second)
		before := w.clusters()
		w.heal()
		for _, h := range w.hosts {
			h.stop()
			h.start()
		}
		w.run(20 * time.Second)
		if after := w.clusters(); fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("clusters %q became %q", before, after)
		}
	})
}

// TestRandomSchedules lets instances start, crash, come back and be cut at random, within what the design allows: Expect exceeds half
// of the instances and all but a majority of voters. Never two clusters at a time; one in the end, unless too many processes without
// a disk died to leave one a quorum. QUORUMLOCK_SEED repeats one schedule.
func TestRandomSchedules(t *testing.T) {
	first, n := uint64(time.Now().UnixNano()), 300
	if s := os.Getenv("QUORUMLOCK_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, n = seed, 20
	}
	lost := 0
	for i := range n {
		seed := first
		if os.Getenv("QUORUMLOCK_SEED") == "" {
			seed += uint64(i)
		}
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, seed, func(w *world) { randomSchedule(w, rand.New(rand.NewPCG(seed, 11)), &lost) })
		}) {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("first seed %d; %d of %d schedules lost a quorum for good", first, lost, n)
	if lost > n/4 {
		t.Errorf("%d of %d schedules end without a quorum: they test nothing", lost, n)
	}
}

func randomSchedule(w *world, r *rand.Rand, lost *int) {
	n := 3 + r.IntN(3)
	voters := 3 + 2*r.IntN(2)
	expect := n - r.IntN(2)
	if q := quorum(targetVoters(voters, expect)); expect <= n/2 || expect <= n-q {
		expect = n
	}
	byName := expect == n && r.IntN(3) == 0
	w.hostsOf(n, expect, voters)
	w.delay = time.Duration(1+r.IntN(60)) * time.Millisecond
	w.loss = r.IntN(3) * 10
	memory := r.IntN(3) == 0
	for _, h := range w.hosts {
		h.durable = !memory
		if byName {
			h.cfg.Expect, h.cfg.Founders = 0, []string{"db-1", "db-2", "db-3", "db-4", "db-5"}[:n]
		}
	}
	if r.IntN(2) == 0 {
		w.startAll()
	}
	for range 4 + r.IntN(10) {
		w.run(time.Duration(r.IntN(900)) * time.Millisecond)
		randomEvent(w, r)
	}
	unlock := w.lock()
	w.loss = 0
	clear(w.cut)
	for _, h := range w.hosts {
		h.crash = nil
	}
	unlock()
	w.restartDead()
	for range 120 {
		w.run(500 * time.Millisecond)
		if w.one() {
			return
		}
	}
	if w.lost() {
		*lost++
		return
	}
	w.wantOne(time.Second)
}

func randomEvent(w *world, r *rand.Rand) {
	h := w.hosts[r.IntN(len(w.hosts))]
	switch r.IntN(7) {
	case 0, 1:
		h.start()
	case 2:
		h.stop()
		if r.IntN(2) == 0 {
			h.start()
		}
	case 3:
		unlock := w.lock()
		h.crash = func(string) bool { return w.rng.IntN(4) == 0 }
		unlock()
	case 4:
		unlock := w.lock()
		r.Shuffle(len(w.hosts), func(i, j int) { w.hosts[i], w.hosts[j] = w.hosts[j], w.hosts[i] })
		unlock()
		w.partition(1 + r.IntN(len(w.hosts)-1))
	case 5:
		unlock := w.lock()
		w.cut[[2]*host{h, w.hosts[r.IntN(len(w.hosts))]}] = true
		delete(w.cut, [2]*host{h, h})
		unlock()
	case 6:
		w.heal()
	}
}

// restartDead starts what does not run, or whose Run ended because its store failed in a simulated crash.
func (w *world) restartDead() {
	for _, h := range w.hosts {
		if h.proc != nil && !h.proc.alive {
			h.stop()
		}
		h.start()
	}
}
