package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

func newMembers(inv *invocation) *cobra.Command {
	return &cobra.Command{
		Use:     "members",
		Short:   "List the instances: who votes, who leads, who answers",
		Long:    "List the instances: who votes, who leads, who answers. Needs no quorum; exits with 9 if there is none, or no leader.",
		GroupID: groupLook,
		Args:    cobra.NoArgs,
		RunE:    action(func(ctx context.Context, _ []string) error { return inv.members(ctx) }),
	}
}

func (inv *invocation) members(ctx context.Context) error {
	v, err := inv.look(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	group, err := v.group(ctx)
	if err != nil {
		return err
	}
	if inv.json {
		for _, m := range group.members {
			if err := inv.printJSON(m); err != nil {
				return err
			}
		}
	} else if err := inv.memberTable(group.members); err != nil {
		return err
	}
	return group.degraded()
}

func (inv *invocation) memberTable(members []memberView) error {
	rows := make([][]string, len(members))
	for i, m := range members {
		rows[i] = []string{m.Name, m.Role, m.State, m.Addr, m.Zone, numberText(m.Term), numberText(m.Applied), numberText(uint64(m.Level)), m.ServerID}
		if m.Leader {
			rows[i][1] = "leader"
		}
		if m.Drained {
			rows[i][2] += ", drained"
		}
	}
	return inv.table([]string{"NAME", "ROLE", "STATE", "ADDRESS", "ZONE", "TERM", "APPLIED", "LEVEL", "SERVER ID"}, rows)
}

func numberText(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// memberView is the JSON of an instance.
type memberView struct {
	ServerID string `json:"server_id"`
	Name     string `json:"name"`
	Addr     string `json:"addr"`
	Zone     string `json:"zone,omitempty"`
	Role     string `json:"role"`  // voter, standby, client
	State    string `json:"state"` // reachable, silent (alive by gossip, but no answer), gone
	Leader   bool   `json:"leader"`
	Drained  bool   `json:"drained,omitempty"`
	Term     uint64 `json:"term,omitempty"`
	Applied  uint64 `json:"applied,omitempty"`
	Level    uint32 `json:"level,omitempty"`
}

// groupView is what members and status make of the members' answers.
type groupView struct {
	members           []memberView
	leader            *memberView
	voters, reachable int
	why               error
}

func (g *groupView) quorum() bool { return 2*g.reachable > g.voters }

func (g *groupView) degraded() error {
	if g.leader == nil || !g.quorum() || g.why != nil {
		return errDegraded
	}
	return nil
}

// group asks all members how they are. This client itself is none of them.
func (v *viewer) group(ctx context.Context) (*groupView, error) {
	v.learn(ctx)
	all, err := v.ask(ctx)
	alone, fatal := v.alone(ctx)
	if fatal != nil {
		return nil, fatal
	}
	if !alone && !knowsVoters(all) { // the leader answered after all
		v.learn(ctx)
		all, err = v.ask(ctx)
	}
	switch {
	case err != nil:
		return nil, err
	case alone && len(all) <= 1:
		return nil, v.why
	}
	g := &groupView{why: v.why}
	for _, m := range all {
		if !m.Self {
			g.members = append(g.members, viewMember(m))
		}
	}
	slices.SortStableFunc(g.members, func(a, b memberView) int { return roleRank(a.Role) - roleRank(b.Role) })
	for i := range g.members {
		m := &g.members[i]
		if m.Role == "voter" {
			g.voters++
			if m.State == "reachable" {
				g.reachable++
			}
		}
		if m.Leader {
			g.leader = m
		}
	}
	if g.leader != nil && !g.quorum() {
		g.leader.Leader, g.leader = false, nil // it has not stepped down yet: nobody leads without a majority
	}
	return g, nil
}

func (v *viewer) ask(ctx context.Context) ([]quorumlock.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	go func() {
		if _, fatal := v.alone(ctx); fatal != nil {
			cancel() // nobody will answer
		}
	}()
	return v.node.Members(ctx)
}

// learn waits until a client that is ready knows who votes, which the leader tells it some moments later.
func (v *viewer) learn(ctx context.Context) {
	select {
	case <-v.ready:
	default:
		return
	}
	if v.why == nil {
		ctx, cancel := context.WithDeadline(ctx, v.by)
		defer cancel()
		learnNames(ctx, v.node)
	}
}

// learnNames waits until a client that is ready has been told who is who, or until ctx ends.
func learnNames(ctx context.Context, node *quorumlock.Node) {
	for {
		if known, err := node.Members(ctx, quorumlock.Local()); err != nil || knowsVoters(known) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(learnPause):
		}
	}
}

const learnPause = 20 * time.Millisecond

func knowsVoters(members []quorumlock.Member) bool {
	return slices.ContainsFunc(members, func(m quorumlock.Member) bool { return m.Voter })
}

func viewMember(m quorumlock.Member) memberView {
	view := memberView{
		ServerID: m.ServerID, Name: m.Name, Addr: m.Addr, Zone: m.Zone, Leader: m.Leader && m.Reachable, Drained: m.Drained,
		Term: m.Term, Applied: m.Applied, Level: m.Level, Role: "client", State: "gone",
	}
	switch {
	case m.Voter:
		view.Role = "voter"
	case m.InGroup:
		view.Role = "standby"
	}
	switch {
	case m.Reachable:
		view.State = "reachable"
	case m.Alive:
		view.State = "silent"
	}
	return view
}

func roleRank(role string) int { return slices.Index([]string{"voter", "standby", "client"}, role) }
