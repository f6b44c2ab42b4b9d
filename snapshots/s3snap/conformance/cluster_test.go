package conformance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A node that works writes into a bucket by itself; its directory is lost, and another one is made from the bucket.
func TestThereAndBack(t *testing.T) {
	store := storeAt(t, inMemory(t, nil), "quorumlock/", 3)
	key := bytes.Repeat([]byte{3}, 32)
	dir := t.TempDir()
	config := func(name string) quorumlock.Config {
		return quorumlock.Config{
			Cluster: "orders", Name: name, Addr: freeAddr(t), Expect: 1, Dir: filepath.Join(dir, name),
			Snapshots: store, SnapshotEvery: time.Second, SnapshotKeep: 2, SnapshotKeys: [][]byte{key},
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := quorumlock.Open(ctx, config("lost"))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := n.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	var last quorumlock.Token
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		h, err := quorumlock.NewMutex(n, "k").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		last = h.Token()
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	if s := n.SnapshotStatus(); s.Err != nil || s.Overdue || s.Last.Name == "" {
		t.Errorf("%+v", s)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	list, err := quorumlock.ListSnapshots(ctx, store, "orders")
	if err != nil || len(list) != 2 || list[0].TokensUpTo <= list[1].TokensUpTo {
		t.Fatalf("%+v, %v", list, err)
	}
	restore := func(cfg quorumlock.Config) (*quorumlock.Restoration, error) {
		r, err := store.Open(ctx, list[0].Name)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		return quorumlock.Restore(ctx, cfg, quorumlock.RestoreOptions{From: io.Reader(r)})
	}
	without := config("found")
	without.SnapshotKeys = nil
	if _, err := restore(without); !errors.Is(err, quorumlock.ErrSnapshotKey) {
		t.Errorf("without the key: %v", err)
	}
	cfg := config("found")
	r, err := restore(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.TokensAbove <= last || r.Snapshot.Name != "" || r.Snapshot.ClusterID == r.ClusterID {
		t.Errorf("%+v after token %v", r, last)
	}
	m, err := quorumlock.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := quorumlock.NewMutex(m, "k").TryLock(ctx); !errors.Is(err, quorumlock.ErrQuarantine) || m.ClusterID() != r.ClusterID {
		t.Errorf("cluster %s: %v", m.ClusterID(), err)
	}
	// The restored cluster has snapshots of its own, and leaves those of the lost one where they are.
	for found := []quorumlock.StoredSnapshot(nil); len(found) < 3; time.Sleep(100 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%+v", found)
		}
		if found, err = quorumlock.ListSnapshots(ctx, store, "orders"); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range list {
		r, err := store.Open(ctx, s.Name)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		_ = r.Close()
	}
}
