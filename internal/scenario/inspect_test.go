package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/watch"
)

// holdMany takes n locks of one node, and gives their names in order.
func holdMany(t *testing.T, o quorumlock.Owner, prefix string, n int) (names []string) {
	t.Helper()
	for i := range n {
		names = append(names, fmt.Sprintf("%s%04d", prefix, i))
		lockIn(t, o, names[i], time.Second)
	}
	return names
}

// locksOf reads all locks under a prefix.
func locksOf(t *testing.T, n *quorumlock.Node, prefix string, opts ...quorumlock.ReadOption) (list []quorumlock.LockInfo) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for info, err := range n.Locks(ctx, prefix, opts...) {
		if err != nil {
			t.Fatalf("locks under %q: %v", prefix, err)
		}
		list = append(list, info)
	}
	return list
}

func namesOf(list []quorumlock.LockInfo) (names []string) {
	for _, info := range list {
		names = append(names, info.Name)
	}
	return names
}

// Locks come in the order of their names, each once, over as many pages as it takes, and by prefix; linearizable through any node, and from each node's own state.
func TestLocksInPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		lead := c.Leader()
		far := others(c, lead)[0]
		jobs := holdMany(t, c.Node(far), "jobs/", 250)
		all := append(holdMany(t, c.Node(lead), "app", 1), jobs...)
		all = append(all, holdMany(t, c.Node(lead), "jobs0", 1)...) // right behind the prefix
		for i := range c.Size() {
			for prefix, want := range map[string][]string{"": all, "jobs/": jobs, "jobs/00": jobs[:100], "nothing": nil} {
				if got := namesOf(locksOf(t, c.Node(i), prefix)); !slices.Equal(got, want) {
					t.Errorf("node %d, prefix %q: %d locks, want %d", i, prefix, len(got), len(want))
				}
			}
		}
		time.Sleep(time.Second) // for followers
		for i := range c.Size() {
			got := locksOf(t, c.Node(i), "jobs/", quorumlock.Local())
			if !slices.Equal(namesOf(got), jobs) {
				t.Errorf("node %d, its own state: %d locks, want %d", i, len(got), len(jobs))
			}
			for _, info := range got {
				if !info.Local || info.Age > time.Second || info.Index == 0 || info.Rev == 0 || info.Holding != 1 || len(info.Holders) != 1 {
					t.Fatalf("node %d: %+v", i, info)
				}
			}
		}
		for _, info := range locksOf(t, c.Node(far), "jobs/00") {
			if info.Local || info.Age != 0 || info.Index == 0 {
				t.Fatalf("a linearizable one: %+v", info)
			}
		}
		c.CheckState()
	})
}

// Every page is as new as the call for it: a lock taken after the first page shows in the second, and leaving the loop asks for no more.
func TestLocksPagesAreFresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		far := c.Node(others(c, c.Leader())[0])
		holdMany(t, far, "k", 150)
		var list []quorumlock.LockInfo
		for info, err := range far.Locks(context.Background(), "k") {
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 {
				lockIn(t, c.Node(c.Leader()), "k9", time.Second)
			}
			list = append(list, info)
		}
		if len(list) != 151 || list[150].Name != "k9" || list[150].Index <= list[0].Index {
			t.Errorf("%d locks, the last %+v", len(list), list[len(list)-1])
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		seen := 0
		for _, err := range far.Locks(ctx, "k") {
			if seen++; err != nil {
				t.Fatal(err)
			}
			if seen == 3 {
				cancel() // nothing is asked any more
				break
			}
		}
		for info, err := range far.Locks(ctx, "k") {
			if !errors.Is(err, context.Canceled) || info.Name != "" {
				t.Errorf("with an ended context: %+v, %v", info, err)
			}
		}
		for _, err := range far.Locks(context.Background(), "a\x00b") {
			if !errors.Is(err, quorumlock.ErrInvalid) {
				t.Errorf("malformed prefix: %v", err)
			}
		}
		c.CheckState()
	})
}

