package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock"
)

// electionName is the job that one instance at a time does.
const electionName = "leader"

// instanceOptions is what one instance of the service is started with.
type instanceOptions struct {
	name       string        // shown to people
	addr       string        // of the node; the lock cluster's members talk to each other here
	join       []string      // addresses of the nodes of all instances, this one's among them
	expect     int           // how many instances there are, 3 or 5
	dir        string        // data directory, "" for none
	ttl        time.Duration // session TTL
	web        string        // address of the HTTP service
	ledger     string        // base URL of the ledger
	plaintext  bool          // serve addresses beyond loopback without TLS
	withParent bool          // stop when stdin is closed
	leaves     bool          // leave the cluster at the end, for good
	callers    int           // that lock beside the job, as load
}

func (o instanceOptions) config(log *slog.Logger) quorumlock.Config {
	return quorumlock.Config{
		Cluster:        "leader-example",
		Name:           o.name,
		Dir:            o.dir,
		Addr:           o.addr,
		Join:           o.join,
		Expect:         o.expect,
		Voters:         o.expect,
		SessionTTL:     o.ttl,
		AllowPlaintext: o.plaintext,
		Logger:         quorumlock.SlogLogger(log),
	}
}

// instance is one copy of the service: an HTTP server, a node of the lock cluster, and a job that only the leader does.
type instance struct {
	name    string
	node    *quorumlock.Node
	ledger  *ledgerClient
	log     *slog.Logger
	results results
	traffic traffic
}

// runInstance is the life of one instance. It returns nil after a stop that was asked for by SIGTERM, SIGINT or the end of
// ctx.
//
// The order of the end is that of the defers, read upwards: the campaign has returned, so no work is under way and the
// lock is released; then the HTTP server answers what it has begun; then the node goes. What became of the traffic is
// written to report.
func runInstance(ctx context.Context, o instanceOptions, log *slog.Logger, report io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	node, err := quorumlock.Open(ctx, o.config(log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endNode(node, o.leaves, log)) }()
	s := &instance{
		name: o.name, node: node, ledger: newLedgerClient(o.ledger, o.name), log: log,
		traffic: traffic{node: node, instance: o.name, callers: o.callers},
	}
	web, err := s.startWeb(o.web)
	if err != nil {
		return err
	}
	defer web.stop()
	log.Info("serving", "url", web.url, "node", node.Addr())

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() {
		<-node.Done()
		fail(node.Err())
	}()
	if err := node.Ready(ctx); err != nil {
		return whyEnded(ctx, err)
	}
	web.ready.Store(true)
	err = s.work(ctx, web.url, report)
	return whyEnded(ctx, err)
}

// work does the job, and makes the traffic if that is asked for, until ctx ends.
func (s *instance) work(ctx context.Context, url string, report io.Writer) error {
	var work sync.WaitGroup
	work.Go(func() { s.traffic.run(ctx) })
	s.campaign(ctx, url)
	work.Wait()
	if s.traffic.callers == 0 {
		return nil
	}
	return json.NewEncoder(report).Encode(s.traffic.view())
}

// campaign does the job whenever this instance is the leader, until ctx ends. The value that the leader publishes is the
// URL at which it serves.
//
// Run waits in line, works while this instance leads, and after a loss goes to the end of the line by itself. It returns
// when the job fails: then another instance has its turn, and this one tries again behind it.
func (s *instance) campaign(ctx context.Context, url string) {
	election := quorumlock.NewElection(s.node, electionName)
	for ctx.Err() == nil {
		err := election.Run(ctx, url, s.lead)
		if ctx.Err() != nil {
			if errors.Is(err, quorumlock.ErrLost) {
				s.log.Warn("leadership not given back in order", "error", err)
			}
			return
		}
		s.log.Warn("the job failed", "error", err)
		sleep(ctx, campaignPause)
	}
}

// campaignPause keeps an error that comes at once, such as a ledger that cannot be reached, from becoming a busy loop.
const campaignPause = 100 * time.Millisecond

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// leaveBound is how long an instance tries to be taken out of the cluster.
const leaveBound = 10 * time.Second

// endNode stops the node, for a restart or for good. When the last instances of a deployment stop together, the very last
// ones find no quorum to say good-bye to. That is no failure: what they held, the TTL frees.
func endNode(node *quorumlock.Node, leaves bool, log *slog.Logger) error {
	end := node.Close
	if leaves {
		end = func() error {
			ctx, cancel := context.WithTimeout(context.Background(), leaveBound)
			defer cancel()
			return node.Leave(ctx)
		}
	}
	err := end()
	var unanswered *quorumlock.WaitError
	if errors.As(err, &unanswered) {
		log.Info("stopped without an answer of the cluster", "error", err)
		return nil
	}
	return err
}

// whyEnded is nil after a stop that was asked for, and otherwise why the instance cannot go on.
func whyEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, quorumlock.ErrFailed) {
		return fmt.Errorf("run instance: %w", cause)
	}
	return nil
}
