package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

// agentOptions are the flags of agent beyond how to reach the others.
type agentOptions struct {
	config      quorumlock.Config
	leave       bool
	stopTimeout time.Duration
	logLevel    slog.Level
}

func newAgent(inv *invocation) *cobra.Command {
	o := agentOptions{stopTimeout: 15 * time.Second}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Hold an instance's place in the cluster, for hosts whose service is not written in Go",
		Long: `Hold an instance's place in the cluster until SIGTERM or SIGINT: vote, stand by, or be a client, as the cluster decides. Commands such as run then name this agent in --join.

An agent with a data directory is stopped for a restart, and comes back as itself; one without leaves the cluster for good, and so does any with --leave.`,
		Example: `  quorumlock agent --cluster orders --addr 10.0.0.5:7000 --join orders.internal:7000 --expect 3 --dir /var/lib/quorumlock`,
		GroupID: groupUse,
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	text := func(p *string, name, variable, usage string) {
		flags.StringVar(p, name, "", usage)
		fromEnv(flags, name, variable)
	}
	text(&o.config.Addr, "addr", "QUORUMLOCK_ADDR", "host:port to listen on, TCP and UDP (default 127.0.0.1, a free port)")
	text(&o.config.Advertise, "advertise", "QUORUMLOCK_ADVERTISE", "host:port at which the others reach this one (default: --addr)")
	text(&o.config.Dir, "dir", "QUORUMLOCK_DIR", "data directory (default: all in memory)")
	text(&o.config.Name, "name", "QUORUMLOCK_NAME", "name shown to people (default: host name and port)")
	text(&o.config.Zone, "zone", "QUORUMLOCK_ZONE", "failure domain; voters are spread over them")
	text(&o.config.ClusterID, "cluster-id", "QUORUMLOCK_CLUSTER_ID", "join only the cluster of this id")
	flags.IntVar(&o.config.Expect, "expect", 0, "full number of instances: founds the cluster where none is; 0 only joins")
	fromEnv(flags, "expect", "QUORUMLOCK_EXPECT")
	flags.StringSliceVar(&o.config.Founders, "founders", nil, "names of the founding instances, in place of --expect")
	fromEnv(flags, "founders", "QUORUMLOCK_FOUNDERS")
	flags.IntVar(&o.config.Voters, "voters", 3, "wanted number of voters: 1, 3 or 5")
	fromEnv(flags, "voters", "QUORUMLOCK_VOTERS")
	flags.BoolVar(&o.leave, "leave", false, "leave the cluster for good when stopped, with --dir too")
	flags.DurationVar(&o.stopTimeout, "stop-timeout", o.stopTimeout, "how long stopping may take")
	flags.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error; to standard error")
	fromEnv(flags, "log-level", "QUORUMLOCK_LOG_LEVEL")
	// Not action: the signals belong to the node, which ends in order.
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := inv.agent(cmd.Context(), o); err != nil {
			return &failure{err: err}
		}
		return nil
	}
	return cmd
}

// agentView is the JSON of the lines that agent prints.
type agentView struct {
	Event     string `json:"event"` // serving, ready, stopped
	Addr      string `json:"addr,omitempty"`
	ServerID  string `json:"server_id,omitempty"`
	ClusterID string `json:"cluster_id,omitempty"`
}

func (inv *invocation) agent(ctx context.Context, o agentOptions) error {
	if o.stopTimeout <= 0 {
		return usage("--stop-timeout must be positive")
	}
	cfg, err := inv.agentConfig(o)
	if err != nil {
		return err
	}
	node, err := quorumlock.Open(ctx, cfg)
	if err != nil {
		return err
	}
	end := node.CloseOnSignal
	if o.leave || cfg.Dir == "" {
		end = node.LeaveOnSignal
	}
	ready, stop := context.WithCancel(ctx)
	defer stop()
	told := make(chan struct{})
	inv.agentSays(agentView{Event: "serving", Addr: node.Addr(), ServerID: node.ID()})
	go func() {
		defer close(told)
		if node.Ready(ready) == nil {
			inv.agentSays(agentView{Event: "ready", ClusterID: node.ClusterID()})
		}
	}()
	err = end(ctx, o.stopTimeout)
	stop()
	<-told
	if unanswered := (*quorumlock.WaitError)(nil); errors.As(err, &unanswered) && !errors.Is(err, quorumlock.ErrFailed) {
		fmt.Fprintln(inv.errs, "quorumlock: stopped without an answer of the cluster: "+oneLine(err.Error()))
		err = nil
	}
	inv.agentSays(agentView{Event: "stopped"})
	return err
}

func (inv *invocation) agentConfig(o agentOptions) (quorumlock.Config, error) {
	common, err := inv.connection.config()
	if err != nil {
		return common, err
	}
	cfg := o.config
	cfg.Cluster, cfg.Join, cfg.AllowPlaintext, cfg.Timing = common.Cluster, common.Join, common.AllowPlaintext, common.Timing
	cfg.TLS, cfg.GossipKeys = common.TLS, common.GossipKeys
	cfg.Logger = quorumlock.SlogLogger(slog.New(inv.logHandler(inv.errs, &slog.HandlerOptions{Level: o.logLevel})))
	return cfg, nil
}

func (inv *invocation) logHandler(w io.Writer, o *slog.HandlerOptions) slog.Handler {
	if inv.json {
		return slog.NewJSONHandler(w, o)
	}
	return slog.NewTextHandler(w, o)
}

func (inv *invocation) agentSays(v agentView) {
	if inv.json {
		_ = inv.printJSON(v)
		return
	}
	line := v.Event
	if v.Addr != "" {
		line += " at " + v.Addr + " as " + v.ServerID
	}
	if v.ClusterID != "" {
		line += ": cluster " + v.ClusterID
	}
	inv.say(line)
}
