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

// Campaign and Resign are there for when a function, as Run wants it, does not fit.
func ExampleElection_Campaign() {
	node := open()
	defer node.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // bounds the wait, not the leadership
	defer cancel()

	leadership, err := quorumlock.NewElection(node, "scheduler").Campaign(ctx, "10.0.0.5:8080")
	if err != nil {
		log.Fatal(err)
	}
	select {
	case <-leadership.Done():
		fmt.Println("lost:", leadership.Err())
	default:
		fmt.Println("leading:", leadership.Err() == nil)
	}
	fmt.Println("resigned:", leadership.Resign())
	fmt.Println("afterwards:", leadership.Err())
	// Output:
	// leading: true
	// resigned: <nil>
	// afterwards: leadership resigned
}

// Where the leader serves, for a client that is no candidate.
func ExampleElection_Leader() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	election := quorumlock.NewElection(node, "scheduler")
	_, err := election.Leader(ctx)
	fmt.Println("nobody yet:", errors.Is(err, quorumlock.ErrNoLeader))

	leadership, err := election.Campaign(ctx, "10.0.0.5:8080")
	if err != nil {
		log.Fatal(err)
	}
	leader, err := election.Leader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(leader.Node, "serves at", leader.Value, "- token shown:", leader.Token == leadership.Token())
	// Output:
	// nobody yet: true
	// web-1 serves at 10.0.0.5:8080 - token shown: true
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

	before, err := node.Inspect(ctx, "scheduler")
	if err != nil {
		log.Fatal(err)
	}
	elected := make(chan *quorumlock.Leadership)
	go func() {
		second, err := election.Campaign(ctx, "second")
		if err != nil {
			log.Fatal(err)
		}
		elected <- second
	}()
	for event, err := range node.WatchFrom(ctx, "scheduler", before.Rev) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Kind == watch.Queued { // the candidate stands in the queue
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
