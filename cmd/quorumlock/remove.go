package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

func newRemove(inv *invocation) *cobra.Command {
	var force bool
	cmd := newMemberAct(inv, cobra.Command{
		Use:   "remove MEMBER --reason WHY",
		Short: "Take a dead member out of the group",
		Long: `Take a dead member out of the group, which then needs one vote less. It is for a machine that is gone for good; MEMBER is a name or a server id. Refused (exit code 10) for the leader, for one that answers
(unless --force), and if the voters that can be reached would be no majority.`,
	}, quorumlock.ActRemove, "removed from the group", func(ctx context.Context, n *quorumlock.Node, id string, f actFlags) error {
		return n.RemoveMember(ctx, id, quorumlock.RemoveOptions{Actor: f.actor, Reason: f.reason, Force: force})
	})
	cmd.Flags().BoolVar(&force, "force", false, "also if it answers; it asks to be let in again unless it is stopped")
	return cmd
}
