package scenario_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

// Over real sockets: the handshake refuses a member of another cluster before gossip hears of it, and the calls of a former member say
// that there is a new cluster all the same.
func TestFormerMemberMeetsTheRecoveredClusterOverSockets(t *testing.T) {
	addrs, dir := []string{freeAddr(t), freeAddr(t)}, t.TempDir()
	nodes := realCluster(t, "pair", addrs, dir)
	for _, n := range nodes {
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	old := nodes[0].ClusterID()
	for _, n := range nodes {
		_ = n.Close() // the last one has no quorum
	}
	config := func(name, addr string) quorumlock.Config {
		return quorumlock.Config{Cluster: "pair", Name: name, Addr: addr, Join: addrs, Dir: filepath.Join(dir, name)}
	}
	if _, err := quorumlock.Recover(t.Context(), config("pair-0", addrs[0]), quorumlock.RecoverOptions{GiveUp: old}); err != nil {
		t.Fatal(err)
	}
	opened := func(cfg quorumlock.Config) *quorumlock.Node {
		n, err := quorumlock.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		return n
	}
	recovered, former := opened(config("pair-0", addrs[0])), opened(config("pair-1", addrs[1]))
	var last error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		last = former.Ready(ctx)
		cancel()
		if errors.Is(last, quorumlock.ErrClusterChanged) {
			break
		}
	}
	if !errors.Is(last, quorumlock.ErrClusterChanged) || strings.Contains(last.Error(), "Recover") || !strings.Contains(last.Error(), recovered.ClusterID()) {
		t.Errorf("the former member says: %v", last)
	}
}
