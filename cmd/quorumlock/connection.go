package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/transport"
)

// connection is how to reach a cluster, as the flags tell it.
type connection struct {
	cluster   string
	join      []string
	plaintext bool
	timing    string
	secrets

	snapshotKeys [][]byte // not flags of all commands
}

// The variable is not fence.EnvCluster: that one tells a command under a lock the cluster's id, and such a command may call this program.
const envClusterName = "QUORUMLOCK_CLUSTER_NAME"

func (c *connection) flags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.join, "join", nil, "members' addresses, host:port or DNS name:port, with commas between")
	fromEnv(flags, "join", "QUORUMLOCK_JOIN")
	flags.StringVar(&c.cluster, "cluster", "", "name of the cluster")
	fromEnv(flags, "cluster", envClusterName)
	flags.BoolVar(&c.plaintext, "allow-plaintext", false, "talk to other machines without TLS")
	fromEnv(flags, "allow-plaintext", "QUORUMLOCK_ALLOW_PLAINTEXT")
	flags.StringVar(&c.timing, "timing", "default", "the members' raft timings: default, fast, or Heartbeat,Election,Lease of their Config as in 2s,2s,1s")
	fromEnv(flags, "timing", "QUORUMLOCK_TIMING")
	c.secrets.flags(flags)
}

// config is what a client and an agent have in common.
func (c *connection) config() (quorumlock.Config, error) {
	cfg := quorumlock.Config{Cluster: c.cluster, Join: c.join, AllowPlaintext: c.plaintext, SnapshotKeys: c.snapshotKeys}
	timing, err := parseTiming(c.timing)
	if err != nil {
		return cfg, err
	}
	cfg.Timing = timing
	if cfg.Cluster == "" {
		hint := ""
		if os.Getenv(fence.EnvCluster) != "" {
			hint = "; " + fence.EnvCluster + " is another thing, the id that a command under a lock is told"
		}
		return cfg, usage("which cluster? Set --cluster or %s%s", envClusterName, hint)
	}
	return cfg, c.secrets.apply(&cfg)
}

// parseTiming reads --timing. Whether the durations fit together is for the library to say.
func parseTiming(s string) (quorumlock.Timing, error) {
	switch s {
	case "default":
		return quorumlock.TimingDefault, nil
	case "fast":
		return quorumlock.TimingFast, nil
	}
	var d [3]time.Duration
	parts := strings.Split(s, ",")
	for i, part := range parts {
		var err error
		if i < len(d) {
			d[i], err = time.ParseDuration(part)
		}
		if err != nil || len(parts) != len(d) {
			return quorumlock.Timing{}, usage("--timing: %q is neither default nor fast nor three durations with commas between", s)
		}
	}
	return quorumlock.Timing{Heartbeat: d[0], Election: d[1], Lease: d[2]}, nil
}

// open starts a client of the cluster. It does not wait for it.
func (c *connection) open(ctx context.Context) (*quorumlock.Node, error) {
	if len(c.join) == 0 {
		return nil, usage("where is the cluster? Set --join or QUORUMLOCK_JOIN")
	}
	cfg, err := c.config()
	if err != nil {
		return nil, err
	}
	cfg.Role = quorumlock.RoleClient
	return quorumlock.Open(ctx, cfg)
}

// connect opens a client and waits for the cluster. Of a cluster of another name, or of nobody at all, it tells as soon as that is known.
func (c *connection) connect(ctx context.Context) (*quorumlock.Node, error) {
	node, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.await(ctx, node); err != nil {
		return nil, errors.Join(err, node.Close())
	}
	return node, nil
}

// await waits until node is served. Every address in Join is asked beside it: what is wrong with all of them is a better answer than that nobody leads.
func (c *connection) await(ctx context.Context, node *quorumlock.Node) error {
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	asked := make(chan error, 1)
	go func() {
		var err error
		select {
		case <-waiting.Done(): // as a rule: then no member's log has a line about a stream that was given up
		case <-time.After(reachAfter):
			err = c.reach(waiting)
		}
		if isFinal(err) {
			stop(err)
		}
		asked <- err
	}()
	err := node.Ready(waiting)
	stop(nil)
	unreachable := <-asked
	if err == nil {
		return nil
	}
	if unreachable != nil {
		return unreachable
	}
	return err
}

