package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

// sessionView is the JSON of sessions.
type sessionView struct {
	Session  string     `json:"session"`
	Node     string     `json:"node"`
	ServerID string     `json:"server_id"`
	TTLMS    int64      `json:"ttl_ms"`
	Since    *time.Time `json:"since"` // null if it is older than the cluster's feature level 2
	Holding  int        `json:"holding"`
	Waiting  int        `json:"waiting"`
	freshness
}

func newSessions(inv *invocation) *cobra.Command {
	return &cobra.Command{
		Use:     "sessions",
		Short:   "List sessions: which instances may hold something, and how much they hold",
		GroupID: groupLook,
		Args:    cobra.NoArgs,
		RunE:    action(func(ctx context.Context, _ []string) error { return inv.sessions(ctx) }),
	}
}

func (inv *invocation) sessions(ctx context.Context) error {
	v, err := inv.look(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	var sessions []sessionView
	err = v.read(ctx, func(ctx context.Context, opts ...quorumlock.ReadOption) error {
		sessions = nil
		for s, err := range v.node.Sessions(ctx, opts...) {
			if err != nil {
				return err
			}
			sessions = append(sessions, sessionView{
				Session: sessionText(s.ID), Node: s.Node, ServerID: s.ServerID, TTLMS: s.TTL.Milliseconds(), Since: stamp(s.Since),
				Holding: s.Holding, Waiting: s.Waiting, freshness: freshnessOf(s.Local, s.Age),
			})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printAll(inv, v.age, sessions, []string{"SESSION", "NODE", "HOLDS", "WAITS", "TTL", "OPEN FOR", "SERVER"}, func(s sessionView) []string {
		ttl := time.Duration(s.TTLMS) * time.Millisecond
		return []string{s.Session, s.Node, strconv.Itoa(s.Holding), strconv.Itoa(s.Waiting), ttl.String(), sinceText(s.Since), s.ServerID}
	})
}

func newSession(inv *invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "session",
		Short:   "End a session by force",
		GroupID: groupOperate,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSessionEnd(inv))
	return cmd
}

// sessionEndView is the JSON of session end.
type sessionEndView struct {
	Session string `json:"session"`
	Action  string `json:"action"` // barred: its locks pass on after its TTL; freed
	Actor   string `json:"actor"`
	Reason  string `json:"reason"`
}

func newSessionEnd(inv *invocation) *cobra.Command {
	var opt quorumlock.EndOptions
	cmd := &cobra.Command{
		Use:   "end SESSION --reason WHY",
		Short: "End a session, with all that it holds and waits for",
		Long: `End a session, with all that it holds and waits for; sessions and inspect show its id. Exits with 4 if there is none of that id.

Its owner is told at once. Its locks stay barred for its TTL, in which the owner has stopped by its own clock even if no word reaches it. With --now they pass on at once; the owner may then still
work beside the next holders, and only resources that check tokens are safe. An instance whose own session was ended opens another when it next locks. Who did it, and why, is kept (audit).`,
		Example: `  quorumlock session end 1764662400000042 --reason "host is on fire"`,
		Args:    cobra.ExactArgs(1),
		RunE: action(func(ctx context.Context, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || id <= 0 {
				return usage("%q is not a session id", args[0])
			}
			return inv.sessionEnd(ctx, quorumlock.SessionID(id), opt)
		}),
	}
	whoAndWhy(cmd, &opt.Actor, &opt.Reason)
	cmd.Flags().BoolVar(&opt.Now, "now", false, "do not wait until the owner has stopped")
	return cmd
}

func (inv *invocation) sessionEnd(ctx context.Context, id quorumlock.SessionID, opt quorumlock.EndOptions) error {
	err := inv.operate(ctx, func(ctx context.Context, node *quorumlock.Node) error { return node.EndSession(ctx, id, opt) })
	if err != nil {
		return err
	}
	view := sessionEndView{Session: sessionText(id), Action: "barred", Actor: opt.Actor, Reason: opt.Reason}
	if opt.Now {
		view.Action = "freed"
	}
	if inv.json {
		return inv.printJSON(view)
	}
	if opt.Now {
		inv.say(fmt.Sprintf("session %s: ended; what it held is free, and its owner may not know it yet", view.Session))
	} else {
		inv.say(fmt.Sprintf("session %s: ended; what it held passes on after its TTL, when its owner has stopped", view.Session))
	}
	return nil
}
