package scenario_test

// The negative controls of divergence_test.go: without a flip nobody stops.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/transport"
)

// heard counts what the nodes log.
type heard struct {
	mu    sync.Mutex
	words map[string]int
}

// listen gives a logger whose lines are counted by the words that they contain.
func listen(words ...string) (*heard, quorumlocktest.Option) {
	h := &heard{words: make(map[string]int)}
	for _, w := range words {
		h.words[w] = 0
	}
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Debug})
	log.RegisterSink(h)
	return h, quorumlocktest.Logger(log)
}

// Accept implements hclog.SinkAdapter.
func (h *heard) Accept(_ string, _ hclog.Level, msg string, args ...any) {
	line := msg + fmt.Sprintln(args...)
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.words {
		if strings.Contains(line, w) {
			h.words[w]++
		}
	}
}

func (h *heard) times(word string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.words[word]
}

const (
	comparedWords    = "settled true"
	installedWords   = "Installed remote snapshot"
	overwrittenWords = "clearing log suffix"
)

// checkNobodyStopped is the negative control's end.
func checkNobodyStopped(t *testing.T, c *quorumlocktest.Cluster, h *heard, compared int) {
	t.Helper()
	for i := range c.Size() {
		if err := c.Node(i).Err(); err != nil {
			t.Errorf("instance %d: %v", i, err)
		}
	}
	if got := h.times(comparedWords); got < compared {
		t.Errorf("%d comparisons came to an end, want %d", got, compared)
	}
	t.Logf("%d comparisons", h.times(comparedWords))
	c.CheckState()
}

// Without a flip nobody stops: over many hash points, through crashes and restarts, snapshots all the time, one that is installed on a member that was away
// for too long, and members that come and go.
func TestNobodyStopsWithoutAFlip(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h, log := listen(comparedWords, installedWords)
		c := quorumlocktest.New(t, 3, quorumlocktest.HashEvery(8), quorumlocktest.SnapshotBytes(500), log)
		away := others(c, c.Leader())[0]
		c.Isolate(away)
		busy := c.Node(c.LeaderExcept(away))
		var work sync.WaitGroup
		for k := range 4 {
			work.Go(func() { use(busy, fmt.Sprint("k", k), after(busy, 1400)) })
		}
		work.Wait()
		time.Sleep(2 * time.Second) // a snapshot of the last entries is taken, and the log before it is shortened
		before := h.times(installedWords)
		c.Heal()
		c.WaitReady()
		c.CheckState()
		if h.times(installedWords) == before {
			t.Error("no snapshot was installed")
		}
		r := trafficOn(t, c, "k")
		for i := range 3 {
			c.Crash(i)
			time.Sleep(time.Second)
			r.from(c.Start(i))
			c.WaitReady()
			r.flows(10, deadBound+grantBound)
		}
		r.from(c.Node(c.Grow()))
		c.WaitReady()
		c.HandOver(c.Leader())
		r.flows(20, deadBound+grantBound)
		gone := others(c, c.Leader())[0]
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := c.Leave(ctx, gone); err != nil {
			t.Error(err)
		}
		r.from(c.Start(gone)) // as a new member
		c.WaitReady()
		r.flows(20, deadBound+grantBound)
		r.stop()
		checkNobodyStopped(t, c, h, 60)
	})
}

var returns = flag.Int("returns", 12, "how often an old leader comes back amid writes")

