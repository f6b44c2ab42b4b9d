package quorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quorumlock/quorumlock"
)

// Whoever holds too much is found and its session ended; its owner hears by whom and why, and the audit keeps it.
func ExampleNode_EndSession() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	hold, err := quorumlock.NewMutex(node, "job-x").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for session, err := range node.Sessions(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if session.Node != "web-1" || session.Holding == 0 {
			continue
		}
		// Without Now the locks stay barred for the session's TTL, until its owner has stopped by its own clock.
		opt := quorumlock.EndOptions{Actor: "ann", Reason: "its host hangs"}
		if err := node.EndSession(ctx, session.ID, opt); err != nil {
			log.Fatal(err)
		}
	}
	<-hold.Done()
	var lost *quorumlock.LostError
	if errors.As(hold.Err(), &lost) {
		fmt.Println(lost.Cause, "by", lost.Actor+":", lost.Reason)
	}
	for record, err := range node.Audit(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(record.Act, "of", record.Node, "by", record.Actor)
	}
	// Output:
	// released by force by ann: its host hangs
	// end-session of web-1 by ann
}

// Before a voter's machine is taken for a while, its vote and its leadership go to another member. Nothing is done where
// the others would be no majority: this cluster has only one member.
func ExampleNode_Drain() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	members, err := node.Members(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = node.Drain(ctx, members[0].ServerID, quorumlock.DrainOptions{Actor: "ann", Reason: "kernel update"})
	fmt.Println("refused:", errors.Is(err, quorumlock.ErrRefused))
	// Output:
	// refused: true
}
