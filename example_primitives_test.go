package quorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock"
)

// A writer publishes a new version, and goes on to read it while other readers are let in, with no other writer in
// between.
func ExampleRWMutex_Downgrade() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	config := quorumlock.NewRWMutex(node, "config")

	write, err := config.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("writing alone")
	read, err := config.Downgrade(ctx, write)
	if err != nil {
		log.Fatal(err)
	}
	other, err := config.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("reading together:", read.Err() == nil && other.Err() == nil)
	fmt.Println("one phase, one token:", read.Token() == other.Token() && read.Token() > write.Token())
	_, err = config.TryLock(ctx)
	fmt.Println("a writer has to wait:", errors.Is(err, quorumlock.ErrLocked))
	fmt.Println(read.Unlock(), other.Unlock())
	// Output:
	// writing alone
	// reading together: true
	// one phase, one token: true
	// a writer has to wait: true
	// <nil> <nil>
}

// A pool of licences, of which more are bought later.
func ExampleSemaphore_Resize() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	licences := quorumlock.NewSemaphore(node, "licences", 2)

	two, err := licences.Acquire(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	_, err = licences.TryAcquire(ctx, 1)
	fmt.Println("all in use:", errors.Is(err, quorumlock.ErrLocked))

	if err := licences.Resize(ctx, 3); err != nil {
		log.Fatal(err)
	}
	err = licences.Do(ctx, 1, func(context.Context) error {
		fmt.Println("working with the third")
		return nil
	})
	fmt.Println(err, two.Unlock())

	_, err = quorumlock.NewSemaphore(node, "licences", 50).Acquire(ctx, 1)
	fmt.Println(err)
	// Output:
	// all in use: true
	// working with the third
	// <nil> <nil>
	// semaphore "licences": limit 50 was named, but 3 is agreed on
}

// Money goes from one account to another: both are locked in one step, in whatever order they are named, so transfers
// in both directions cannot deadlock.
func ExampleMultiMutex() {
	node := open()
	defer node.Close()

	transfer := func(from, to string) error {
		return quorumlock.NewMultiMutex(node, "account/"+from, "account/"+to).Do(context.Background(),
			func(ctx context.Context, t quorumlock.Token) error {
				fmt.Println(from, "->", to)
				return nil
			})
	}
	fmt.Println(transfer("alice", "bob"))
	fmt.Println(transfer("bob", "alice"))
	// Output:
	// alice -> bob
	// <nil>
	// bob -> alice
	// <nil>
}

// A web request begins a job under a lock, and a worker finishes it: the lock goes along, and is never free in between.
func ExampleHold_Transfer() {
	node := open()
	defer node.Close()
	ctx := context.Background()

	hold, err := quorumlock.NewMutex(node, "job-x").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	ticket, err := hold.Transfer(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the giver:", hold.Err())

	// The ticket travels with the job, for example in a queue. The worker, mostly on another node:
	taken, err := quorumlock.Receive(ctx, node, ticket, quorumlock.Note("worker 7"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a higher token:", taken.Token() > hold.Token())
	_, err = quorumlock.Receive(ctx, node, ticket)
	fmt.Println("good once:", errors.Is(err, quorumlock.ErrTicket))
	fmt.Println(taken.Unlock())
	// Output:
	// the giver: transferred to another
	// a higher token: true
	// good once: true
	// <nil>
}

// What the worker's side of a transfer does with a ticket that came with the job.
func ExampleReceive() {
	node := open()
	defer node.Close()
	ctx := context.Background()

	giver, err := quorumlock.NewMutex(node, "job-x").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	ticket, err := giver.Transfer(ctx)
	if err != nil {
		log.Fatal(err)
	}

	work := func(ticket quorumlock.Ticket) error {
		hold, err := quorumlock.Receive(ctx, node, ticket, quorumlock.Note("worker 7"))
		if errors.Is(err, quorumlock.ErrTicket) {
			return errors.New("another worker has the job, or its giver is gone")
		}
		if err != nil {
			return err
		}
		fmt.Println("working on", hold.Name(), "with a new token:", hold.Token() > giver.Token())
		return hold.Unlock()
	}
	fmt.Println(work(ticket))
	fmt.Println(work(ticket))
	// Output:
	// working on job-x with a new token: true
	// <nil>
	// another worker has the job, or its giver is gone
}

// Nobody holds the lock for longer than a while, whatever becomes of the work.
func ExampleMaxHold() {
	node := open()
	defer node.Close()

	err := quorumlock.NewMutex(node, "job-x", quorumlock.MaxHold(50*time.Millisecond)).Do(context.Background(),
		func(ctx context.Context, t quorumlock.Token) error {
			<-ctx.Done() // work that does not come to its end
			return ctx.Err()
		})
	var lost *quorumlock.LostError
	fmt.Println(errors.As(err, &lost) && lost.Cause == quorumlock.CauseMaxHold)

	next, err := quorumlock.NewMutex(node, "job-x").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("passed on:", next.Unlock())
	// Output:
	// true
	// passed on: <nil>
}
