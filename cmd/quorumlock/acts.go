package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

// whoAndWhy are the flags of every act that is kept in the audit.
func whoAndWhy(cmd *cobra.Command, who, why *string) {
	cmd.Flags().StringVar(why, "reason", "", "why, for the record and for whom it concerns (required)")
	cmd.Flags().StringVar(who, "actor", actor(), "who does it")
	_ = cmd.MarkFlagRequired("reason")
}

// operate does one act by the cluster's leader.
func (inv *invocation) operate(ctx context.Context, act func(context.Context, *quorumlock.Node) error) error {
	ctx, cancel := inv.within(ctx)
	defer cancel()
	node, err := inv.connect(ctx)
	if err != nil {
		return err
	}
	defer node.Close()
	return act(ctx, node)
}

// memberActView is the JSON of transfer-leader, remove, drain and undrain.
type memberActView struct {
	Act      string `json:"act"` // one of those of audit
	ServerID string `json:"server_id"`
	Name     string `json:"name"`
	Actor    string `json:"actor"`
	Reason   string `json:"reason"`
}

func newTransferLeader(inv *invocation) *cobra.Command {
	var opt quorumlock.TransferOptions
	cmd := &cobra.Command{
		Use:   "transfer-leader [MEMBER] --reason WHY",
		Short: "Hand leadership to a voter, by its name or server id, or to the first that answers",
		Long: `Hand leadership to a voter, named by its name or server id as members shows them, or to the first that answers. No hold is lost by it. Nothing changes, and the exit code is 10, if that one has no vote
or does not answer.`,
		Example: `  quorumlock transfer-leader web-2 --reason "web-1 moves to another machine"`,
		GroupID: groupOperate,
		Args:    cobra.MaximumNArgs(1),
		RunE: action(func(ctx context.Context, args []string) error {
			member := ""
			if len(args) == 1 {
				if member = args[0]; member == "" {
					return usage("whom? The member's name is empty")
				}
			}
			return inv.transferLeader(ctx, member, opt)
		}),
	}
	whoAndWhy(cmd, &opt.Actor, &opt.Reason)
	return cmd
}

func (inv *invocation) transferLeader(ctx context.Context, member string, opt quorumlock.TransferOptions) error {
	view := memberActView{Act: quorumlock.ActTransfer.String(), Actor: opt.Actor, Reason: opt.Reason}
	err := inv.operate(ctx, func(ctx context.Context, node *quorumlock.Node) error {
		if member != "" {
			m, err := oneMember(ctx, node, member)
			if err != nil {
				return err
			}
			view.ServerID, view.Name = m.ServerID, m.Name
		}
		if err := node.TransferLeadership(ctx, view.ServerID, opt); err != nil {
			return err
		}
		if member != "" {
			return nil
		}
		// It was the cluster's choice. Who leads is known by the next answer, unless it has gone on meanwhile.
		if _, err := node.Inspect(ctx, "leader"); err != nil {
			return nil
		}
		if status, err := node.Status(ctx); err == nil {
			view.ServerID, view.Name = status.LeaderID, status.LeaderName
		}
		return nil
	})
	if err != nil {
		return err
	}
	if inv.json {
		return inv.printJSON(view)
	}
	if view.ServerID == "" {
		inv.say("leadership was handed over")
		return nil
	}
	inv.say(fmt.Sprintf("%s leads (%s)", printable(view.Name), view.ServerID))
	return nil
}

func newRemove(inv *invocation) *cobra.Command {
	var opt quorumlock.RemoveOptions
	cmd := &cobra.Command{
		Use:   "remove MEMBER --reason WHY",
		Short: "Take a dead member out of the group, by its name or server id, for good",
		Long: `Take a dead member, named by its name or server id as members shows them, out of the group, which then needs one vote less. Dead voters are replaced by themselves where another instance can take their place; this is for a
machine that is gone for good where none can. Nothing changes, and the exit code is 10, if it answers (--force removes it all the same; a live one leaves by SIGTERM), if it leads, or if the voters that are left would be
no majority.`,
		Example: `  quorumlock remove web-3 --reason "machine scrapped"`,
		GroupID: groupOperate,
		Args:    cobra.ExactArgs(1),
		RunE:    action(func(ctx context.Context, args []string) error { return inv.remove(ctx, args[0], opt) }),
	}
	whoAndWhy(cmd, &opt.Actor, &opt.Reason)
	cmd.Flags().BoolVar(&opt.Force, "force", false, "also if it answers")
	return cmd
}

