package quorumlock_test

import (
	"context"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"
)

// The end of the main function of a service without data directories: each deploy replaces its instances by new ones.
func ExampleNode_LeaveOnSignal() {
	node := open()
	if err := node.LeaveOnSignal(context.Background(), 20*time.Second); err != nil {
		log.Fatal(err) // not left in time, or the node has failed: the others replace it
	}
}

// A service that finishes the requests it has begun, which may need locks, before its node leaves. A second signal ends
// the waiting.
func ExampleNode_LeaveOnSignal_requests() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	node := open()
	server := &http.Server{Addr: "127.0.0.1:8080"}
	go func() { _ = server.ListenAndServe() }()

	select {
	case <-ctx.Done():
	case <-node.Done(): // it has failed; its Err says why
	}
	finishing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(finishing); err != nil {
		log.Print(err)
	}
	if err := node.LeaveOnSignal(ctx, 20*time.Second); err != nil { // at once: ctx has ended
		log.Fatal(err)
	}
}
