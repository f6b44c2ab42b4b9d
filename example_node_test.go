package quorumlock_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/quorumlock/quorumlock"
)

// One of three instances of a service, each with the same Config but for Name and Advertise. Every instance shows the
// certificate of the service, and accepts only who shows one of the same authority.
func ExampleOpen() {
	certificate, err := tls.LoadX509KeyPair("/etc/orders/tls.crt", "/etc/orders/tls.key")
	if err != nil {
		log.Fatal(err)
	}
	pem, err := os.ReadFile("/etc/orders/ca.crt")
	if err != nil {
		log.Fatal(err)
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(pem) {
		log.Fatal("no certificate in ca.crt")
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	node, err := quorumlock.Open(ctx, quorumlock.Config{
		Cluster:   "orders",
		Name:      "orders-1",
		Dir:       "/var/lib/orders/quorumlock",
		Addr:      "0.0.0.0:7000", // TCP and UDP
		Advertise: "10.0.0.5:7000",
		Join:      []string{"orders.internal:7000"}, // a name that resolves to all instances
		Expect:    3,
		TLS: &quorumlock.TLSConfig{
			Server: &tls.Config{
				Certificates: []tls.Certificate{certificate},
				ClientAuth:   tls.RequireAndVerifyClientCert,
				ClientCAs:    authority,
			},
			Client: &tls.Config{
				Certificates: []tls.Certificate{certificate},
				RootCAs:      authority,
				ServerName:   "orders.internal", // in the certificate, whichever address is dialled
			},
		},
		Logger: quorumlock.SlogLogger(slog.Default()),
	})
	if err != nil {
		log.Fatal(err) // every problem of the Config at once
	}
	defer node.Close()
	if err := node.Ready(ctx); err != nil {
		log.Fatal(err) // which instances are missing
	}
}

// A service whose locks are free in milliseconds when its process was killed and starts again on the same machine,
// rather than after the TTL. Where that cannot be proven to be safe, the log says why, and the TTL is waited for.
func ExampleConfig_restartInPlace() {
	ctx := context.Background()
	node, err := quorumlock.Open(ctx, quorumlock.Config{
		Cluster:        "orders",
		Addr:           "127.0.0.1:7000",
		Expect:         1,
		Dir:            "/var/lib/orders/quorumlock", // on a local file system
		RestartInPlace: true,                         // from the first start on: it is too late to set it after the crash
		Logger:         quorumlock.SlogLogger(slog.Default()),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	hold, err := quorumlock.NewMutex(node, "job-x").Lock(ctx) // the former process's hold is no obstacle
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(hold.Unlock())
}

// An operator takes a lock away from a holder that is stuck. It names the token that it saw, so that it cannot hit the
// next one.
func ExampleNode_ForceRelease() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	stuck, err := quorumlock.NewMutex(node, "job-x").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	info, err := node.Inspect(ctx, "job-x")
	if err != nil {
		log.Fatal(err)
	}
	err = node.ForceRelease(ctx, "job-x", info.Holders[0].Token, quorumlock.ForceOptions{
		Actor:  "alice",
		Reason: "stuck since noon",
		Now:    true, // without it the holder is given one TTL to stop, and nobody overlaps with it
	})
	fmt.Println(err)
	<-stuck.Done()
	var lost *quorumlock.LostError
	if errors.As(stuck.Err(), &lost) {
		fmt.Printf("%v by %s: %s\n", lost.Cause, lost.Actor, lost.Reason)
	}
	// Output:
	// <nil>
	// released by force by alice: stuck since noon
}

// Work in steps stops between two of them when the hold is in danger, rather than being cut off at its deadline.
func ExampleHold_Jeopardy() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	hold, err := quorumlock.NewMutex(node, "job-x").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// The danger here: an operator asks for the lock.
	err = node.ForceRelease(ctx, "job-x", hold.Token(), quorumlock.ForceOptions{Actor: "alice", Reason: "deploy"})
	if err != nil {
		log.Fatal(err)
	}

	for step := 1; ; step++ {
		select {
		case <-hold.Jeopardy():
			left := time.Until(hold.Deadline()).Round(time.Second) // to put things in order
			fmt.Println("in jeopardy, still held:", hold.Err() == nil, "time left:", left > 0)
			fmt.Println("released before it was lost:", hold.Unlock())
			return
		case <-time.After(time.Millisecond): // a step of the work
		}
	}
	// Output:
	// in jeopardy, still held: true time left: true
	// released before it was lost: <nil>
}

// A printer cannot check tokens, and a page of a holder that died may still be on its way to it. So the next one waits
// a while after a loss. An orderly end passes the lock on at once.
func ExampleDelay() {
	node := open()
	defer node.Close()
	ctx := context.Background()
	printer := quorumlock.NewMutex(node, "printer", quorumlock.Delay(15*time.Second))
	for range 2 {
		start := time.Now()
		err := printer.Do(ctx, func(ctx context.Context, _ quorumlock.Token) error { return nil })
		fmt.Println(err, "- waited:", time.Since(start) > 10*time.Second)
	}
	// Output:
	// <nil> - waited: false
	// <nil> - waited: false
}
