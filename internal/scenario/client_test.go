package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/watch"
)

// clientsOf are the instances that keep no state.
func clientsOf(c *quorumlocktest.Cluster) []int {
	var list []int
	for i := range c.Size() {
		if !sim.Replicates(c.Node(i)) {
			list = append(list, i)
		}
	}
	return list
}

// awaitRoles waits until the group has that many voters and standbys, and all other instances are clients that see it so.
func awaitRoles(t *testing.T, c *quorumlocktest.Cluster, bound time.Duration, up []int, voters, standbys int) {
	t.Helper()
	var problem string
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if problem = rolesProblem(t, c, up, voters, standbys); problem == "" {
			return
		}
	}
	t.Fatalf("after %v: %s", bound, problem)
}

func rolesProblem(t *testing.T, c *quorumlocktest.Cluster, up []int, voters, standbys int) string {
	in := make(map[string]bool)
	for _, i := range up {
		v := 0
		group := groupOf(t, c.Node(i))
		for _, m := range group {
			in[m.ServerID] = true
			if m.Voter {
				v++
			}
		}
		if v != voters || len(group)-v != standbys {
			return fmt.Sprintf("instance %d sees %d voters and %d standbys, want %d and %d", i, v, len(group)-v, voters, standbys)
		}
	}
	for _, i := range up {
		if n := c.Node(i); in[n.ID()] != sim.Replicates(n) {
			return fmt.Sprintf("instance %d replicates: %v, in the group: %v", i, sim.Replicates(n), in[n.ID()])
		}
	}
	if len(in) != voters+standbys {
		return fmt.Sprintf("the instances see %d different servers in the group, want %d", len(in), voters+standbys)
	}
	return ""
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// Eight instances are three voters, two standbys and three clients, by themselves. On a client everything works as on a member.
func TestInstancesBeyondThePlacesAreClients(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 8)
		awaitRoles(t, c, time.Minute, upTo(8), 3, 2)
		clients := clientsOf(c)
		a, b := c.Node(clients[0]), c.Node(clients[1])

		seen := watchAll(t, a, "job")
		held := lockIn(t, a, "job-1", grantBound)
		_, err := quorumlock.NewMutex(b, "job-1").TryLock(t.Context())
		if locked := (*quorumlock.LockedError)(nil); !errors.As(err, &locked) || locked.Holder.ServerID != a.ID() {
			t.Errorf("try of the other client: %v, want it to name the holder %s", err, a.ID())
		}
		waited := make(chan *quorumlock.Hold, 1)
		go func() { waited <- lockIn(t, b, "job-1", time.Minute) }()
		time.Sleep(time.Second)
		start := time.Now()
		unlock(t, held)
		next := <-waited
		if took := time.Since(start); took > 50*time.Millisecond {
			t.Errorf("the waiting client got the lock %v after its release: nothing was pushed", took)
		}
		for _, opts := range [][]quorumlock.ReadOption{nil, {quorumlock.Local()}} {
			time.Sleep(time.Second) // a follower's state may be behind by as much
			info, err := a.Inspect(t.Context(), "job-1", opts...)
			if err != nil || len(info.Holders) != 1 || info.Holders[0].Token != next.Token() || info.Local != (len(opts) > 0) {
				t.Errorf("inspect by a client: %+v, %v", info, err)
			}
			var names []string
			for info, err := range b.Locks(t.Context(), "job", opts...) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, info.Name)
			}
			if !slices.Equal(names, []string{"job-1"}) {
				t.Errorf("locks seen by a client: %v", names)
			}
		}
		unlock(t, next)
		time.Sleep(3 * time.Second)
		kinds := seen.kinds()
		want := []watch.Kind{watch.Granted, watch.Queued, watch.Released, watch.Granted, watch.Released}
		if !slices.Equal(kinds, want) {
			t.Errorf("a client watched %v, want %v", kinds, want)
		}
		c.CheckState()
	})
}

// watched collects events, and checks that their revisions rise.
type watched struct {
	events chan watch.Event
	err    chan error
	all    []watch.Event
}

func watchAll(t *testing.T, n *quorumlock.Node, prefix string) *watched {
	t.Helper()
	w := &watched{events: make(chan watch.Event, 1<<16), err: make(chan error, 1)}
	ctx := t.Context()
	go func() {
		last := int64(0)
		for e, err := range n.Watch(ctx, prefix) {
			if err != nil {
				w.err <- err
				return
			}
			if e.Rev <= last {
				t.Errorf("revision %d after %d", e.Rev, last)
			}
			last = e.Rev
			w.events <- e
		}
	}()
	time.Sleep(100 * time.Millisecond)
	return w
}

func (w *watched) list() []watch.Event {
	for {
		select {
		case e := <-w.events:
			w.all = append(w.all, e)
		default:
			return w.all
		}
	}
}

