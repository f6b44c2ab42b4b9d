package quorumlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/quorumlock/quorumlock"
)

func ExampleElection_Run() {
	node := open()
	defer node.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	// Every instance of the service does this, with the address at which it serves.
	err := quorumlock.NewElection(node, "scheduler").Run(ctx, "10.0.0.5:8080", func(ctx context.Context, l *quorumlock.Leadership) error {
		fmt.Println("leading; writes carry a token:", l.Token() != 0)
		for range 3 { // a scheduler would go on until ctx ends
			if ctx.Err() != nil {
				return ctx.Err() // Run campaigns again
			}
		}
		return nil // done: Run resigns and returns
	})
	fmt.Println("error:", err)
	// Output:
	// leading; writes carry a token: true
	// error: <nil>
}

func ExampleElection_Observe() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	election := quorumlock.NewElection(node, "scheduler")
	leadership, err := election.Campaign(ctx, "10.0.0.5:8080")
	if err != nil {
		log.Fatal(err)
	}

	for leader, err := range election.Observe(ctx) { // the loop is the lifetime
		if err != nil {
			log.Fatal(err)
		}
		switch {
		case leader.Token == 0:
			fmt.Println("nobody leads")
			return
		case leader.Value == "10.0.0.5:8080":
			fmt.Println(leader.Node, "leads at", leader.Value)
			if err := leadership.Proclaim(ctx, "10.0.0.5:9090"); err != nil {
				log.Fatal(err)
			}
		default:
			fmt.Println(leader.Node, "leads at", leader.Value)
			if err := leadership.Resign(); err != nil {
				log.Fatal(err)
			}
		}
	}
	// Output:
	// web-1 leads at 10.0.0.5:8080
	// web-1 leads at 10.0.0.5:9090
	// nobody leads
}

func ExampleLeadership_HandOver() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	election := quorumlock.NewElection(node, "scheduler")
	first, err := election.Campaign(ctx, "first")
	if err != nil {
		log.Fatal(err)
	}
	err = first.HandOver(ctx, "web-2")
	fmt.Println(err, "- still leading:", first.Err() == nil)

	elected := make(chan *quorumlock.Leadership)
	go func() {
		second, err := election.Campaign(ctx, "second")
		if err != nil {
			log.Fatal(err)
		}
		elected <- second
	}()
	for {
		waiting, err := election.Candidates(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if len(waiting) > 0 {
			break
		}
	}
	fmt.Println("handed over:", first.HandOver(ctx, "web-1"))
	second := <-elected
	leader, err := election.Leader(ctx)
	fmt.Println(leader.Value, "leads:", leader.Token == second.Token(), err)
	fmt.Println("before it:", first.Err())
	// Output:
	// election "scheduler": no candidate of node "web-2" waits - still leading: true
	// handed over: <nil>
	// second leads: true <nil>
	// before it: leadership resigned
}
