package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

func newStatus(inv *invocation) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Say whether the cluster works",
		Long:    "Say whether the cluster works: the leader has answered just now. Exits with 9 if it has not, and members are there.",
		GroupID: groupLook,
		Args:    cobra.NoArgs,
		RunE:    action(func(ctx context.Context, _ []string) error { return inv.status(ctx) }),
	}
}

// statusView is the JSON of status.
type statusView struct {
	Cluster         string       `json:"cluster"`
	ClusterID       string       `json:"cluster_id"`
	State           string       `json:"state"`  // ok, no_leader, no_quorum
	Leader          *memberView  `json:"leader"` // null if nobody leads
	Voters          int          `json:"voters"`
	VotersReachable int          `json:"voters_reachable"`
	Detail          string       `json:"detail,omitempty"`
	Members         []memberView `json:"members"`
	freshness
}

func (inv *invocation) status(ctx context.Context) error {
	v, err := inv.look(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	// A question that rides the log: only a leader with a majority can answer it.
	asked := make(chan error, 1)
	var probe quorumlock.LockInfo
	go func() {
		asked <- v.read(ctx, func(ctx context.Context, opts ...quorumlock.ReadOption) (err error) {
			probe, err = v.node.Inspect(ctx, "status", opts...)
			return err
		})
	}()
	group, err := v.group(ctx)
	probed := <-asked
	if err != nil {
		return err
	}
	group.why = errors.Join(v.why, probed)
	view := statusView{
		Cluster: inv.cluster, ClusterID: v.node.ClusterID(), State: "ok", Leader: group.leader, Voters: group.voters, VotersReachable: group.reachable,
		Members: group.members, freshness: freshnessOf(group.why != nil, probe.Age),
	}
	if group.why != nil {
		view.State, view.Detail = "no_leader", fmt.Sprintf("no leader yet: %d of %d voters answer", group.reachable, group.voters)
		if !group.quorum() {
			view.State, view.Detail = "no_quorum", "" // the count of voters says it all
		}
	}
	if inv.json {
		err = inv.printJSON(view)
	} else {
		err = inv.showStatus(view)
	}
	return errors.Join(err, group.degraded())
}

func (inv *invocation) showStatus(view statusView) error {
	if view.Stale {
		inv.say(view.freshness.String())
	}
	leader := ""
	if view.Leader != nil {
		leader = fmt.Sprintf("%s at %s, term %d", view.Leader.Name, view.Leader.Addr, view.Leader.Term)
	}
	state := map[string]string{"ok": "ok", "no_leader": "NO LEADER", "no_quorum": "NO QUORUM"}[view.State]
	drained := ""
	for _, m := range view.Members {
		if m.Drained {
			drained += ", " + orDash(m.Name)
		}
	}
	if err := inv.pairs("cluster", view.Cluster, "id", view.ClusterID, "state", state, "leader", leader,
		"voters", fmt.Sprintf("%d of %d reachable", view.VotersReachable, view.Voters), "drained", strings.TrimPrefix(drained, ", "), "detail", view.Detail); err != nil {
		return err
	}
	inv.say("")
	return inv.memberTable(view.Members)
}
