//go:build !wasip1

package gossip

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/quorumlock/quorumlock/transport"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// forms are the implementations that the conformance suite holds to the contract.
var forms = map[string]func(Options) (Gossip, error){"memberlist": NewMemberlist, "memory": NewMemory}

// eachForm runs f for each form, in a bubble of its own.
func eachForm(t *testing.T, f func(t *testing.T, p *pool)) {
	for name, open := range forms {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pool{t: t, open: open, net: transport.NewMemory(1), log: &logLines{}}
				defer p.closeAll()
				f(t, p)
			})
		})
	}
}

// pool is a simulated network with instances on it.
type pool struct {
	t     *testing.T
	open  func(Options) (Gossip, error)
	net   *transport.Memory
	log   *logLines
	nodes []*instance
	boots int
}

type instance struct {
	Gossip
	ep   transport.Endpoint
	host string
	id   string
	boot string

	mu        sync.Mutex
	changes   int
	conflicts [][3]string
}

// literally resolves a host of the simulated network to itself.
func literally(_ context.Context, host string) ([]string, error) { return []string{host}, nil }

func (p *pool) start(host, id string, change ...func(*Options)) *instance {
	p.t.Helper()
	p.boots++
	n := &instance{host: host, id: id, boot: fmt.Sprintf("boot-%d", p.boots)}
	opt := Options{
		ServerID: id, Cluster: "test", Meta: Meta{Name: "name-" + id, Boot: n.boot, Expect: 3},
		Seeds: []string{"h1:7000"}, Resolve: literally, Logger: p.log.logger(),
		OnChange: func() { n.mu.Lock(); n.changes++; n.mu.Unlock() },
		OnConflict: func(id, a, b string) {
			n.mu.Lock()
			n.conflicts = append(n.conflicts, [3]string{id, a, b})
			n.mu.Unlock()
		},
	}
	for _, f := range change {
		f(&opt)
	}
	var err error
	n.ep, err = p.net.Host(host).Listen(transport.Config{
		Addr: host + ":7000", Cluster: opt.Cluster, ServerID: id,
		ClusterID: func() string { return "" }, AllowPlaintext: true,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	opt.Endpoint = n.ep
	if n.Gossip, err = p.open(opt); err != nil {
		p.t.Fatal(err)
	}
	p.nodes = append(p.nodes, n)
	return n
}

func (p *pool) three() (a, b, c *instance) {
	p.t.Helper()
	a, b, c = p.start("h1", "a"), p.start("h2", "b"), p.start("h3", "c")
	p.within(3*time.Second, "three find each other", func() bool { return sees("a b c", a, b, c) })
	return a, b, c
}

// kill ends an instance without a word to anybody.
func (p *pool) kill(n *instance) {
	p.net.Crash(n.host)
	p.close(n)
}

func (p *pool) close(n *instance) {
	if err := n.Close(); err != nil {
		p.t.Errorf("Close of %s: %v", n.id, err)
	}
	if err := n.ep.Close(); err != nil {
		p.t.Errorf("Close of the endpoint of %s: %v", n.id, err)
	}
	p.nodes = slices.DeleteFunc(p.nodes, func(o *instance) bool { return o == n })
}

func (p *pool) closeAll() {
	for _, n := range slices.Clone(p.nodes) {
		p.close(n)
	}
}

// within waits for ok in the bubble's time.
func (p *pool) within(limit time.Duration, what string, ok func() bool) {
	p.t.Helper()
	const step = 50 * time.Millisecond
	start := time.Now()
	for ; time.Since(start) <= limit; time.Sleep(step) {
		synctest.Wait() // hooks run beside what they tell of
		if ok() {
			p.t.Logf("%s: after %v", what, time.Since(start).Round(step))
			return
		}
	}
	for _, n := range p.nodes {
		p.t.Logf("%s at %s sees %q", n.id, n.host, n.view())
	}
	p.t.Fatalf("%s: not within %v", what, limit)
}

// never watches that ok stays false for the whole time.
func (p *pool) never(during time.Duration, what string, ok func() bool) {
	p.t.Helper()
	for start := time.Now(); time.Since(start) < during; time.Sleep(50 * time.Millisecond) {
		if ok() {
			p.t.Fatalf("%s after %v", what, time.Since(start))
		}
	}
}

func (n *instance) view() string {
	var ids []string
	for _, m := range n.Members() {
		ids = append(ids, m.ServerID)
	}
	return strings.Join(ids, " ")
}

func (n *instance) member(id string) (Member, bool) {
	for _, m := range n.Members() {
		if m.ServerID == id {
			return m, true
		}
	}
	return Member{}, false
}

func (n *instance) seesAt(id, addr string) bool {
	m, ok := n.member(id)
	at, known := n.Lookup(id)
	return ok && m.Addr == addr && known && at == addr
}

func (n *instance) told() [][3]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.conflicts)
}

func (n *instance) changeCount() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changes
}

// sees says whether all of nodes have exactly the members ids, which are in order.
func sees(ids string, nodes ...*instance) bool {
	for _, n := range nodes {
		if n.view() != ids {
			return false
		}
	}
	return true
}

// logLines keeps what is logged.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

func (l *logLines) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: l, DisableTime: true})
}

func (l *logLines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func allStacks() string {
	for size := 1 << 20; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return string(buf[:n])
		}
	}
}
