package scenario_test

import (
	"bytes"
	"context"
	"errors"

	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/snapshots"
	"github.com/quorumlock/quorumlock/snapshots/snaptest"
)

const backupEvery = 5 * time.Second

// backedUp is a cluster of three that keeps snapshots in a store.
func backedUp(t *testing.T, store *snaptest.Memory, change func(cfg *quorumlock.Config), opts ...quorumlocktest.Option) *quorumlocktest.Cluster {
	t.Helper()
	return quorumlocktest.New(t, 3, append(opts, quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) {
		cfg.Snapshots, cfg.SnapshotEvery = store, backupEvery
		if change != nil {
			change(cfg)
		}
	}))...)
}

// saved lists what is in the store, the oldest first, and checks that each is whole and that they rise.
func saved(t *testing.T, store *snaptest.Memory, keys ...[]byte) []quorumlock.StoredSnapshot {
	t.Helper()
	list, err := quorumlock.ListSnapshots(context.Background(), store, "test")
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(list)
	for i, s := range list {
		r, err := store.Open(context.Background(), s.Name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := quorumlock.VerifySnapshot(context.Background(), r, keys)
		if err != nil || info.ClusterID != s.ClusterID || info.TokensUpTo != s.TokensUpTo || info.Index != s.Index || info.Size != s.Size {
			t.Errorf("%+v: %+v, %v", s, info, err)
		}
		if i > 0 && (list[i-1].Index >= s.Index || list[i-1].TokensUpTo > s.TokensUpTo) {
			t.Errorf("%+v after %+v", s, list[i-1])
		}
	}
	return list
}

// oneInEach checks that no two snapshots lie closer to each other than the interval.
func oneInEach(t *testing.T, list []quorumlock.StoredSnapshot) {
	t.Helper()
	for i := 1; i < len(list); i++ {
		if apart := list[i].Modified.Sub(list[i-1].Modified); apart < backupEvery {
			t.Errorf("%s and %s are %v apart", list[i-1].Name, list[i].Name, apart)
		}
	}
}

// Once in an interval, encrypted, and not again while nothing changes, which all members can tell from a store that fails; the surplus goes, and what is somebody
// else's stays.
func TestSnapshotsAreWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		key := bytes.Repeat([]byte{7}, 32)
		store := &snaptest.Memory{}
		others := []string{
			snapshots.Name{Label: "test", ClusterID: "another", Counter: 1, Index: 1}.String(), snapshots.Name{Label: "test.x", ClusterID: "id", Counter: 1}.String(), "test.file",
		}
		for _, name := range others {
			store.Put(name, []byte("somebody's"), 1000*time.Hour)
		}
		c := backedUp(t, store, func(cfg *quorumlock.Config) { cfg.SnapshotKeep, cfg.SnapshotKeys = 4, [][]byte{key} })
		work := trafficOn(t, c, "k")
		time.Sleep(10 * backupEvery)
		work.stop()
		time.Sleep(3 * backupEvery)
		made := store.Made() - len(others)
		if made < 9 || made > 12 {
			t.Errorf("%d were made in %v", made, 10*backupEvery)
		}
		for range 4 { // the sessions go on renewing
			time.Sleep(backupEvery)
			for i := range 3 {
				s := c.Node(i).SnapshotStatus()
				if s.Err != nil || s.Overdue || time.Since(s.Covered) > 2*backupEvery || s.Last.Name == "" || s.Writes != (i == c.Leader()) {
					t.Errorf("node %d: %+v", i, s)
				}
			}
		}
		if again := store.Made() - len(others); again != made {
			t.Errorf("%d were made while nothing changed", again-made)
		}
		all, err := store.List(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range others {
			if !slices.ContainsFunc(all, func(o snapshots.Object) bool { return o.Name == name }) {
				t.Errorf("%s is gone", name)
			}
			if err := store.Remove(context.Background(), name); err != nil {
				t.Fatal(err)
			}
		}
		list := saved(t, store, key)
		if len(list) != 4 {
			t.Errorf("%d are kept", len(list))
		}
		oneInEach(t, list)
		if _, err := quorumlock.VerifySnapshot(context.Background(), contentOf(t, store, list[0].Name), nil); !errors.Is(err, quorumlock.ErrSnapshotKey) {
			t.Errorf("without the key: %v", err)
		}
		c.CheckState()
	})
}