// What a lock's info says: modes, permits, who waits in which order, and how many are not listed.
func TestInfoOfSharedLocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		n := c.Node(0)
		for range 70 {
			if _, err := quorumlock.NewSemaphore(n, "sem", 100).Acquire(ctx, 1); err != nil {
				t.Fatal(err)
			}
		}
		queued, stop := context.WithCancel(ctx)
		for _, permits := range []int{40, 50} {
			go quorumlock.NewSemaphore(c.Node(1), "sem", 100).Acquire(queued, permits)
			time.Sleep(time.Second)
		}
		want := func(info quorumlock.LockInfo, listed int) {
			t.Helper()
			if info.Holding != 70 || len(info.Holders) != listed || info.Limit != 100 || info.InUse != 70 || info.Waiting != 2 || len(info.Queue) != 2 {
				t.Fatalf("%d of %d holders, %d of %d waiters, limit %d, in use %d", len(info.Holders), info.Holding, len(info.Queue), info.Waiting, info.Limit, info.InUse)
			}
			first, second := info.Queue[0], info.Queue[1]
			if first.Permits != 40 || second.Permits != 50 || first.Rev >= second.Rev || first.Mode != quorumlock.Permits || info.Holders[0].Permits != 1 {
				t.Errorf("queue %+v, first holder %+v", info.Queue, info.Holders[0])
			}
		}
		info, err := n.Inspect(ctx, "sem")
		if err != nil {
			t.Fatal(err)
		}
		want(info, 64)
		want(locksOf(t, n, "sem")[0], 8)
		local, err := n.Inspect(ctx, "sem", quorumlock.Local())
		if err != nil {
			t.Fatal(err)
		}
		want(local, 64)
		stop()
		free, err := n.Inspect(ctx, "nobody's", quorumlock.Local())
		if err != nil || free.Holding != 0 || !free.Local || free.Name != "nobody's" {
			t.Errorf("a free lock: %+v, %v", free, err)
		}
	})
}

// Members tells the new leader although the asked node itself is cut off from raft; with Local it asks nobody and believes what it knew.
func TestMembersAskOrNot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		lead := c.Leader()
		asked := c.Node(others(c, lead)[0])
		check := func(down int, opts ...quorumlock.ReadOption) (reachable, leaders int) {
			t.Helper()
			members, err := asked.Members(context.Background(), opts...)
			if err != nil || len(members) != 3 {
				t.Fatalf("%+v, %v", members, err)
			}
			for _, m := range members {
				reachable += count(m.Reachable)
				leaders += count(m.Leader)
				if m.Reachable && (m.Term == 0 || m.Level == 0 || m.Applied == 0) || m.Self != (m.ServerID == asked.ID()) {
					t.Errorf("%+v", m)
				}
			}
			return reachable, leaders
		}
		if r, l := check(0); r != 3 || l != 1 {
			t.Errorf("all well: %d reachable, %d leaders", r, l)
		}
		endsIn(t, "members with Local", 0, func() {
			if r, l := check(0, quorumlock.Local()); r != 1 || l != 1 {
				t.Errorf("local: %d reachable, %d leaders", r, l)
			}
		})
		c.Crash(lead)
		endsIn(t, "members beside a dead one", localBound, func() {
			if r, _ := check(1); r != 2 {
				t.Errorf("one down: %d reachable", r)
			}
		})
		c.LeaderExcept(lead)
		if _, l := check(1); l != 1 {
			t.Errorf("%d leaders", l)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := asked.Members(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("with an ended context: %v", err)
		}
	})
}

// Nothing happens unseen between a read and the watch from its revision, on whichever node either was; a watch goes on where another one ended.
func TestWatchFromARead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		h := lockIn(t, c.Node(0), "k", time.Second)
		info, err := c.Node(0).Inspect(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		again := lockIn(t, c.Node(1), "k", time.Second)
		lockIn(t, c.Node(1), "other", time.Second)
		unlock(t, again)
		for i := range c.Size() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			var kinds []watch.Kind
			from := info.Rev
			for range 2 { // in two parts
				for e, err := range c.Node(i).WatchFrom(ctx, "k", from) {
					if err != nil {
						t.Fatalf("node %d: %v after %v", i, err, kinds)
					}
					kinds, from = append(kinds, e.Kind), e.Rev
					if e.Kind == watch.Granted && e.Token != again.Token() {
						t.Errorf("node %d: token %v", i, e.Token)
					}
					if len(kinds) == 2 || len(kinds) == 3 {
						break
					}
				}
			}
			cancel()
			if !slices.Equal(kinds, []watch.Kind{watch.Released, watch.Granted, watch.Released}) {
				t.Errorf("node %d: %v", i, kinds)
			}
		}
	})
}
