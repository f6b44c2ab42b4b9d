package main

import (
	"context"
	"slices"
	"time"

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
			return inv.act(ctx, "leads", func(ctx context.Context, n *quorumlock.Node) (actView, error) {
				view := actView{Act: quorumlock.ActTransfer.String(), Actor: f.actor, Reason: f.reason}
				if len(args) == 1 {
					m, err := memberNamed(ctx, n, args[0])
					if err != nil {
						return view, err
					}
					view.ServerID, view.Node = m.ServerID, m.Name
				}
				before, err := leaderOtherThan(ctx, n, "")
				if err != nil {
					return view, err
				}
				if err := n.TransferLeadership(ctx, view.ServerID, quorumlock.TransferOptions{Actor: f.actor, Reason: f.reason}); err != nil || view.ServerID != "" {
					return view, byName(quorumlock.Member{ServerID: view.ServerID, Name: view.Node}, err)
				}
				m, err := leaderOtherThan(ctx, n, before.ServerID)
				view.ServerID, view.Node = m.ServerID, m.Name
				return view, err
			})
		}),
	}
	f.add(cmd)
	return cmd
}

// leaderOtherThan waits until this client has heard who leads, and that it is another one.
func leaderOtherThan(ctx context.Context, n *quorumlock.Node, id string) (quorumlock.Member, error) {
	for {
		members, err := n.Members(ctx)
		if i := slices.IndexFunc(members, func(m quorumlock.Member) bool { return m.Leader && m.Reachable && m.ServerID != id }); i >= 0 {
			return members[i], nil
		}
		if err != nil {
			return quorumlock.Member{}, err
		}
		select {
		case <-ctx.Done():
			return quorumlock.Member{}, ctx.Err()
		case <-time.After(learnPause):
		}
	}
}
