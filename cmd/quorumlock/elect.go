package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
)

// electOptions are the flags of elect.
type electOptions struct {
	work
	embedded bool
	once     bool
	value    string
}

func newElect(inv *invocation) *cobra.Command {
	var o electOptions
	cmd := &cobra.Command{
		Use:   "elect NAME [-- command args]",
		Short: "Run a command while leading an election, or show who leads",
		Long: `Run a command whenever this host leads an election. A command that ends by itself ends quorumlock elect, with its exit code; after a loss of the leadership the command is ended
as by quorumlock run, and this host campaigns again. The environment is that of quorumlock run too.

Without a command: print who leads, and each change, until interrupted. With --once print who leads now; the exit code is 4 if nobody does.`,
		GroupID: groupUse,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() < 0 {
				return cobra.ExactArgs(1)(cmd, args)
			}
			return nameAndCommand(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return action(func(ctx context.Context, args []string) error { return inv.observe(ctx, args[0], o) })(cmd, args)
			}
			inv.underLock = true
			if err := inv.elect(cmd.Context(), o, args[0], args[1:]); err != nil {
				return &failure{err: err}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	o.work.flags(flags)
	embeddedFlag(flags, &o.embedded)
	flags.BoolVar(&o.once, "once", false, "print who leads now, and end")
	flags.StringVar(&o.value, "value", actor(), "what to publish while leading")
	return cmd
}

func (inv *invocation) elect(ctx context.Context, o electOptions, name string, args []string) error {
	if err := o.prepare(args); err != nil {
		return err
	}
	for led := false; ; {
		again, err := inv.term(ctx, o, name)
		code, _ := verdict(err)
		outage := led && (code == codeNoQuorum || code == codeUnreachable) // it may be what ended the term before
		if !again && !outage {
			return err
		}
		led = true
		inv.remark("not leading: " + oneLine(err.Error()) + "; campaigning again")
	}
}

// term is one campaign and what follows of it. It tells whether to campaign again.
func (inv *invocation) term(ctx context.Context, o electOptions, name string) (again bool, err error) {
	waiting, signals, started, release := catch(ctx)
	defer release()
	node, err := inv.nodeFor(waiting, o.embedded)
	if err != nil {
		return false, interruptedOr(waiting, err)
	}
	defer node.Close()
	session, err := inv.session(waiting, node, o.ttl)
	if err != nil {
		return false, interruptedOr(waiting, err)
	}
	defer session.Close()
	lead, err := quorumlock.NewElection(session, name).Campaign(waiting, o.value)
	started()
	if err == nil && waiting.Err() != nil {
		err = errors.Join(context.Cause(waiting), lead.Resign())
	}
	if err != nil {
		return errors.Is(err, quorumlock.ErrLost) && waiting.Err() == nil, interruptedOr(waiting, err)
	}
	res, err := o.under(lead, fence.Grant{Cluster: node.ClusterID(), Lock: name, Token: lead.Token()}, signals, inv.remark)
	err = inv.ended(res, err, lead.Resign(), lead.Forced())
	code, _ := verdict(err)
	return err != nil && code == codeRunLost && !errors.Is(err, errSaid), err
}

// leaderView is the JSON of who leads. All but the name is empty while nobody does.
type leaderView struct {
	Name     string     `json:"name"`
	Leading  bool       `json:"leading"`
	Node     string     `json:"node,omitempty"`
	ServerID string     `json:"server_id,omitempty"`
	Session  string     `json:"session,omitempty"`
	Token    string     `json:"token,omitempty"`
	Value    string     `json:"value,omitempty"`
	Since    *time.Time `json:"since"`
}

func viewLeader(name string, l quorumlock.Leader) leaderView {
	if l.Token == 0 {
		return leaderView{Name: name}
	}
	return leaderView{
		Name: name, Leading: true, Node: l.Node, ServerID: l.ServerID, Session: sessionText(l.Session), Token: l.Token.String(), Value: l.Value, Since: stamp(l.Since),
	}
}

func (inv *invocation) observe(ctx context.Context, name string, o electOptions) error {
	node, err := inv.nodeFor(ctx, o.embedded)
	if err != nil {
		return err
	}
	defer node.Close()
	election := quorumlock.NewElection(node, name)
	if o.once {
		bounded, cancel := inv.within(ctx)
		defer cancel()
		leader, err := election.Leader(bounded)
		if err != nil {
			return err
		}
		return inv.printLeader(viewLeader(name, leader))
	}
	for leader, err := range election.Observe(ctx) {
		if err != nil {
			return err
		}
		if err := inv.printLeader(viewLeader(name, leader)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (inv *invocation) printLeader(v leaderView) error {
	switch {
	case inv.json:
		return inv.printJSON(v)
	case !v.Leading:
		inv.say(printable(v.Name) + ": nobody leads")
	default:
		inv.say(printable(v.Name) + ": " + orDash(v.Node) + " leads with token " + v.Token + ", value " + orDash(v.Value))
	}
	return nil
}
