package quorumlock_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log"

	"github.com/quorumlock/quorumlock"
)

// groups are nodes of several clusters in one process: "orders-0", "orders-1" and so on, each with a port and a
// directory of its own.
type groups []*quorumlock.Node

// of is the group that a name belongs to, the same one in every process and for ever: the hash has no seed, and the
// number of groups never changes while anybody may hold a lock. An instance that counts one group more asks
// another group for most names, and is granted what is held in the first.
func (g groups) of(name string) *quorumlock.Node {
	sum := sha256.Sum256([]byte(name))
	return g[binary.BigEndian.Uint64(sum[:])%uint64(len(g))]
}

// A service whose locks are more than one group can carry splits them by name over several. Names that are locked
// together (NewMultiMutex), and a name's lock and its election, must lie in one group.
func Example_groups() {
	ctx := context.Background()
	var nodes groups
	for i := range 4 {
		node, err := quorumlock.Open(ctx, quorumlock.Config{
			Cluster: fmt.Sprint("orders-", i), // groups of different names never mix, whatever their addresses
			Expect:  1,                        // 3 in a service of three instances, with Join and Dir
		})
		if err != nil {
			log.Fatal(err)
		}
		defer node.Close()
		nodes = append(nodes, node)
	}

	locks := make(map[*quorumlock.Node]int)
	for i := range 100 {
		name := fmt.Sprint("tenant-", i)
		if _, err := quorumlock.NewMutex(nodes.of(name), name).Lock(ctx); err != nil {
			log.Fatal(err)
		}
		_, err := quorumlock.NewMutex(nodes.of(name), name).TryLock(ctx)
		if !errors.Is(err, quorumlock.ErrLocked) {
			log.Fatal("granted twice")
		}
		locks[nodes.of(name)]++
	}
	for i, node := range nodes {
		fmt.Printf("group %d holds %d locks\n", i, locks[node])
	}
	// Output:
	// group 0 holds 30 locks
	// group 1 holds 25 locks
	// group 2 holds 18 locks
	// group 3 holds 27 locks
}