func contentOf(t *testing.T, store *snaptest.Memory, name string) io.Reader {
	t.Helper()
	r, err := store.Open(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// S79: the leader is cut off while it writes, another one writes, and the former comes back. One is written in each interval, and the order of the names is
// that of the states.
func TestLeaderIsCutOffWhileItWrites(t *testing.T) {
	for name, fault := range map[string]struct {
		begin, end func(*quorumlocktest.Cluster, int)
	}{
		"partition": {(*quorumlocktest.Cluster).Isolate, func(c *quorumlocktest.Cluster, _ int) { c.Heal() }},
		"pause":     {(*quorumlocktest.Cluster).Pause, (*quorumlocktest.Cluster).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := &snaptest.Memory{}
				c := backedUp(t, store, nil)
				n := c.Node(0)
				last := quorumlock.Token(0)
				for range 3 {
					leader := c.Leader()
					store.Slow(time.Second)
					last = grantMany(t, c.Node(leader), "k", 1)
					writing := func() bool { return store.Writing() > 0 }
					awaitCond(t, "the leader to write", 3*backupEvery, writing)
					before := store.Made()
					fault.begin(c, leader)
					next := c.LeaderExcept(leader)
					if store.Made() > before {
						t.Error("the fault came too late")
					}
					store.Slow(0)
					time.Sleep(2 * backupEvery)
					n = c.Node(next)
					if store.Made() != before+1 {
						t.Errorf("the new leader has written %d", store.Made()-before)
					}
					fault.end(c, leader)
					time.Sleep(2 * backupEvery)
					if store.Made() > before+2 { // what the new state's sessions changed
						t.Errorf("%d were written", store.Made()-before)
					}
				}
				list := saved(t, store)
				oneInEach(t, list)
				if end := list[len(list)-1]; end.TokensUpTo < last {
					t.Errorf("the last one has tokens up to %v of %v", end.TokensUpTo, last)
				}
				if s := n.SnapshotStatus(); s.Overdue {
					t.Errorf("%+v", s)
				}
				c.CheckState()
			})
		})
	}
}

// S79: while the leader still writes another snapshot of a later state is there, as after a stop of the leader that it has not noticed yet. It makes none.
func TestSnapshotIsSuperseded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &snaptest.Memory{}
		logs, keep := keepDiary()
		c := backedUp(t, store, nil, keep)
		leader, followers := roles(c)
		time.Sleep(2 * backupEvery)
		store.Slow(2 * time.Second)
		grantMany(t, c.Node(leader), "k", 1)
		awaitCond(t, "the leader to write", 2*backupEvery, func() bool { return store.Writing() > 0 })
		store.Slow(0)
		grantMany(t, c.Node(leader), "k", 1)
		before := store.Made()
		info, err := c.Node(followers[0]).SaveSnapshot(context.Background(), nil)
		if err != nil || store.Writing() == 0 {
			t.Fatalf("%+v, %v, %d are writing", info, err, store.Writing())
		}
		awaitCond(t, "the leader to give up", backupEvery, func() bool { return logs.said("snapshot given up") == 1 })
		if store.Made() != before+1 {
			t.Errorf("%d were made", store.Made()-before)
		}
		time.Sleep(2 * backupEvery)
		if s := c.Node(leader).SnapshotStatus(); s.Last.Name != info.Name || s.Err != nil || s.Overdue {
			t.Errorf("%+v, want %s", s, info.Name)
		}
		oneInEach(t, saved(t, store))
	})
}

// awaitCond waits until cond holds.
func awaitCond(t *testing.T, what string, bound time.Duration, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", bound, what)
		}
	}
}