func (w *watched) kinds() []watch.Kind {
	var kinds []watch.Kind
	for _, e := range w.list() {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// When members go away and come back, clients take their places, and members become clients. Whoever watches, on an instance of any kind, misses nothing.
func TestClientsTakeFreePlaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size = 8
		c := quorumlocktest.New(t, size)
		awaitRoles(t, c, time.Minute, upTo(size), 3, 2)
		lead := c.Leader()
		watches := make(map[int]*watched)
		for i := range size {
			watches[i] = watchAll(t, c.Node(i), "job")
		}
		r := newTraffic(t, "job")
		for _, i := range clientsOf(c) {
			r.from(c.Node(i))
		}
		away := membersExcept(c, lead)[:2]
		for _, i := range away {
			c.Isolate(i)
			up := slices.DeleteFunc(upTo(size), func(j int) bool { return slices.Contains(away[:slices.Index(away, i)+1], j) })
			awaitGroup(t, c, 3*time.Minute, up, away[0])
			r.flows(4, 10*time.Second)
		}
		c.Heal()
		awaitRoles(t, c, 3*time.Minute, upTo(size), 3, 2)
		r.flows(8, 10*time.Second)
		r.stop()
		time.Sleep(5 * time.Second)
		moved := 0
		for _, i := range away {
			if !sim.Replicates(c.Node(i)) {
				moved++
			}
		}
		if moved == 0 {
			t.Error("no former member became a client: the test shows nothing")
		}
		want := watches[lead].list()
		for i, w := range watches {
			checkSame(t, i, w, want)
		}
		c.CheckState()
	})
}

// checkSame: the same events.
func checkSame(t *testing.T, i int, w *watched, want []watch.Event) {
	t.Helper()
	select {
	case err := <-w.err:
		t.Errorf("watch on instance %d ended: %v", i, err)
		return
	default:
	}
	got := w.list()
	if len(got) != len(want) {
		t.Errorf("instance %d saw %d events, want %d", i, len(got), len(want))
		return
	}
	for k := range got {
		got[k].Node, want[k].Node = "", "" // what a server is called comes by gossip, sooner or later
		if got[k] != want[k] {
			t.Errorf("instance %d saw %+v, want %+v", i, got[k], want[k])
			return
		}
	}
}

func membersExcept(c *quorumlocktest.Cluster, i int) []int {
	clients := clientsOf(c)
	return slices.DeleteFunc(upTo(c.Size()), func(j int) bool { return j == i || slices.Contains(clients, j) })
}

// awaitGroup waits until the group has its three voters and two standbys, none of them the instance that is away.
func awaitGroup(t *testing.T, c *quorumlocktest.Cluster, bound time.Duration, up []int, away int) {
	t.Helper()
	var group []quorumlock.Member
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		group = groupOf(t, c.Node(up[0]))
		voters := 0
		for _, m := range group {
			if m.Voter {
				voters++
			}
		}
		gone := !slices.ContainsFunc(group, func(m quorumlock.Member) bool { return m.ServerID == c.Node(away).ID() })
		if gone && voters == 3 && len(group) >= 5 {
			return
		}
	}
	t.Fatalf("after %v the group is %+v", bound, group)
}

// An instance with RoleClient never replicates, though there are places; and one that was a member before it was made a client gives its place up.
func TestClientByConfig(t *testing.T) {
	bubble(t, func(t *testing.T) {
		made := make(map[int]bool)
		c := quorumlocktest.New(t, 4, quorumlocktest.NotReady(), quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			cfg.Expect = 3
			if i == 3 || made[i] {
				cfg.Role, cfg.Expect = quorumlock.RoleClient, 0
			}
		}))
		c.WaitReady()
		awaitRoles(t, c, time.Minute, upTo(4), 3, 0)
		time.Sleep(time.Minute)
		awaitRoles(t, c, time.Second, upTo(4), 3, 0)
		unlock(t, lockIn(t, c.Node(3), "k", grantBound))

		i := voterThatFollows(c)
		if err := c.Stop(i); err != nil {
			t.Fatal(err)
		}
		made[i] = true
		c.Start(i)
		awaitRoles(t, c, time.Minute, upTo(4), 2, 0)
		unlock(t, lockIn(t, c.Node(i), "k", grantBound))
		for _, j := range []int{i, 3} {
			endsIn(t, "leave of a client", time.Second, func() {
				if err := c.Leave(t.Context(), j); err != nil {
					t.Error(err)
				}
			})
		}
		if err := c.Node(c.Leader()).Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A client finds the new leader as fast as a member does, and its lock lives on.
func TestClientLivesThroughTheDeathOfTheLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 6)
		awaitRoles(t, c, time.Minute, upTo(6), 3, 2)
		client := c.Node(clientsOf(c)[0])
		held := lockIn(t, client, "held", grantBound)
		for range 3 {
			lead := c.Leader()
			c.Crash(lead)
			start := time.Now()
			unlock(t, lockIn(t, client, "k", 10*time.Second))
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%v without a grant", took)
			}
			c.Start(lead)
			time.Sleep(20 * time.Second)
		}
		if err := held.Err(); err != nil {
			t.Errorf("the lock was lost: %v", err)
		}
		unlock(t, held)
	})
}

