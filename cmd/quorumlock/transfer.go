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
			return inv.act(ctx, "leads, or is about to", func(ctx context.Context, n *quorumlock.Node) (actView, error) {
				view := actView{Act: quorumlock.ActTransfer.String(), Actor: f.actor, Reason: f.reason}
				if len(args) == 1 {
					m, err := memberNamed(ctx, n, args[0])
					if err != nil {
						return view, err
					}
					view.ServerID, view.Node = m.ServerID, m.Name
				}
				opt := quorumlock.TransferOptions{Actor: f.actor, Reason: f.reason}
				if view.ServerID != "" {
					return view, byName(quorumlock.Member{ServerID: view.ServerID, Name: view.Node}, n.TransferLeadership(ctx, view.ServerID, opt))
				}
				before, _ := n.Members(ctx)
				if err := n.TransferLeadership(ctx, "", opt); err != nil {
					return view, err
				}
				m := otherLeader(ctx, n, before)
				view.ServerID, view.Node = m.ServerID, m.Name
				return view, nil
			})
		}),
	}
	f.add(cmd)
	return cmd
}

// otherLeader waits until this client has heard of a leader that did not lead before. What was done is done: if it hears of none in time, the member is the zero value.
func otherLeader(ctx context.Context, n *quorumlock.Node, before []quorumlock.Member) quorumlock.Member {
	led := func(id string) bool {
		return slices.ContainsFunc(before, func(m quorumlock.Member) bool { return m.Leader && m.ServerID == id })
	}
	for ctx.Err() == nil {
		members, _ := n.Members(ctx)
		for _, m := range members {
			if m.Leader && m.Reachable && !led(m.ServerID) {
				return m
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(learnPause):
		}
	}
	return quorumlock.Member{}
}
