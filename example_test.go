package quorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock"
)

// open starts a cluster of one node; a real service names its Addr, its Dir and the others.
func open() *quorumlock.Node {
	node, err := quorumlock.Open(context.Background(), quorumlock.Config{Cluster: "example", Name: "web-1", Expect: 1})
	if err != nil {
		log.Fatal(err)
	}
	return node
}

func ExampleMutex_Do() {
	node := open()
	defer node.Close()
	var ledger quorumlock.Guard // stands for a database that checks tokens

	err := quorumlock.NewMutex(node, "job-x").Do(context.Background(), func(ctx context.Context, t quorumlock.Token) error {
		return ledger.Do(ctx, "ledger", func(context.Context) error {
			fmt.Println("written under the lock")
			return nil
		})
	})
	fmt.Println("error:", err)
	// Output:
	// written under the lock
	// error: <nil>
}

func ExampleMutex_Lock() {
	node := open()
	defer node.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // bounds the wait, not the hold
	defer cancel()

	hold, err := quorumlock.NewMutex(node, "job-x").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held:", hold.Err() == nil)
	fmt.Println("unlock:", hold.Unlock())
	fmt.Println("afterwards:", hold.Err())
	// Output:
	// held: true
	// unlock: <nil>
	// afterwards: already unlocked
}

func ExampleMutex_TryLock() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	first, err := quorumlock.NewMutex(node, "job-x", quorumlock.Note("nightly report")).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer first.Unlock()

	_, err = quorumlock.NewMutex(node, "job-x").TryLock(ctx)
	var locked *quorumlock.LockedError
	if errors.As(err, &locked) {
		fmt.Println("held by", locked.Holder.Node, "for the", locked.Holder.Note)
	}
	// Output:
	// held by web-1 for the nightly report
}

func ExampleNode_Inspect() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	hold, err := quorumlock.NewMutex(node, "job-x").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	info, err := node.Inspect(ctx, "job-x")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(info.Holders), "holder,", info.Waiting, "waiting, same token:", info.Holders[0].Token == hold.Token())
	// Output:
	// 1 holder, 0 waiting, same token: true
}
