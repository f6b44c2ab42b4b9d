package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

func newDrain(inv *invocation) *cobra.Command {
	return newMemberAct(inv, cobra.Command{
		Use:   "drain MEMBER --reason WHY",
		Short: "Have a member give up leadership and vote, before its machine is taken",
		Long: `Have a member give up leadership and vote, so that its machine can be taken without costing the cluster anything. MEMBER is a name or a server id. It stays so until undrain; its own locks live on.
Refused (exit code 10) if the others that can be reached would be no majority.`,
	}, quorumlock.ActDrain, "drained: it neither leads nor votes", func(ctx context.Context, n *quorumlock.Node, id string, f actFlags) error {
		return n.Drain(ctx, id, quorumlock.DrainOptions{Actor: f.actor, Reason: f.reason})
	})
}

func newUndrain(inv *invocation) *cobra.Command {
	return newMemberAct(inv, cobra.Command{
		Use:   "undrain MEMBER --reason WHY",
		Short: "Let a member that was drained have a vote again",
	}, quorumlock.ActUndrain, "not drained any more: it has a vote when one is free", func(ctx context.Context, n *quorumlock.Node, id string, f actFlags) error {
		return n.Undrain(ctx, id, quorumlock.DrainOptions{Actor: f.actor, Reason: f.reason})
	})
}
