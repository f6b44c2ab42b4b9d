package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

func newSessions(inv *invocation) *cobra.Command {
	return &cobra.Command{
		Use:     "sessions",
		Short:   "List the sessions: who keeps in touch, and how much each holds",
		GroupID: groupLook,
		Args:    cobra.NoArgs,
		RunE:    action(func(ctx context.Context, _ []string) error { return inv.sessions(ctx) }),
	}
}

// sessionView is the JSON of a session.
type sessionView struct {
	Session  string     `json:"session"`
	Node     string     `json:"node"`
	ServerID string     `json:"server_id"`
	TTLMS    int64      `json:"ttl_ms"`
	Since    *time.Time `json:"since"`
	Holding  int        `json:"holding"`
	Waiting  int        `json:"waiting"`
	freshness
}

func (inv *invocation) sessions(ctx context.Context) error {
	v, err := inv.look(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	var all []sessionView
	err = v.read(ctx, func(ctx context.Context, opts ...quorumlock.ReadOption) error {
		all = nil
		for s, err := range v.node.Sessions(ctx, opts...) {
			if err != nil {
				return err
			}
			all = append(all, sessionView{
				Session: sessionText(s.ID), Node: s.Node, ServerID: s.ServerID, TTLMS: s.TTL.Milliseconds(), Since: stamp(s.Since),
				Holding: s.Holding, Waiting: s.Waiting, freshness: freshnessOf(s.Local, s.Age),
			})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printList(inv, v.age, all, []string{"SESSION", "NODE", "TTL", "FOR", "HOLDING", "WAITING", "SERVER ID"}, func(s sessionView) []string {
		return []string{
			s.Session, s.Node, short(time.Duration(s.TTLMS) * time.Millisecond), sinceText(s.Since), strconv.Itoa(s.Holding), strconv.Itoa(s.Waiting), s.ServerID,
		}
	})
}

// printList prints what was read, as lines of JSON or as a table, and is errDegraded if it is stale.
func printList[T any](inv *invocation, age freshness, all []T, header []string, row func(T) []string) error {
	if inv.json {
		for _, v := range all {
			if err := inv.printJSON(v); err != nil {
				return err
			}
		}
	} else {
		if age.Stale {
			inv.say(age.String())
		}
		rows := make([][]string, len(all))
		for i, v := range all {
			rows[i] = row(v)
		}
		if err := inv.table(header, rows); err != nil {
			return err
		}
	}
	if age.Stale {
		return errDegraded
	}
	return nil
}
