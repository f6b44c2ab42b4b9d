package scenario_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

// S97, S98: addresses that peers could not use, and names too long to be told, are refused by the option to change, before
// anything is written.
func TestS97AddressesThatNobodyCouldUse(t *testing.T) {
	t.Parallel()
	for _, bad := range []struct {
		field string
		set   func(*quorumlock.Config)
	}{
		{"Addr", func(c *quorumlock.Config) { c.Join = []string{"10.0.0.1:7000"} }},
		{"Addr", func(c *quorumlock.Config) { c.Join = []string{"127.0.0.1:7000", "[2001:db8::1]:7000"} }},
		{"Addr", func(c *quorumlock.Config) { c.Addr, c.Join = "[::1]:0", []string{"100.64.0.1:7000"} }},
		{"Advertise", func(c *quorumlock.Config) {
			c.Addr, c.Advertise, c.Join = ":0", "127.0.0.1:7000", []string{"203.0.113.9:7000"}
		}},
		{"Advertise", func(c *quorumlock.Config) {
			c.Addr, c.Advertise, c.Join = ":0", "localhost:7000", []string{"10.0.0.1:7000"}
		}},
		{"Advertise", func(c *quorumlock.Config) { c.Advertise = "0.0.0.0:7000" }},
		{"Advertise", func(c *quorumlock.Config) { c.Advertise = "[::]:7000" }},
		{"Advertise", func(c *quorumlock.Config) { c.Advertise = strings.Repeat("d", 254) + ":7000" }},
		{"Join", func(c *quorumlock.Config) { c.Join = []string{strings.Repeat("d", 254) + ":7000"} }},
		{"Name", func(c *quorumlock.Config) { c.Name = strings.Repeat("n", 5000) }},
		{"Expect", func(c *quorumlock.Config) { c.Expect = 1 << 17 }},
	} {
		cfg := onTCP(filepath.Join(t.TempDir(), "data"))
		cfg.AllowPlaintext = true
		bad.set(&cfg)
		refuses(t, cfg, bad.field)
	}
}

// S97: hosts of every kind are told as they were given: public, only IPv6, shared address space, a name.
func TestS97AdvertisedAsGiven(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"203.0.113.5:7000", "[2001:db8::5]:7000", "100.64.3.2:7000", "web-1.internal:7000", "10.1.2.3:7001"} {
		n := opened(t, quorumlock.Config{Cluster: "told", Name: "n", Addr: "127.0.0.1:0", Advertise: addr, Expect: 1, AllowPlaintext: true})
		if got := n.Addr(); got != addr {
			t.Errorf("told %s, want %s", got, addr)
		}
		members, err := n.Members(context.Background(), quorumlock.Local())
		if err != nil || len(members) != 1 || members[0].Addr != addr {
			t.Errorf("members %+v, %v", members, err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
}

// S97: each node has a network interface of its own (loopback addresses stand for them), or listens on all of them, or is
// behind a NAT that forwards another port, streams and datagrams. Either way they found a cluster, and know each other by what
// is advertised.
func TestS97InterfacesAndNAT(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only 127.0.0.1 is an address of this system's loopback interface")
	}
	for name, place := range map[string]func(t *testing.T, cfg *quorumlock.Config, i int){
		"own interface": func(_ *testing.T, cfg *quorumlock.Config, i int) { cfg.Addr = onInterface(cfg.Addr, i) },
		"all interfaces": func(_ *testing.T, cfg *quorumlock.Config, i int) {
			cfg.Advertise = onInterface(cfg.Addr, i)
			_, port, _ := net.SplitHostPort(cfg.Addr)
			cfg.Addr = "0.0.0.0:" + port
		},
		"nat": func(t *testing.T, cfg *quorumlock.Config, _ int) {
			cfg.Advertise = freeAddr(t)
			forward(t, cfg.Advertise, cfg.Addr)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			configs := make([]quorumlock.Config, 3)
			var told []string
			for i := range configs {
				cfg := quorumlock.Config{Cluster: "places", Name: fmt.Sprint("n", i), Addr: freeAddr(t), Expect: 3, AllowPlaintext: true}
				place(t, &cfg, i)
				addr := cfg.Advertise
				if addr == "" {
					addr = cfg.Addr
				}
				configs[i], told = cfg, append(told, addr)
			}
			var nodes []*quorumlock.Node
			for _, cfg := range configs {
				cfg.Join = told
				n, err := quorumlock.Open(context.Background(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = n.Close() })
				nodes = append(nodes, n)
			}
			for i, n := range nodes {
				readyIn(t, n, 20*time.Second)
				if n.Addr() != told[i] {
					t.Errorf("node %d tells %s, want %s", i, n.Addr(), told[i])
				}
			}
			for _, n := range nodes {
				unlock(t, lockIn(t, n, "k", 10*time.Second))
			}
		})
	}
}

// onInterface moves a loopback address to another one of the same machine.
func onInterface(addr string, i int) string {
	_, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf("127.0.0.%d:%s", i+2, port)
}

// forward passes on what comes to one address to another one, as a NAT does, until the test ends. Answers to datagrams go
// directly, to where their sender says that it is.
func forward(t *testing.T, from, to string) {
	t.Helper()
	l, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	in, err := net.ListenPacket("udp", from)
	if err != nil {
		t.Fatal(err)
	}
	out, err := net.Dial("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_, _, _ = l.Close(), in.Close(), out.Close()
		running.Wait()
	})
	running.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			n, _, err := in.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = out.Write(buf[:n])
		}
	})
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { splice(c, to) })
		}
	})
}

// splice passes on a stream in both directions, until one of its ends is closed.
func splice(c net.Conn, to string) {
	defer c.Close()
	d, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer d.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(c, d)
		_ = c.Close()
	})
	_, _ = io.Copy(d, c)
	_ = d.Close()
	back.Wait()
}