// S78: the stream is cut at every tenth of it. No object is left, the status says so, locks and readiness do not mind; and when the store works again, so does the
// rest.
func TestStoreCutsTheStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cut := errors.New("connection reset")
		store := &snaptest.Memory{}
		store.Cut(0, cut)
		logs, keep := keepDiary()
		c := backedUp(t, store, nil, keep)
		work := trafficOn(t, c, "k")
		var size bytes.Buffer
		if _, err := c.Node(0).Snapshot(context.Background(), &size); err != nil {
			t.Fatal(err)
		}
		for tenth := range 10 {
			store.Cut(int64(size.Len()*tenth/10), cut)
			before := store.Refused()
			time.Sleep(backupEvery)
			if store.Refused() == before {
				t.Fatalf("at %d0 %%: nothing was tried", tenth)
			}
			s := c.Node(c.Leader()).SnapshotStatus()
			if !errors.Is(s.Err, cut) || s.ErrAt.IsZero() || s.Last.Name != "" || tenth < 2 && s.Overdue || tenth > 2 && !s.Overdue {
				t.Errorf("at %d0 %%: %+v", tenth, s)
			}
			readyIn(t, c.Node(tenth%3), time.Second)
		}
		if logs.said("no snapshot has been saved for too long") == 0 {
			t.Error("the log says nothing")
		}
		if found := saved(t, store); len(found) > 0 {
			t.Errorf("left: %+v", found)
		}
		store.Cut(0, nil)
		time.Sleep(2 * backupEvery)
		for i := range 3 {
			if s := c.Node(i).SnapshotStatus(); s.Err != nil || s.Overdue || s.Last.Name == "" {
				t.Errorf("node %d afterwards: %+v", i, s)
			}
		}
		work.flows(3, grantBound)
		work.stop()
		c.CheckState()
	})
}

// S78: the store hangs. The leadership changes hands, and nodes close, as if it did not.
func TestStoreHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &snaptest.Memory{}
		c := backedUp(t, store, nil)
		work := trafficOn(t, c, "k")
		time.Sleep(2 * backupEvery)
		store.Hang(true)
		time.Sleep(5 * backupEvery)
		leader := c.Leader()
		if s := c.Node(leader).SnapshotStatus(); !s.Overdue || s.Last.Name == "" {
			t.Errorf("%+v", s)
		}
		work.flows(3, grantBound)
		endsIn(t, "close", closeBound, func() { _ = c.Stop(leader) })
		next := c.LeaderExcept(leader)
		work.flows(3, grantBound)
		time.Sleep(time.Minute)
		if s := c.Node(next).SnapshotStatus(); !errors.Is(s.Err, context.DeadlineExceeded) {
			t.Errorf("after the bound of an attempt: %+v", s)
		}
		if store.Refused() == 0 {
			t.Error("nothing hung")
		}
		store.Hang(false)
		time.Sleep(3 * backupEvery)
		if s := c.Node(next).SnapshotStatus(); s.Err != nil || s.Overdue {
			t.Errorf("%+v", s)
		}
		work.stop()
	})
}

// S78: a store that acknowledges what it does not keep is found out, and what it keeps is never taken for a backup. One that was damaged later is written anew.
func TestStoreLosesWhatItAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &snaptest.Memory{}
		store.Drop(true)
		c := backedUp(t, store, nil)
		time.Sleep(5 * backupEvery)
		s := c.Node(c.Leader()).SnapshotStatus()
		if !errors.Is(s.Err, quorumlock.ErrSnapshotTruncated) || !s.Overdue || store.Refused() == 0 || len(saved(t, store)) > 0 {
			t.Errorf("%+v", s)
		}
		store.Drop(false)
		time.Sleep(2 * backupEvery)
		list := saved(t, store)
		if len(list) != 1 {
			t.Fatalf("%+v", list)
		}
		whole, err := io.ReadAll(contentOf(t, store, list[0].Name))
		if err != nil {
			t.Fatal(err)
		}
		store.Put(list[0].Name, whole[:len(whole)-9], 0)
		c.HandOver(c.Leader()) // the next leader has not read it yet
		time.Sleep(3 * backupEvery)
		if list = saved(t, store); len(list) == 0 {
			t.Error("nothing was written anew")
		}
	})
}