// S47: in round after round the leader is cut off while clients on both sides write, and comes back at any instant, perhaps with a write under way and
// together with the next leader's heartbeat. The members compare their states every few entries. More rounds: -args -returns N.
func TestOldLeaderComesBackAmidWrites(t *testing.T) {
	rounds := *returns
	bubble(t, func(t *testing.T) {
		h, log := listen(comparedWords, overwrittenWords)
		c := quorumlocktest.New(t, 3, quorumlocktest.HashEvery(8), log)
		quit := make(chan struct{})
		var work sync.WaitGroup
		for i := range c.Size() {
			work.Go(func() { usePaced(c.Node(i), "k", 25*time.Millisecond, func() bool { return closed(quit) }) })
		}
		for round := range rounds {
			old := c.Leader()
			c.Isolate(old)
			c.LeaderExcept(old)
			time.Sleep(time.Duration(round*37%500) * time.Millisecond) // at any phase of the new leader's heartbeats
			c.Heal()
			time.Sleep(300 * time.Millisecond)
		}
		close(quit)
		work.Wait()
		if h.times(overwrittenWords) == 0 {
			t.Error("no old leader had written what the next one had to overwrite")
		}
		checkNobodyStopped(t, c, h, 10*rounds)
	})
}

// impostor stands where a member that crashed was, under its server id, and answers with whatever it is told to.
type impostor struct {
	asked  atomic.Int64
	answer atomic.Pointer[func() []byte]
}

const methodHashes transport.Method = 7

func newImpostor(t *testing.T, c *quorumlocktest.Cluster, i int, id, cluster string) *impostor {
	t.Helper()
	self := func() string { return cluster }
	e, err := c.Network().Host(c.Host(i)).Listen(transport.Config{
		Addr: c.Host(i) + ":7000", Cluster: "test", ServerID: id, ClusterID: self, AllowPlaintext: true, Logger: hclog.NewNullLogger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &impostor{}
	calls := transport.NewCalls(e, func(_ context.Context, _ transport.Peer, m transport.Method, _ []byte) ([]byte, error) {
		if m != methodHashes {
			return nil, errors.New("not now")
		}
		p.asked.Add(1)
		return (*p.answer.Load())(), nil
	}, nil, transport.CallOptions{})
	t.Cleanup(func() { _ = calls.Close(); _ = e.Close() })
	return p
}

// allWrong are hashes that nobody else has, at every index at which there can be one.
func allWrong(change func(*wire.HashesReply)) []byte {
	r := wire.HashesReply{Level: wire.Level, HashVersion: locktable.HashVersion}
	for index := uint64(hashEvery); index < 40*hashEvery; index += hashEvery {
		r.Points = append(r.Points, wire.HashPoint{Index: index, Hash: [32]byte{1, 2, 3}})
	}
	change(&r)
	return wire.AppendHashesReply(nil, &r)
}

// What one voter of three answers stops nobody, be it malformed, of another cluster, of another state machine, or just wrong.
func TestOneVotersAnswerStopsNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.HashEvery(hashEvery))
		bad := others(c, c.Leader())[0]
		id, cluster := c.Node(bad).ID(), c.Node(bad).ClusterID()
		c.Crash(bad)
		p := newImpostor(t, c, bad, id, cluster)
		rest := others(c, bad)
		for name, answer := range map[string]func() []byte{
			"empty":         func() []byte { return nil },
			"zeros":         func() []byte { return make([]byte, 100) },
			"huge count":    func() []byte { return []byte{1, 0, 1, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f} },
			"cut short":     func() []byte { return allWrong(func(*wire.HashesReply) {})[:50] },
			"other cluster": func() []byte { return allWrong(func(r *wire.HashesReply) { r.ClusterID = "other" }) },
			"other level": func() []byte {
				return allWrong(func(r *wire.HashesReply) { r.ClusterID, r.Level = cluster, wire.Level+1 })
			},
			"wrong": func() []byte { return allWrong(func(r *wire.HashesReply) { r.ClusterID = cluster }) },
		} {
			p.answer.Store(&answer)
			before := p.asked.Load()
			use(c.Node(rest[0]), "k", after(c.Node(rest[0]), 2*hashEvery))
			time.Sleep(2 * time.Second)
			for _, i := range rest {
				if err := c.Node(i).Err(); err != nil {
					t.Fatalf("%s: instance %d: %v", name, i, err)
				}
			}
			if p.asked.Load() == before {
				t.Errorf("%s: nobody asked", name)
			}
		}
		c.CheckState()
	})
}
