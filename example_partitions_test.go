package quorumlock_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock"
)

// partitions is how many parts the items have, for ever: several times as many as there will ever be instances.
const partitions = 8

func partition(item string) uint64 {
	sum := sha256.Sum256([]byte(item))
	return binary.BigEndian.Uint64(sum[:]) % partitions
}

// owned is what an instance owns, each partition with the token of its grant.
type owned map[uint64]*quorumlock.Hold

// take locks free partitions until there are enough.
func (o owned) take(ctx context.Context, owner quorumlock.Owner, enough int) {
	for p := uint64(0); p < partitions && len(o) < enough; p++ {
		h, err := quorumlock.NewMutex(owner, fmt.Sprint("orders/", p)).TryLock(ctx)
		if errors.Is(err, quorumlock.ErrLocked) {
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		o[p] = h
	}
}

// A service that works on many items locks partitions of them, and keeps the locks: one grant serves every item of the
// partition for as long as it is held, and the cluster has nothing to do. Each write takes the partition's token along.
func Example_partitions() {
	ctx := context.Background()
	node, err := quorumlock.Open(ctx, quorumlock.Config{Cluster: "orders", Expect: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	// Two instances, each with a node of its own in a real service.
	first, err := node.NewSession(ctx, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	mine := make(owned)
	mine.take(ctx, first, partitions/2)
	theirs := make(owned)
	theirs.take(ctx, node, partitions/2)

	for _, item := range []string{"order-1", "order-2", "order-3", "order-4"} {
		if h := mine[partition(item)]; h != nil && h.Err() == nil {
			fmt.Println(item, "is mine, fenced:", h.Token() > 0)
		} else {
			fmt.Println(item, "is theirs:", theirs[partition(item)] != nil)
		}
	}

	if err := first.Close(); err != nil { // or it dies, and its TTL passes
		log.Fatal(err)
	}
	theirs.take(ctx, node, partitions)
	fmt.Println("after the first has gone they own", len(theirs), "partitions")
	// Output:
	// order-1 is theirs: true
	// order-2 is mine, fenced: true
	// order-3 is theirs: true
	// order-4 is mine, fenced: true
	// after the first has gone they own 8 partitions
}