const (
	reachAfter = 300 * time.Millisecond
	reachPause = 200 * time.Millisecond
)

// reach asks the addresses of Join until one of them answers for this cluster, which is nil, until all refuse it as another cluster's, or until ctx ends; then the
// error is about the first address that said something.
func (c *connection) reach(ctx context.Context) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	own := transport.Config{
		DialOnly: true, Cluster: cfg.Cluster, ServerID: "cli", AllowPlaintext: cfg.AllowPlaintext, ClusterID: func() string { return "" },
	}
	if cfg.TLS != nil {
		own.TLS = &transport.TLS{Server: cfg.TLS.Server, Client: cfg.TLS.Client}
	}
	ep, err := transport.TCP().Listen(own)
	if err != nil {
		return err
	}
	defer ep.Close()
	for {
		err := askAll(ctx, ep, c.join)
		if err == nil || isFinal(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(reachPause):
		}
	}
}

// askAll dials all addresses at once and is nil if one of them accepts. A refusal counts more than silence.
func askAll(ctx context.Context, ep transport.Endpoint, join []string) error {
	answers := make(chan error, len(join))
	for _, addr := range join {
		go func() {
			conn, err := ep.Dial(ctx, transport.KindCall, addr, "")
			if err == nil {
				err = conn.Close()
			}
			if err != nil {
				err = &addrError{addr: addr, err: err}
			}
			answers <- err
		}()
	}
	var failed []error
	for range join {
		err := <-answers
		if err == nil {
			failed = nil
			break
		}
		failed = append(failed, err)
	}
	if len(failed) == 0 {
		return nil
	}
	slices.SortStableFunc(failed, func(a, b error) int { return rank(a) - rank(b) })
	if isWrongCluster(failed[0]) || isFinal(failed[len(failed)-1]) {
		return failed[0]
	}
	return &codedError{code: codeUnreachable, err: fmt.Errorf("no member answers: %w", errors.Join(failed...)), advice: "look at --join, at the port (TCP and UDP) and at TLS"}
}

// rank puts what counts most first, and last what may yet change.
func rank(err error) int {
	switch {
	case isWrongCluster(err):
		return 0
	case isFinal(err):
		return 1
	}
	return 2
}

// isFinal tells that asking again gives the same: another cluster is there, or nothing is dialled without TLS.
func isFinal(err error) bool {
	return isWrongCluster(err) || errors.As(err, new(*transport.PlaintextError)) && !errors.As(err, new(*codedError))
}

func isWrongCluster(err error) bool {
	var refused *transport.RefusedError
	return errors.As(err, &refused) && refused.Code == transport.RefusedCluster
}

// addrError names the address that an error is about, where the error itself does not.
type addrError struct {
	addr string
	err  error
}

func (e *addrError) Error() string {
	if refused := (*transport.RefusedError)(nil); errors.As(e.err, &refused) {
		return e.err.Error()
	}
	return e.addr + ": " + e.err.Error()
}

func (e *addrError) Unwrap() error { return e.err }

// usage is an error of what was asked for.
func usage(format string, args ...any) error {
	return &codedError{code: codeUsage, err: fmt.Errorf(format, args...)}
}

// embedded opens a cluster of one node, in memory, without a port.
func embedded(ctx context.Context) (*quorumlock.Node, error) {
	node, err := quorumlock.Open(ctx, quorumlock.Config{
		Cluster: "embedded", Addr: "embedded:1", Expect: 1, Voters: 1, Timing: quorumlock.TimingFast,
		Transport: transport.NewMemory(1).Host("embedded"),
	})
	if err != nil {
		return nil, err
	}
	if err := node.Ready(ctx); err != nil {
		return nil, errors.Join(err, node.Close())
	}
	return node, nil
}
