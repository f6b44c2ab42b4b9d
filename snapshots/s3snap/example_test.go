package s3snap_test

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/snapshots/s3snap"
)

// The leader writes a snapshot into a bucket each hour, encrypted, and keeps those of two weeks.
func Example() {
	var client *s3.Client // as the program configures it
	key, err := os.ReadFile("/etc/orders/snapshot.key")
	if err != nil {
		log.Print(err)
		return
	}
	node, err := quorumlock.Open(context.Background(), quorumlock.Config{
		Cluster: "orders", Addr: "127.0.0.1:7000", Expect: 3, Dir: "/var/lib/orders/quorumlock",
		Snapshots:       s3snap.New(client, "backups", s3snap.Options{Prefix: "quorumlock/"}),
		SnapshotEvery:   time.Hour,
		SnapshotKeepFor: 14 * 24 * time.Hour,
		SnapshotKeys:    [][]byte{key},
	})
	if err != nil {
		log.Print(err)
		return
	}
	defer node.Close()
}
