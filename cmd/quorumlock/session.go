package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

func newSession(inv *invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "session",
		Short:   "Act on a session",
		GroupID: groupOperate,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSessionEnd(inv))
	return cmd
}

func newSessionEnd(inv *invocation) *cobra.Command {
	var f actFlags
	var now bool
	cmd := &cobra.Command{
		Use:   "end ID --reason WHY",
		Short: "End a session with all that it holds",
		Long: `End a session with all that it holds, whether its owner lives or not; sessions lists the ids. Its owner is told at once. Its locks stay barred for its TTL, in which the owner has stopped by its own
clock; with --now they pass on at once, and only resources that check tokens are safe.`,
		Args: cobra.ExactArgs(1),
		RunE: action(func(ctx context.Context, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || id <= 0 {
				return usage("%q is not a session id", args[0])
			}
			return inv.act(ctx, "ended", func(ctx context.Context, n *quorumlock.Node) (actView, error) {
				view := actView{Act: quorumlock.ActEndSession.String(), Session: args[0], Actor: f.actor, Reason: f.reason}
				return view, n.EndSession(ctx, quorumlock.SessionID(id), quorumlock.EndOptions{Actor: f.actor, Reason: f.reason, Now: now})
			})
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&now, "now", false, "do not wait until its owner has stopped")
	return cmd
}