func (inv *invocation) remove(ctx context.Context, member string, opt quorumlock.RemoveOptions) error {
	view := memberActView{Act: quorumlock.ActRemove.String(), Actor: opt.Actor, Reason: opt.Reason}
	return inv.actOn(ctx, member, view, "%s is removed (%s)", func(ctx context.Context, node *quorumlock.Node, id string) error {
		return node.RemoveMember(ctx, id, opt)
	})
}

func newDrain(inv *invocation) *cobra.Command {
	var opt quorumlock.DrainOptions
	cmd := &cobra.Command{
		Use:   "drain MEMBER --reason WHY",
		Short: "Have a member give up leadership and vote, so that its machine can be taken for a while",
		Long: `Have a member, named by its name or server id as members shows them, give up leadership and vote, to a standby if there is one. Its own locks live on, and it replicates on. It stays so, over its restarts too, until undrain.
Nothing changes, and the exit code is 10, if the others in reach would be no majority without its vote.`,
		Example: `  quorumlock drain web-3 --reason "kernel upgrade"`,
		GroupID: groupOperate,
		Args:    cobra.ExactArgs(1),
		RunE: action(func(ctx context.Context, args []string) error {
			view := memberActView{Act: quorumlock.ActDrain.String(), Actor: opt.Actor, Reason: opt.Reason}
			return inv.actOn(ctx, args[0], view, "%s neither leads nor votes any more (%s)", func(ctx context.Context, node *quorumlock.Node, id string) error {
				return node.Drain(ctx, id, opt)
			})
		}),
	}
	whoAndWhy(cmd, &opt.Actor, &opt.Reason)
	return cmd
}

func newUndrain(inv *invocation) *cobra.Command {
	var opt quorumlock.DrainOptions
	cmd := &cobra.Command{
		Use:     "undrain MEMBER --reason WHY",
		Short:   "Let a member that was drained have a vote again when one is free",
		Example: `  quorumlock undrain web-3 --reason "kernel upgraded"`,
		GroupID: groupOperate,
		Args:    cobra.ExactArgs(1),
		RunE: action(func(ctx context.Context, args []string) error {
			view := memberActView{Act: quorumlock.ActUndrain.String(), Actor: opt.Actor, Reason: opt.Reason}
			return inv.actOn(ctx, args[0], view, "%s may vote again (%s)", func(ctx context.Context, node *quorumlock.Node, id string) error {
				return node.Undrain(ctx, id, opt)
			})
		}),
	}
	whoAndWhy(cmd, &opt.Actor, &opt.Reason)
	return cmd
}

// actOn finds a member by name or server id, does what is to be done to it, and says so.
func (inv *invocation) actOn(
	ctx context.Context, member string, view memberActView, done string, act func(ctx context.Context, node *quorumlock.Node, id string) error,
) error {
	err := inv.operate(ctx, func(ctx context.Context, node *quorumlock.Node) error {
		m, err := oneMember(ctx, node, member)
		if err != nil {
			return err
		}
		view.ServerID, view.Name = m.ServerID, m.Name
		return act(ctx, node, m.ServerID)
	})
	if err != nil {
		return err
	}
	if inv.json {
		return inv.printJSON(view)
	}
	inv.say(fmt.Sprintf(done, printable(view.Name), view.ServerID))
	return nil
}

// oneMember finds the member of the group that has a name or a server id. A name that several have, as a dead one and its successor, names nobody.
func oneMember(ctx context.Context, node *quorumlock.Node, nameOrID string) (quorumlock.Member, error) {
	members, err := node.Members(ctx)
	if err != nil {
		return quorumlock.Member{}, err
	}
	var found []quorumlock.Member
	for _, m := range members {
		if m.ServerID == nameOrID {
			return m, nil
		}
		if m.Name == nameOrID && m.InGroup {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return quorumlock.Member{}, &codedError{
			code: codeRefused, err: fmt.Errorf("no member is called %q", nameOrID), advice: "nothing was done; quorumlock members shows them",
		}
	}
	return quorumlock.Member{}, &codedError{
		code: codeRefused, err: fmt.Errorf("%d members are called %q", len(found), nameOrID), advice: "nothing was done; use the server id, which quorumlock members shows",
	}
}
