package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

func newAudit(inv *invocation) *cobra.Command {
	return &cobra.Command{
		Use:     "audit",
		Short:   "List what operators have done: who, why, when",
		Long:    "List what operators have done, oldest first: who, why, when. The cluster keeps the last 1,024 acts. Those on the group are recorded before they are done, so a record says that an act was begun.",
		GroupID: groupLook,
		Args:    cobra.NoArgs,
		RunE:    action(func(ctx context.Context, _ []string) error { return inv.audit(ctx) }),
	}
}

// auditView is the JSON of an act on record.
type auditView struct {
	Rev      string     `json:"rev"`
	Time     *time.Time `json:"time"`
	Act      string     `json:"act"`
	Actor    string     `json:"actor"`
	Reason   string     `json:"reason"`
	Now      bool       `json:"now"`
	Name     string     `json:"name,omitempty"`
	Token    string     `json:"token,omitempty"`
	Session  string     `json:"session,omitempty"`
	Node     string     `json:"node,omitempty"`
	ServerID string     `json:"server_id,omitempty"`
	freshness
}

func viewAudit(r quorumlock.AuditRecord) auditView {
	v := auditView{
		Rev: strconv.FormatInt(r.Rev, 10), Time: stamp(r.Time), Act: r.Act.String(), Actor: r.Actor, Reason: r.Reason, Now: r.Now, Name: r.Name, Token: tokenText(r.Token),
		Node: r.Node, ServerID: r.ServerID, freshness: freshnessOf(r.Local, r.Age),
	}
	if r.Session != 0 {
		v.Session = sessionText(r.Session)
	}
	return v
}

func (inv *invocation) audit(ctx context.Context) error {
	v, err := inv.look(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	var all []auditView
	err = v.read(ctx, func(ctx context.Context, opts ...quorumlock.ReadOption) error {
		all = nil
		for r, err := range v.node.Audit(ctx, opts...) {
			if err != nil {
				return err
			}
			all = append(all, viewAudit(r))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printList(inv, v.age, all, []string{"AGO", "ACT", "OF", "TOKEN", "NOW", "ACTOR", "REASON"}, func(r auditView) []string {
		now := "no"
		if r.Now {
			now = "yes"
		}
		return []string{sinceText(r.Time), r.Act, r.of(), r.Token, now, r.Actor, r.Reason}
	})
}

// of is what the act was done to.
func (r auditView) of() string {
	for _, s := range []string{r.Name, r.Session, r.Node} {
		if s != "" {
			return s
		}
	}
	return shorten(r.ServerID, shortID)
}
