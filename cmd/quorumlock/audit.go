package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

// auditView is the JSON of audit, and of a forced release in inspect.
type auditView struct {
	Rev      string     `json:"rev"`
	Time     *time.Time `json:"time"`
	Act      string     `json:"act"` // force-release, end-session, transfer-leadership, remove-member, drain, undrain
	Actor    string     `json:"actor"`
	Reason   string     `json:"reason"`
	Now      bool       `json:"now,omitempty"`
	Name     string     `json:"name,omitempty"`
	Token    string     `json:"token,omitempty"`
	Session  string     `json:"session,omitempty"`
	Node     string     `json:"node,omitempty"`
	ServerID string     `json:"server_id,omitempty"`
}

// auditLine is one line of audit.
type auditLine struct {
	auditView
	freshness
}

func newAudit(inv *invocation) *cobra.Command {
	return &cobra.Command{
		Use:     "audit [NAME]",
		Short:   "Show what operators have done: who, why, when; with a name only the forced releases of that lock",
		Long:    "Show what operators have done: forced releases, ended sessions, leadership handed over, members removed, drained or undrained. The cluster keeps the last 1,024, oldest first.",
		GroupID: groupLook,
		Args:    cobra.MaximumNArgs(1),
		RunE:    action(func(ctx context.Context, args []string) error { return inv.audit(ctx, args) }),
	}
}

func (inv *invocation) audit(ctx context.Context, names []string) error {
	v, err := inv.look(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	var lines []auditLine
	err = v.read(ctx, func(ctx context.Context, opts ...quorumlock.ReadOption) error {
		lines = nil
		for r, err := range v.node.Audit(ctx, opts...) {
			if err != nil {
				return err
			}
			if len(names) == 0 || r.Name == names[0] {
				lines = append(lines, auditLine{viewAudit(r), freshnessOf(r.Local, r.Age)})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printAll(inv, v.age, lines, []string{"TIME", "ACT", "WHAT", "NOW", "BY", "REASON"}, func(l auditLine) []string {
		return []string{l.when(), l.Act, l.what(), yes(l.Now), l.Actor, l.Reason}
	})
}

func viewAudit(r quorumlock.AuditRecord) auditView {
	v := auditView{
		Rev: strconv.FormatInt(r.Rev, 10), Time: stamp(r.Time), Act: r.Act.String(), Actor: r.Actor, Reason: r.Reason, Now: r.Now,
		Name: r.Name, Token: tokenText(r.Token), Node: r.Node, ServerID: r.ServerID,
	}
	if r.Session > 0 {
		v.Session = sessionText(r.Session)
	}
	return v
}

func (v auditView) when() string {
	if v.Time == nil {
		return ""
	}
	return v.Time.Format("2006-01-02 15:04:05Z")
}

// what is what the act was about, in a few words.
func (v auditView) what() string {
	switch {
	case v.Name != "":
		return v.Name + " " + v.Token
	case v.Session != "" && v.Node != "":
		return v.Session + " of " + v.Node
	case v.Session != "":
		return v.Session
	case v.Node != "":
		return v.Node
	}
	return v.ServerID
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

// lastForced is the latest forced release of a lock that the cluster still keeps; nil if there is none, or if the cluster is too old to be asked.
func lastForced(ctx context.Context, node *quorumlock.Node, name string, opts ...quorumlock.ReadOption) (*auditView, error) {
	var last *auditView
	for r, err := range node.Audit(ctx, opts...) {
		if errors.Is(err, quorumlock.ErrLevel) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if r.Act == quorumlock.ActForceRelease && r.Name == name {
			v := viewAudit(r)
			last = &v
		}
	}
	return last, nil
}