// A client follows the group although the first members that it asks are dead: the leader it knew, and the next in the configuration,
// which is ordered by server id at the founding.
func TestClientFollowsTheGroupPastDeadMembers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const members, client = 7, 7
		c := quorumlocktest.New(t, members+1, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			if cfg.Voters, cfg.Expect = 5, members; i == client {
				cfg.Role, cfg.Expect = quorumlock.RoleClient, 0
			}
		}))
		awaitRoles(t, c, time.Minute, upTo(members+1), 5, 2)
		gone := []int{c.Leader()}
		rest := membersExcept(c, gone[0])
		rest = slices.DeleteFunc(rest, func(i int) bool { return i == client })
		gone = append(gone, slices.MinFunc(rest, func(i, j int) int { return strings.Compare(c.Node(i).ID(), c.Node(j).ID()) }))
		for _, i := range gone {
			c.Crash(i)
		}
		up := slices.DeleteFunc(upTo(members+1), func(i int) bool { return slices.Contains(gone, i) })
		awaitRoles(t, c, 30*time.Second, up, 5, 0)
	})
}

// Without a quorum a client says what is wrong, and by when its calls end.
func TestClientWithoutAQuorum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 6)
		awaitRoles(t, c, time.Minute, upTo(6), 3, 2)
		i := clientsOf(c)[0]
		client := c.Node(i)
		for j := range 6 {
			if j != i {
				c.Crash(j)
			}
		}
		time.Sleep(5 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := quorumlock.NewMutex(client, "k").Lock(ctx)
		if !errors.Is(err, quorumlock.ErrNoQuorum) || time.Since(start) > 3100*time.Millisecond {
			t.Errorf("lock: %v after %v", err, time.Since(start))
		}
		if want := "0 of 3 voters answer"; err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say that %s", err, want)
		}
		if _, err := client.Inspect(ctx, "k", quorumlock.Local()); err == nil {
			t.Error("a client has shown the state of nobody")
		}
		endsIn(t, "close", 5*time.Second, func() { _ = c.Stop(i) })
	})
}

// A second instance of a client's name is refused as long as the first one lives, and told so.
func TestNameOfAClientIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			cfg.Expect = 3
			if i >= 3 {
				cfg.Name, cfg.Role, cfg.Expect = "twin", quorumlock.RoleClient, 0
			}
		}))
		first := c.Grow()
		c.WaitReady()
		for _, kind := range []quorumlock.Role{quorumlock.RoleClient, quorumlock.RoleAuto} {
			second := c.Grow()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			err := c.Node(second).Ready(ctx)
			cancel()
			if err == nil || !strings.Contains(err.Error(), "the name twin belongs to "+c.Node(first).ID()) {
				t.Errorf("%v: ready: %v", kind, err)
			}
			if err := c.Stop(second); err != nil {
				t.Error(err)
			}
		}
		c.Crash(first)
		second := c.Grow()
		if err := c.Node(second).Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Votes are spread over zones as they come up, whatever the order of ids, and again after the loss of a zone.
func TestVotesAreSpreadOverZones(t *testing.T) {
	bubble(t, func(t *testing.T) {
		zoneOf := func(i int) string { return string("aaaaabc"[i]) }
		c := quorumlocktest.New(t, 5, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			cfg.Zone, cfg.Expect = zoneOf(i), 5
		}))
		awaitRoles(t, c, time.Minute, upTo(5), 3, 2)
		b, other := c.Grow(), c.Grow()
		c.WaitReady()
		awaitZones(t, c, 2*time.Minute, upTo(7), "abc")
		awaitRoles(t, c, time.Minute, upTo(7), 3, 2)

		c.Isolate(b)
		awaitZones(t, c, 2*time.Minute, slices.DeleteFunc(upTo(7), func(i int) bool { return i == b }), "aac")
		c.Heal()
		awaitZones(t, c, 2*time.Minute, upTo(7), "abc")
		unlock(t, lockIn(t, c.Node(other), "k", grantBound))
		c.CheckState()
	})
}

// awaitZones waits until the zones of the voters, in order, are these.
func awaitZones(t *testing.T, c *quorumlocktest.Cluster, bound time.Duration, up []int, want string) {
	t.Helper()
	var got []string
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		got = nil
		members, err := c.Node(up[0]).Members(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			if m.Voter {
				got = append(got, m.Zone)
			}
		}
		if slices.Sort(got); strings.Join(got, "") == want {
			return
		}
	}
	t.Fatalf("after %v the voters are in the zones %v, want %s", bound, got, want)
}
