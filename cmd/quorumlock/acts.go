package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

// actFlags say who acts and why: what every act on the cluster is recorded with.
type actFlags struct{ actor, reason string }

func (f *actFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.actor, "actor", actor(), "who does it")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for the record (required)")
	_ = cmd.MarkFlagRequired("reason")
}

// actView is the JSON of an act that was done.
type actView struct {
	Act      string `json:"act"` // as audit calls it
	Session  string `json:"session,omitempty"`
	ServerID string `json:"server_id,omitempty"`
	Node     string `json:"node,omitempty"`
	Actor    string `json:"actor"`
	Reason   string `json:"reason"`
}

// act does something to the cluster and tells of it.
func (inv *invocation) act(ctx context.Context, text string, do func(context.Context, *quorumlock.Node) (actView, error)) error {
	ctx, cancel := inv.within(ctx)
	defer cancel()
	node, err := inv.connect(ctx)
	if err != nil {
		return err
	}
	defer node.Close()
	view, err := do(ctx, node)
	if err != nil {
		return err
	}
	if inv.json {
		return inv.printJSON(view)
	}
	what := view.Session
	if what == "" {
		what = orDash(view.Node)
	}
	inv.say(what + ": " + text)
	return nil
}

// newMemberAct makes a command that acts on one member, which is given by its id or its name.
func newMemberAct(
	inv *invocation, cmd cobra.Command, act quorumlock.Act, done string, do func(ctx context.Context, n *quorumlock.Node, id string, f actFlags) error,
) *cobra.Command {
	var f actFlags
	cmd.GroupID = groupOperate
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = action(func(ctx context.Context, args []string) error {
		return inv.act(ctx, done, func(ctx context.Context, n *quorumlock.Node) (actView, error) {
			m, err := memberNamed(ctx, n, args[0])
			if err != nil {
				return actView{}, err
			}
			view := actView{Act: act.String(), ServerID: m.ServerID, Node: m.Name, Actor: f.actor, Reason: f.reason}
			return view, byName(m, do(ctx, n, m.ServerID, f))
		})
	})
	f.add(&cmd)
	return &cmd
}

// byName has an error speak of a member by its name, as whoever gave the order did.
func byName(m quorumlock.Member, err error) error {
	var wait *quorumlock.WaitError
	if m.Name == "" || !errors.As(err, &wait) || wait.Name != m.ServerID {
		return err
	}
	named := *wait
	named.Name, named.Waiting = m.Name, strings.ReplaceAll(wait.Waiting, m.ServerID, m.Name)
	return &named
}

// memberNamed finds a member by server id or by a name that only one has.
func memberNamed(ctx context.Context, n *quorumlock.Node, text string) (quorumlock.Member, error) {
	learning, cancel := context.WithTimeout(ctx, freshBound)
	learnNames(learning, n)
	cancel()
	members, err := n.Members(ctx, quorumlock.Local())
	if err != nil {
		return quorumlock.Member{}, err
	}
	named := slices.DeleteFunc(members, func(m quorumlock.Member) bool { return m.ServerID != text && m.Name != text })
	switch len(named) {
	case 1:
		return named[0], nil
	case 0:
		return quorumlock.Member{}, &codedError{code: codeNotHeld, err: fmt.Errorf("no member is called %q", text), advice: "quorumlock members lists names and ids"}
	}
	return quorumlock.Member{}, &codedError{code: codeUsage, err: fmt.Errorf("%d members are called %q", len(named), text), advice: "name the server id that quorumlock members shows"}
}
