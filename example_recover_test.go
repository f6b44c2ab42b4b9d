package quorumlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/quorumlock/quorumlock"
)

// A majority of the voters is gone for good, and their nodes are stopped. On the machine of the survivor that has got
// furthest an operator's tool makes a new cluster of its data directory; then the service is started again there, and
// the others with empty directories.
func ExampleRecover() {
	ctx := context.Background()
	cfg := quorumlock.Config{Cluster: "orders", Dir: "/var/lib/orders/locks", Expect: 3}
	found, err := quorumlock.Recover(ctx, cfg, quorumlock.RecoverOptions{DryRun: true})
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(found) // what would be lost, for somebody to decide
	done, err := quorumlock.Recover(ctx, cfg, quorumlock.RecoverOptions{GiveUp: found.OldClusterID})
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(done)
}