// On demand, into the store of the configuration or another one: a second one of the same state does no harm.
func TestSaveSnapshot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &snaptest.Memory{}
		c := backedUp(t, store, func(cfg *quorumlock.Config) { cfg.SnapshotEvery = 24 * time.Hour })
		grantMany(t, c.Node(0), "k", 3)
		for i := range 3 {
			info, err := c.Node(i).SaveSnapshot(context.Background(), nil)
			if err != nil || !strings.HasPrefix(info.Name, "test.") {
				t.Fatalf("%+v, %v", info, err)
			}
		}
		other := &snaptest.Memory{}
		for range 2 {
			if info, err := c.Node(0).SaveSnapshot(context.Background(), other, quorumlock.Local()); err != nil || !info.Stale {
				t.Errorf("%+v, %v", info, err)
			}
		}
		saved(t, store)
		if len(saved(t, other)) != 1 {
			t.Errorf("%+v", saved(t, other))
		}
		broken := errors.New("broken")
		store.Fail(broken)
		if _, err := c.Node(0).SaveSnapshot(context.Background(), nil); !errors.Is(err, broken) {
			t.Error(err)
		}
		store.Fail(nil)
	})
}

func TestSnapshotConfig(t *testing.T) {
	store := &snaptest.Memory{}
	for field, change := range map[string]func(*quorumlock.Config){
		"Config.SnapshotEvery":   func(c *quorumlock.Config) { c.Snapshots, c.SnapshotEvery = store, time.Millisecond },
		"Config.SnapshotKeep":    func(c *quorumlock.Config) { c.Snapshots, c.SnapshotKeep = store, -2 },
		"Config.SnapshotKeepFor": func(c *quorumlock.Config) { c.Snapshots, c.SnapshotKeepFor = store, -1 },
		"Config.SnapshotKeys":    func(c *quorumlock.Config) { c.SnapshotKeys = [][]byte{make([]byte, 16)} },
		"Config.Snapshots":       func(c *quorumlock.Config) { c.SnapshotEvery = time.Hour },
	} {
		cfg := quorumlock.Config{Cluster: "test", Expect: 1}
		change(&cfg)
		n, err := quorumlock.Open(context.Background(), cfg)
		var wrong *quorumlock.FieldError
		if n != nil || !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// deaf is a store that does not heed contexts, as a network file system that hangs.
type deaf struct {
	snaptest.Memory
	release chan struct{}
	stuck   chan struct{}
}

func (d *deaf) List(ctx context.Context, prefix string) ([]snapshots.Object, error) {
	select {
	case d.stuck <- struct{}{}:
	default:
	}
	<-d.release
	return d.Memory.List(ctx, prefix)
}

// A store that hangs beyond the end of its contexts keeps nothing but the data directory: the leadership changes hands, locks are granted, Close returns within its
// bound and says what hangs.
func TestStoreHangsForGood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &deaf{release: make(chan struct{}), stuck: make(chan struct{}, 16)}
		c := quorumlocktest.New(t, 3, quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) {
			cfg.Snapshots, cfg.SnapshotEvery = store, backupEvery
		}))
		work := trafficOn(t, c, "k")
		time.Sleep(5 * backupEvery)
		if len(store.stuck) != 3 {
			t.Errorf("%d calls hang, want one of each node", len(store.stuck))
		}
		leader := c.Leader()
		c.HandOver(leader)
		next := c.LeaderExcept(leader)
		work.flows(3, grantBound)
		for _, i := range []int{leader, next} {
			if s := c.Node(i).SnapshotStatus(); !s.Overdue {
				t.Errorf("node %d: %+v", i, s)
			}
		}
		endsIn(t, "close", closeBound, func() {
			if err := c.Stop(leader); err == nil {
				t.Error("close says nothing of what hangs")
			}
		})
		work.flows(3, grantBound)
		work.stop()
		close(store.release)
	})
}
