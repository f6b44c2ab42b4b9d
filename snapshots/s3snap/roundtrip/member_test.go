package roundtrip

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

// memberVariable makes a process of this test a member: it has its spec.
const memberVariable = "ROUNDTRIP_MEMBER"

// spec is what a member's process is told.
type spec struct {
	Cluster, Name, Dir string
	Join               []string
	Keys               [][]byte
	// Bucket is the URL of the server into which the leader writes by itself; "": it does not.
	Bucket, Prefix, Spool string
}

const snapshotEvery = 5 * time.Second

func (s *spec) config() (quorumlock.Config, func()) {
	cfg := quorumlock.Config{
		Cluster: s.Cluster, Name: s.Name, Dir: s.Dir, Addr: "127.0.0.1:0", Join: s.Join, Expect: 3, Timing: quorumlock.TimingFast, SnapshotKeys: s.Keys,
	}
	stop := func() {}
	if s.Bucket != "" {
		cfg.Snapshots, stop = storeAt(s.Bucket, s.Prefix, s.Spool)
		cfg.SnapshotEvery = snapshotEvery
	}
	return cfg, stop
}

// memberMain is a member's process. It prints its address and, once it is ready, its cluster, and ends by being killed, or with its standard input, which the test has in its hand.
func memberMain(text string) int {
	err := runMember(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runMember(text string) error {
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	cfg, _ := s.config()
	n, err := quorumlock.Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	fmt.Println(n.Addr())
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if err := n.Ready(ctx); err != nil {
		return err
	}
	fmt.Println(n.ClusterID())
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-n.Done():
		return n.Err()
	}
}

// member is such a process.
type member struct {
	spec
	addr    string
	cmd     *exec.Cmd
	input   io.WriteCloser
	lines   chan string
	errors  bytes.Buffer // read once the process is gone
	killing sync.Once
}

func startMember(t *testing.T, s spec) *member {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := &member{spec: s, cmd: exec.Command(self), lines: make(chan string, 2)}
	m.cmd.Env = append(os.Environ(), memberVariable+"="+string(text))
	m.cmd.Stderr = &m.errors
	if m.input, err = m.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(m.lines)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			m.lines <- lines.Text()
		}
	}()
	t.Cleanup(m.kill)
	m.addr = m.line(t)
	return m
}

// line is the next one that it prints.
func (m *member) line(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-m.lines:
		if ok {
			return line
		}
		m.kill()
		t.Fatalf("%s has ended: %s", m.Name, strings.TrimSpace(m.errors.String()))
	case <-time.After(bound):
		t.Fatalf("%s says nothing", m.Name)
	}
	return ""
}

// kill ends it as a power cut does. It may be called again.
func (m *member) kill() {
	m.killing.Do(func() {
		_ = m.cmd.Process.Kill()
		for range m.lines { // Wait closes the pipe
		}
		_ = m.cmd.Wait()
		_ = m.input.Close()
	})
}

// startMembers starts those of a cluster, each of which joins the ones before, and returns when all are ready, and of one cluster.
func startMembers(t *testing.T, specs []spec) (members []*member, cluster string) {
	t.Helper()
	for _, s := range specs {
		s.Join = addrs(members)
		members = append(members, startMember(t, s))
	}
	for i, m := range members {
		switch id := m.line(t); {
		case i == 0:
			cluster = id
		case id != cluster:
			t.Fatalf("%s belongs to cluster %s, %s to %s", m.Name, id, members[0].Name, cluster)
		}
	}
	return members, cluster
}

func addrs(members []*member) (list []string) {
	for _, m := range members {
		list = append(list, m.addr)
	}
	return list
}

// killAll has none of them see another one go.
func killAll(members []*member) {
	for _, m := range members {
		_ = m.cmd.Process.Kill()
	}
	for _, m := range members {
		m.kill()
	}
}

// clientOf is a process's own node outside of the cluster: it lives on when all members are gone.
func clientOf(t *testing.T, cluster, name string, members []*member, keys [][]byte) *quorumlock.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	n, err := quorumlock.Open(ctx, quorumlock.Config{
		Cluster: cluster, Name: name, Role: quorumlock.RoleClient, Join: addrs(members), Timing: quorumlock.TimingFast, SnapshotKeys: keys,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	if err := n.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return n
}
