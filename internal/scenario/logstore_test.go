package scenario_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

// Nodes that keep their logs in different ways are one cluster, and come back in their directories whatever is asked for then.
func TestLogStoresMix(t *testing.T) {
	t.Parallel()
	dir, addrs := t.TempDir(), []string{freeAddr(t), freeAddr(t), freeAddr(t)}
	made := []quorumlock.LogStore{quorumlock.LogStoreBolt, quorumlock.LogStoreSegments, quorumlock.LogStoreSegments}
	asked := made
	var last quorumlock.Token
	for range 3 {
		nodes := make([]*quorumlock.Node, len(addrs))
		var opening sync.WaitGroup
		for i := range addrs {
			opening.Go(func() { nodes[i] = mixedNode(t, dir, addrs, i, asked[i]) })
		}
		opening.Wait()
		if t.Failed() {
			t.FailNow()
		}
		var all sync.WaitGroup
		for i, n := range nodes {
			for c := range 4 {
				all.Go(func() {
					for range 20 {
						lockIn(t, n, fmt.Sprintf("own-%d-%d", i, c), 10*time.Second).Unlock()
					}
				})
			}
		}
		all.Wait()
		h := lockIn(t, nodes[1], "k", 10*time.Second)
		if h.Token() <= last {
			t.Errorf("token %v after %v", h.Token(), last)
		}
		last = h.Token()
		closeAll(t, nodes)
		asked = []quorumlock.LogStore{quorumlock.LogStoreSegments, quorumlock.LogStoreBolt, quorumlock.LogStoreDefault}
	}
	for i, kind := range made {
		_, err := os.Stat(filepath.Join(dir, fmt.Sprint(i), "log"))
		if (err == nil) != (kind == quorumlock.LogStoreSegments) {
			t.Errorf("node %d was made with %v: %v", i, kind, err)
		}
	}
}

func mixedNode(t *testing.T, dir string, addrs []string, i int, kind quorumlock.LogStore) *quorumlock.Node {
	n, err := quorumlock.Open(context.Background(), quorumlock.Config{
		Cluster: "mixed", Name: fmt.Sprint("mixed-", i), Addr: addrs[i], Join: addrs, Expect: len(addrs),
		Dir: filepath.Join(dir, fmt.Sprint(i)), LogStore: kind,
	})
	if err != nil {
		t.Error(err)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := n.Ready(ctx); err != nil {
		t.Error(err)
	}
	return n
}
