package quorumlock_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/snapshots/dirsnap"
)

// The leader writes a snapshot into a directory that all instances have mounted, once in an hour, and keeps those of a
// week.
func ExampleNode_SnapshotStatus() {
	node, err := quorumlock.Open(context.Background(), quorumlock.Config{
		Cluster: "orders", Dir: "/var/lib/orders/locks", Expect: 3,
		Snapshots: dirsnap.New("/mnt/backups/orders"), SnapshotEvery: time.Hour, SnapshotKeepFor: 7 * 24 * time.Hour,
	})
	if err != nil {
		log.Print(err)
		return
	}
	defer node.Close()
	if s := node.SnapshotStatus(); s.Overdue {
		log.Printf("nothing saved since %v: %v", s.Covered, s.Err)
	}
}

// A snapshot on demand, and a look into it.
func ExampleVerifySnapshot() {
	ctx := context.Background()
	node, err := quorumlock.Open(ctx, quorumlock.Config{Cluster: "orders", Expect: 1})
	if err != nil {
		log.Print(err)
		return
	}
	defer node.Close()
	hold, err := quorumlock.NewMutex(node, "job-x").Lock(ctx)
	if err != nil {
		log.Print(err)
		return
	}
	var file bytes.Buffer
	if _, err := node.Snapshot(ctx, &file); err != nil {
		log.Print(err)
		return
	}
	info, err := quorumlock.VerifySnapshot(ctx, &file, nil)
	fmt.Println(info.Cluster, info.Holds, info.TokensUpTo >= hold.Token(), err)
	// Output: orders 1 true <nil>
}

// All directories are lost. On one machine, whose directory is empty, an operator's tool makes a new cluster of the
// newest snapshot; then the service is started there, and the others with empty directories.
func ExampleRestore() {
	ctx := context.Background()
	store := dirsnap.New("/mnt/backups/orders")
	list, err := quorumlock.ListSnapshots(ctx, store, "orders")
	if err != nil || len(list) == 0 {
		log.Print("nothing to restore: ", err)
		return
	}
	file, err := store.Open(ctx, list[0].Name)
	if err != nil {
		log.Print(err)
		return
	}
	defer file.Close()
	cfg := quorumlock.Config{Cluster: "orders", Dir: "/var/lib/orders/locks", Expect: 3}
	done, err := quorumlock.Restore(ctx, cfg, quorumlock.RestoreOptions{From: file})
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(done)
}
