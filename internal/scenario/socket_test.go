package scenario_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

// These few tests run in real time, over real sockets and directories; the check for goroutines left behind is TestMain's.

// freeAddr is a loopback address that was free a moment ago, for TCP and UDP alike, and is given once. Its port lies below those that systems hand out
// by themselves: one of those may become the near end of any connection before it is listened on.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+(firstPort+portsGiven.Add(1))%10000)
		if bindable(addr, true) {
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

var (
	firstPort  = rand.Int64N(10000) // apart from those of another process that runs these tests
	portsGiven atomic.Int64
)

// bindable tries UDP, and TCP if asked.
func bindable(addr string, tcp bool) bool {
	p, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	defer p.Close()
	if !tcp {
		return true
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// realCluster opens nodes on loopback that found a cluster together.
func realCluster(t *testing.T, name string, addrs []string, dir string) []*quorumlock.Node {
	t.Helper()
	nodes := make([]*quorumlock.Node, len(addrs))
	var all sync.WaitGroup
	for i, addr := range addrs {
		cfg := quorumlock.Config{Cluster: name, Name: fmt.Sprintf("%s-%d", name, i), Addr: addr, Join: addrs, Expect: len(addrs)}
		if dir != "" {
			cfg.Dir = filepath.Join(dir, cfg.Name)
		}
		all.Go(func() {
			n, err := quorumlock.Open(context.Background(), cfg)
			if err != nil {
				t.Error(err)
				return
			}
			nodes[i] = n
		})
	}
	all.Wait()
	for _, n := range nodes {
		if n == nil {
			t.FailNow()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for i, n := range nodes {
		if err := n.Ready(ctx); err != nil {
			t.Fatalf("%s-%d: %v", name, i, err)
		}
	}
	return nodes
}

func closeAll(t *testing.T, nodes []*quorumlock.Node) {
	t.Helper()
	for _, n := range nodes {
		if err := n.Close(); err != nil {
			t.Logf("close: %v", err) // the last ones have no quorum left to release their sessions with
		}
	}
}

// Two clusters of three in one process share nothing, and come back in their directories and at their addresses.
func TestTwoClustersInOneProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names, addrs := []string{"left", "right"}, make(map[string][]string)
	for _, name := range names {
		addrs[name] = []string{freeAddr(t), freeAddr(t), freeAddr(t)}
	}
	last := make(map[string]quorumlock.Token)
	for range 2 {
		var open []*quorumlock.Node
		for _, name := range names {
			nodes := realCluster(t, name, addrs[name], dir)
			open = append(open, nodes...)
			h := lockIn(t, nodes[0], "k", 10*time.Second) // which is free in the other cluster, too
			if h.Token() <= last[name] {
				t.Errorf("%s: token %v after %v", name, h.Token(), last[name])
			}
			last[name] = h.Token()
		}
		if open[0].ClusterID() == open[3].ClusterID() {
			t.Errorf("one cluster id for two names: %s", open[0].ClusterID())
		}
		closeAll(t, open)
		for _, name := range names {
			for _, addr := range addrs[name] {
				if !bindable(addr, true) {
					t.Errorf("%s is still bound after Close", addr)
				}
			}
		}
	}
}

// S107: a node is opened and closed over and over on one port and in one directory; each time port and files are free when
// Close returns, and the goroutines are gone with the last one (TestMain).
func TestS107OpenAndCloseOnOnePort(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	dir := t.TempDir()
	const rounds = 100 // of the scenario's 200, to stay below ten seconds on a busy machine
	for round := range rounds {
		cfg := onTCP(dir)
		cfg.Addr = addr
		n, err := quorumlock.Open(context.Background(), cfg)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if round%25 == 0 {
			unlock(t, lockIn(t, n, "k", 10*time.Second))
		}
		if err := n.Close(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if !bindable(addr, true) {
			t.Fatalf("round %d: the port is still bound", round)
		}
		if open := filesUnder(dir); open > 0 {
			t.Fatalf("round %d: %d files of the directory are open after Close", round, open)
		}
	}
}

// filesUnder counts the files below dir that this process has open; 0 where the system does not tell.
func filesUnder(dir string) int {
	if runtime.GOOS != "linux" {
		return 0
	}
	count := 0
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if rel, err := filepath.Rel(dir, target); err == nil && filepath.IsLocal(rel) {
			count++
		}
	}
	return count
}

func TestLeaveOverRealSockets(t *testing.T) {
	t.Parallel()
	addrs := []string{freeAddr(t), freeAddr(t), freeAddr(t)}
	nodes := realCluster(t, "leavers", addrs, "")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for i, n := range nodes {
		h := lockIn(t, n, "k", 10*time.Second)
		if err := n.Leave(ctx); err != nil {
			t.Errorf("leave of node %d: %v", i, err)
		}
		if h.Err() == nil {
			t.Errorf("node %d holds a lock after it has left", i)
		}
		if i < 2 { // the lock is free at once, not after a TTL
			unlock(t, lockIn(t, nodes[i+1], "k", 5*time.Second))
		}
	}
}

// S98: the longest names and addresses that Config takes fit into gossip's 512 bytes of metadata; an IPv6 address and a DNS
// name work like any other.
func TestS98LongestNamesFitIntoGossip(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here")
	}
	_ = l.Close()
	name := strings.Repeat("ö", 63) + "-" // 127 bytes
	cluster := strings.Repeat("c", 128)
	first := opened(t, quorumlock.Config{Cluster: cluster, Name: name + "1", Addr: "[::1]:0", Expect: 1})
	defer first.Close()
	_, port, err := net.SplitHostPort(first.Addr())
	if err != nil {
		t.Fatal(err)
	}
	second := opened(t, quorumlock.Config{Cluster: cluster, Name: name + "2", Addr: "[::1]:0", Join: []string{"localhost:" + port, "[::1]:" + port}})
	defer second.Close()
	unlock(t, lockIn(t, second, "k", 10*time.Second))
	if first.ClusterID() != second.ClusterID() {
		t.Errorf("clusters %s and %s", first.ClusterID(), second.ClusterID())
	}
	members, err := second.Members(context.Background())
	if err != nil || len(members) != 2 || members[0].Name == "" || members[1].Name == "" {
		t.Errorf("members %+v, %v", members, err)
	}

	label := strings.Repeat("d", 63)
	dns := strings.Join([]string{label, label, label, label[:57]}, ".") // 249 bytes
	far := opened(t, quorumlock.Config{
		Cluster: cluster, Name: name + "3", Addr: "127.0.0.1:0", Advertise: dns + ":7000", Expect: 1, AllowPlaintext: true,
	})
	if err := far.Close(); err != nil {
		t.Error(err)
	}
}
