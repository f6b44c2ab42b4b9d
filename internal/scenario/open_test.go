package scenario_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

// onTCP is the Config of a node alone on real sockets, with a real directory if dir is not empty.
func onTCP(dir string) quorumlock.Config {
	return quorumlock.Config{Cluster: "test", Name: "node", Dir: dir, Expect: 1}
}

// refuses fails the test unless Open refuses cfg, blames the given field, and writes nothing into its directory.
//
// The files that a live node of the same directory may write meanwhile are named in live.
func refuses(t *testing.T, cfg quorumlock.Config, field string, live ...string) error {
	t.Helper()
	untouched := func() map[string]string {
		files := contents(t, cfg.Dir)
		for _, name := range live {
			maps.DeleteFunc(files, func(path, _ string) bool { return strings.HasPrefix(path, filepath.Join(cfg.Dir, name)) })
		}
		return files
	}
	before := untouched()
	n, err := quorumlock.Open(context.Background(), cfg)
	if err == nil {
		_ = n.Close()
		t.Fatalf("opened with a bad %s", field)
	}
	if !errors.Is(err, quorumlock.ErrInvalid) || !blames(err, "Config."+field) {
		t.Errorf("error for %s: %v", field, err)
	}
	if after := untouched(); !maps.Equal(before, after) {
		t.Errorf("bad %s: directory was %v, is %v", field, before, after)
	}
	return err
}

// blames looks for a *FieldError of the field anywhere in err's tree.
func blames(err error, field string) bool {
	if e, ok := err.(*quorumlock.FieldError); ok {
		return e.Field == field
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return blames(e.Unwrap(), field)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if blames(one, field) {
				return true
			}
		}
	}
	return false
}

// contents is every file below dir with its hash; nil where there is no dir.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	if _, err := os.Stat(dir); dir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	list := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			list[path] = "directory"
			return err
		}
		data, err := os.ReadFile(path)
		list[path] = fmt.Sprintf("%x", sha256.Sum256(data))[:12]
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestOpenNamesTheBadField(t *testing.T) {
	t.Parallel()
	long, config := strings.Repeat("x", 200), &tls.Config{}
	for _, bad := range []struct {
		field string
		set   func(*quorumlock.Config)
	}{
		{"Cluster", func(c *quorumlock.Config) { c.Cluster = "" }},
		{"Cluster", func(c *quorumlock.Config) { c.Cluster = long }},
		{"Cluster", func(c *quorumlock.Config) { c.Cluster = "a\x00b" }},
		{"Cluster", func(c *quorumlock.Config) { c.Cluster = "\xff" }},
		{"Name", func(c *quorumlock.Config) { c.Name = long }},
		{"Name", func(c *quorumlock.Config) { c.Name = "a\nb" }},
		{"Addr", func(c *quorumlock.Config) { c.Addr = "localhost" }},
		{"Addr", func(c *quorumlock.Config) { c.Addr = "localhost:http" }},
		{"Addr", func(c *quorumlock.Config) { c.Addr = "localhost:70000" }},
		{"Addr", func(c *quorumlock.Config) { c.Addr = "::1:7000" }},
		{"Addr", func(c *quorumlock.Config) { c.Addr = "192.0.2.1:7000"; c.AllowPlaintext = true }},
		{"AllowPlaintext", func(c *quorumlock.Config) { c.Addr = "0.0.0.0:0"; c.Advertise = "192.0.2.1:7000" }},
		{"Advertise", func(c *quorumlock.Config) { c.Addr = "0.0.0.0:0"; c.AllowPlaintext = true }},
		{"Advertise", func(c *quorumlock.Config) { c.Advertise = "[::1]:0" }},
		{"Advertise", func(c *quorumlock.Config) { c.Advertise = ":7000" }},
		{"Join", func(c *quorumlock.Config) { c.Join = []string{"127.0.0.1:7000", "nowhere"} }},
		{"Join", func(c *quorumlock.Config) { c.Join = []string{"host:0"} }},
		{"Join", func(c *quorumlock.Config) { c.Expect, c.Dir = 0, "" }},
		{"Expect", func(c *quorumlock.Config) { c.Expect = -1 }},
		{"Expect", func(c *quorumlock.Config) { c.Founders = []string{"node"} }},
		{"Founders", func(c *quorumlock.Config) { c.Expect, c.Founders = 0, []string{"node", "node"} }},
		{"Founders", func(c *quorumlock.Config) { c.Expect, c.Founders = 0, []string{"node", ""} }},
		{"Founders", func(c *quorumlock.Config) { c.Expect, c.Founders = 0, []string{"node", "b", "c", "d"} }},
		{"ClusterID", func(c *quorumlock.Config) { c.ClusterID = "1234" }},
		{"Timing", func(c *quorumlock.Config) { c.Timing.Heartbeat = time.Millisecond }},
		{"Timing", func(c *quorumlock.Config) {
			c.Timing = quorumlock.Timing{Heartbeat: time.Minute, Election: time.Minute, Lease: time.Second}
		}},
		{"Timing", func(c *quorumlock.Config) {
			c.Timing = quorumlock.Timing{Heartbeat: time.Second, Election: time.Second, Lease: 2 * time.Second}
		}},
		{"Voters", func(c *quorumlock.Config) { c.Voters = 2 }},
		{"Voters", func(c *quorumlock.Config) { c.Voters = -1 }},
		{"LogStore", func(c *quorumlock.Config) { c.LogStore = -1 }},
		{"LogStore", func(c *quorumlock.Config) { c.LogStore = quorumlock.LogStoreSegments + 1 }},
		{"SessionTTL", func(c *quorumlock.Config) { c.SessionTTL = time.Second }},
		{"SessionTTL", func(c *quorumlock.Config) { c.SessionTTL = time.Hour }},
		{"SessionTTL", func(c *quorumlock.Config) { c.SessionTTL = 6*time.Second + 1 }},
		{"TLS", func(c *quorumlock.Config) { c.TLS = &quorumlock.TLSConfig{Server: config} }},
		{"GossipKeys", func(c *quorumlock.Config) { c.GossipKeys = [][]byte{make([]byte, 16), make([]byte, 15)} }},
	} {
		cfg := onTCP(filepath.Join(t.TempDir(), "data"))
		bad.set(&cfg)
		if err := refuses(t, cfg, bad.field); strings.Contains(err.Error(), long) {
			t.Errorf("the error repeats a value of any length: %v", err)
		}
	}
}

func TestOpenTellsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	cfg := quorumlock.Config{Voters: 4, SessionTTL: time.Millisecond, Addr: "x", Expect: -1, GossipKeys: [][]byte{nil}}
	_, err := quorumlock.Open(context.Background(), cfg)
	for _, field := range []string{"Cluster", "Voters", "SessionTTL", "Addr", "Expect", "GossipKeys"} {
		if !blames(err, "Config."+field) {
			t.Errorf("%s is missing in: %v", field, err)
		}
	}
}

func TestOpenOnAnAddressInUse(t *testing.T) {
	t.Parallel()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for _, addr := range []net.Addr{tcp.Addr(), udp.LocalAddr()} {
		cfg := onTCP(filepath.Join(t.TempDir(), "data"))
		cfg.Addr = addr.String()
		refuses(t, cfg, "Addr")
	}
}

func TestOpenOnADirectoryThatIsNotOurs(t *testing.T) {
	t.Parallel()
	used := t.TempDir()
	id := foundIn(t, used)
	if id == "" {
		t.Fatal("no cluster was founded")
	}

	foreign := onTCP(used)
	foreign.Cluster = "another"
	refuses(t, foreign, "Dir")

	pinned := onTCP(used)
	pinned.Expect, pinned.ClusterID = 0, strings.Repeat("0", len(id))
	refuses(t, pinned, "ClusterID")

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("not a directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, onTCP(file), "Dir")

	n := opened(t, onTCP(used)) // it is none the worse for it
	if n.ClusterID() != id {
		t.Errorf("cluster %s has become %s", id, n.ClusterID())
	}
	refuses(t, onTCP(used), "Dir", "raft.db", "log")
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	pinned.ClusterID = id
	if n = opened(t, pinned); n.ClusterID() != id {
		t.Errorf("pinned to %s, belongs to %s", id, n.ClusterID())
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

func opened(t *testing.T, cfg quorumlock.Config) *quorumlock.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	n, err := quorumlock.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Ready(ctx); err != nil {
		_ = n.Close()
		t.Fatal(err)
	}
	return n
}

// foundIn makes a cluster of one in dir, closes it and returns the cluster's id.
func foundIn(t *testing.T, dir string) string {
	t.Helper()
	n := opened(t, onTCP(dir))
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	return n.ClusterID()
}

// childDir tells a child process of this test binary which directory to hold.
const childDir = "QUORUMLOCK_SCENARIO_DIR"

// holdDir is the child: it opens a node on dir, says so, and keeps it until its input ends.
func holdDir(dir string) int {
	n, err := quorumlock.Open(context.Background(), onTCP(dir))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("open")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	_ = n.Close()
	return 0
}

func TestOpenOnADirectoryOfAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+dir)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }()
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
		t.Fatalf("child: %q, %v", line, err)
	}
	_, err = quorumlock.Open(context.Background(), onTCP(dir))
	if !blames(err, "Config.Dir") || !strings.Contains(err.Error(), fmt.Sprint(child.Process.Pid)) {
		t.Errorf("directory of process %d: %v", child.Process.Pid, err)
	}
	// kill -9 frees the directory at once.
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if err := opened(t, onTCP(dir)).Close(); err != nil {
		t.Error(err)
	}
}
