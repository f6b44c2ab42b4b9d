//go:build !wasip1

package gossip

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/quorumlock/quorumlock/transport"
	"go.uber.org/goleak"
)

// tcpNode runs over real sockets; what the simulated network can not show is whether Close leaves anything behind there.
func tcpNode(t *testing.T, id string, seeds ...string) (Gossip, transport.Endpoint) {
	t.Helper()
	ep, err := transport.TCP().Listen(transport.Config{
		Addr: "127.0.0.1:0", Cluster: "test", ServerID: id, ClusterID: func() string { return "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewMemberlist(Options{Endpoint: ep, ServerID: id, Cluster: "test", Seeds: seeds, Keys: [][]byte{bytes.Repeat([]byte{7}, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	return g, ep
}

func awaitMembers(t *testing.T, want int, nodes ...Gossip) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		ok := true
		for _, g := range nodes {
			ok = ok && len(g.Members()) == want
		}
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not %d members", want)
		}
	}
}

// Nothing may be left when Close of the gossip returns, the endpoint still being open: not even for a moment.
func TestCloseLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	a, epA := tcpNode(t, "a")
	defer epA.Close()
	b, epB := tcpNode(t, "b", epA.Advertise())
	awaitMembers(t, 2, a, b)
	if err := errors.Join(b.Leave(), b.Close(), epB.Close()); err != nil {
		t.Error(err)
	}
	awaitMembers(t, 1, a)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if n := countGoroutines(t, "memberlist"); n > 0 {
		t.Errorf("%d goroutines of memberlist are left", n)
	}
	if n := countGoroutines(t, "internal/gossip.(*"); n > 0 {
		t.Errorf("%d goroutines of this package are left", n)
	}
	epA.Close()
	goleak.VerifyNone(t, before)
}

// The longest goroutine of memberlist is a probe of a dead peer.
func TestCloseWhileProbingTheDead(t *testing.T) {
	a, epA := tcpNode(t, "a")
	defer epA.Close()
	b, epB := tcpNode(t, "b", epA.Advertise())
	awaitMembers(t, 2, a, b)
	epB.Close() // b is dead to a, without a word
	b.Close()
	awaitProbe(t, true)
	start := time.Now()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if n := countGoroutines(t, "memberlist"); n > 0 {
		t.Errorf("%d goroutines of memberlist are left", n)
	}
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("Close took %v", d)
	}
}

func TestStartAndCloseOften(t *testing.T) {
	a, epA := tcpNode(t, "a")
	defer epA.Close()
	defer a.Close()
	for range 20 {
		b, epB := tcpNode(t, "b", epA.Advertise())
		if err := errors.Join(epB.Close(), b.Close()); err != nil { // this order must do too
			t.Fatal(err)
		}
	}
}

// awaitProbe waits until a probe, after which there is nobody to answer it, is under way or is over.
func awaitProbe(t *testing.T, underWay bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); (countGoroutines(t, ").probeNode") > 0) != underWay; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no probe of the dead was seen, under way %v: the test shows nothing", underWay)
		}
	}
}

// countGoroutines counts those, other than the caller's, whose stack contains text.
func countGoroutines(t *testing.T, text string) int {
	t.Helper()
	count := 0
	for _, stack := range strings.Split(allStacks(), "\n\n")[1:] {
		if strings.Contains(stack, text) && !strings.Contains(stack, "testing.(*T).Run") {
			count++
		}
	}
	return count
}

func TestNothingOnStderr(t *testing.T) {
	old := os.Stderr
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stderr = w
	a, epA := tcpNode(t, "a", "127.0.0.1:1")
	b, epB := tcpNode(t, "b", epA.Advertise())
	awaitMembers(t, 2, a, b)
	epB.Close()
	awaitProbe(t, true)
	awaitProbe(t, false) // it has failed, since there is nobody
	b.Close()
	a.Close()
	epA.Close()
	os.Stderr = old
	w.Close()
	var out bytes.Buffer
	if _, err := out.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		t.Errorf("on stderr: %s", out.String())
	}
}

func TestUnspecifiedAdvertiseIsRefused(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:7000", "[::]:7000", ":7000", "[::ffff:0.0.0.0]:7000", "host", "host:0"} {
		for name, open := range forms {
			if _, err := open(Options{Endpoint: fixedEndpoint{addr: addr}, ServerID: "a"}); err == nil {
				t.Errorf("%s accepted %s", name, addr)
			}
		}
	}
}

// fixedEndpoint only has an address.
type fixedEndpoint struct {
	transport.Endpoint
	addr string
}

func (e fixedEndpoint) Advertise() string { return e.addr }

func TestAliases(t *testing.T) {
	var book addressBook
	for addr, alias := range map[string]bool{
		"10.0.0.1:7000": false, "[fd00::2]:7000": false, "pod-0.locks.svc:7000": true, "[::ffff:10.0.0.1]:7000": true, "[FD00::2]:7000": true,
		"[fe80::1%eth0]:7000": true,
	} {
		ip, port, err := book.node(addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.HasPrefix(ip, aliasPrefix[:]); got != alias {
			t.Errorf("%s has alias: %v", addr, got)
		}
		if got := book.dialable(joinHostPort(ip.String(), port)); got != addr {
			t.Errorf("%s comes back as %s", addr, got)
		}
		var other addressBook
		if ip2, _, _ := other.node(addr); !ip2.Equal(ip) {
			t.Errorf("two members have different aliases for %s", addr)
		}
	}
}

func TestMemberlistLogLevels(t *testing.T) {
	for _, c := range []struct {
		line  string
		level hclog.Level
		text  string
	}{
		{"[ERR] memberlist: Failed fallback TCP ping: EOF\n", hclog.Debug, "Failed fallback TCP ping: EOF"},
		{"[DEBUG] memberlist: Stream connection from=1.2.3.4:5\n", hclog.Trace, "Stream connection from=1.2.3.4:5"},
		{"[ERR] memberlist: Decrypt packet failed: no from=x\n", hclog.Warn, "Decrypt packet failed: no from=x"},
		{"Err: Could not set the deadline\n", hclog.Debug, "Err: Could not set the deadline"},
	} {
		if level, text := splitLevel(c.line); level != c.level || text != c.text {
			t.Errorf("%q: %v %q", c.line, level, text)
		}
	}
}

// A resolver that hangs must hold up neither the start nor the end.
func TestHangingResolver(t *testing.T) {
	for name, open := range forms {
		ep, err := transport.NewMemory(1).Host("h").Listen(transport.Config{Addr: "h:1", Cluster: "c", ServerID: "a",
			ClusterID: func() string { return "" }, AllowPlaintext: true})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		g, err := open(Options{Endpoint: ep, ServerID: "a", Cluster: "c", Seeds: []string{"nowhere:1"},
			Resolve: func(ctx context.Context, _ string) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() }})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(g.Close(), ep.Close()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("%s: start and end took %v", name, d)
		}
	}
}
