package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

func newTransfer(inv *invocation) *cobra.Command {
	var f actFlags
	cmd := &cobra.Command{
		Use:     "transfer-leader [MEMBER] --reason WHY",
		Short:   "Hand the group's leadership to another voter",
		Long:    "Hand the group's leadership to another voter: MEMBER, a name or a server id, or the first one to answer. It takes milliseconds, and no lock is lost by it.",
		GroupID: groupOperate,
		Args:    cobra.MaximumNArgs(1),
		RunE: action(func(ctx context.Context, args []string) error {
			return inv.act(ctx, "leads, or is about to", func(ctx context.Context, n *quorumlock.Node) (actView, error) {
				view := actView{Act: quorumlock.ActTransfer.String(), Node: "another voter", Actor: f.actor, Reason: f.reason}
				if len(args) == 1 {
					m, err := memberNamed(ctx, n, args[0])
					if err != nil {
						return view, err
					}
					view.ServerID, view.Node = m.ServerID, m.Name
				}
				return view, n.TransferLeadership(ctx, view.ServerID, quorumlock.TransferOptions{Actor: f.actor, Reason: f.reason})
			})
		}),
	}
	f.add(cmd)
	return cmd
}
