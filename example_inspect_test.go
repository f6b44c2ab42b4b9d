package quorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/watch"
)

// All locks under a prefix, page by page; leaving the loop asks for no more.
func ExampleNode_Locks() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	for _, name := range []string{"shard/2", "shard/1", "other"} {
		if _, err := quorumlock.NewMutex(node, name).Lock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	for info, err := range node.Locks(ctx, "shard/") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(info.Name, "held by", info.Holders[0].Node, "waiting:", info.Waiting)
	}
	// Output:
	// shard/1 held by web-1 waiting: 0
	// shard/2 held by web-1 waiting: 0
}

// What this node knows by itself: at once and without a quorum, marked with how long ago it was in touch with its
// group.
func ExampleLocal() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	if _, err := quorumlock.NewMutex(node, "job-x").Lock(ctx); err != nil {
		log.Fatal(err)
	}
	info, err := node.Inspect(ctx, "job-x", quorumlock.Local())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holders:", info.Holding, "local:", info.Local, "old:", info.Age > 5*time.Second)
	// Output:
	// holders: 1 local: true old: false
}

// A quorum is there if a majority of the voters is reachable.
func ExampleNode_Members() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	if err := node.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	members, err := node.Members(ctx)
	if err != nil {
		log.Fatal(err)
	}
	voters, reachable := 0, 0
	for _, m := range members {
		if !m.Voter {
			continue
		}
		voters++
		if m.Reachable {
			reachable++
		}
	}
	fmt.Println(reachable, "of", voters, "voters reachable")
	// Output:
	// 1 of 1 voters reachable
}

// A read, and from its revision on every change: nothing is missed in between. A prefix that ends with a separator
// takes in no other family of names.
func ExampleNode_WatchFrom() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	info, err := node.Inspect(ctx, "shard/1") // any name: a revision is that of the whole cluster
	if err != nil {
		log.Fatal(err)
	}

	for _, name := range []string{"shard/1", "shards", "shard/2"} {
		hold, err := quorumlock.NewMutex(node, name).Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if err := hold.Unlock(); err != nil {
			log.Fatal(err)
		}
	}
	for e, err := range node.WatchFrom(ctx, "shard/", info.Rev) {
		if err != nil {
			log.Fatal(err) // errors.Is(err, watch.ErrFellBehind): read again
		}
		fmt.Println(e.Name, e.Kind, "for", e.Node)
		if e.Name == "shard/2" && e.Kind == watch.Released {
			break
		}
	}
	// Output:
	// shard/1 granted for web-1
	// shard/1 released for web-1
	// shard/2 granted for web-1
	// shard/2 released for web-1
}

// A session with a TTL of its own. One below 5 s is refused where a change of leader could outlast it; the error tells
// the numbers.
func ExampleNode_NewSession() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	session, err := node.NewSession(ctx, 7*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := quorumlock.NewMutex(session, "job-x").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("TTL:", session.TTL(), "held:", hold.Err() == nil)
	_ = session.Close() // releases all that it holds
	fmt.Println("lost:", errors.Is(hold.Err(), quorumlock.ErrLost))

	_, err = node.NewSession(ctx, 10*time.Millisecond)
	fmt.Println(err)
	// Output:
	// TTL: 7s held: true
	// lost: true
	// ttl 10ms: must lie between 500ms and 1m0s in whole milliseconds
}
