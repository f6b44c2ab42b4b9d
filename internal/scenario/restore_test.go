package scenario_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// snapshotFrom is the cluster's state, as a node gives it.
func snapshotFrom(t *testing.T, n *quorumlock.Node, opts ...quorumlock.ReadOption) ([]byte, quorumlock.SnapshotInfo) {
	t.Helper()
	var b bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	info, err := n.Snapshot(ctx, &b, opts...)
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	found, err := quorumlock.VerifySnapshot(ctx, bytes.NewReader(b.Bytes()), nil)
	if err != nil || found != info {
		t.Fatalf("wrote %+v, and found %+v, %v", info, found, err)
	}
	return b.Bytes(), info
}

// destroyed crashes all instances, and empties their disks.
func destroyed(c *quorumlocktest.Cluster) {
	for i := range c.Size() {
		c.Crash(i)
	}
	clockPassesTokens()
	for i := range c.Size() {
		c.Replace(i)
	}
}

// restored restores instance 0 in a dry run, in earnest, and starts all.
func restored(t *testing.T, c *quorumlocktest.Cluster, snapshot []byte) (r *quorumlock.Restoration, start time.Time) {
	t.Helper()
	would, err := c.Restore(0, quorumlock.RestoreOptions{From: bytes.NewReader(snapshot), DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err = c.Restore(0, quorumlock.RestoreOptions{From: bytes.NewReader(snapshot)})
	if err != nil {
		t.Fatal(err)
	}
	if !would.DryRun || r.DryRun || would.ClusterID != "" || would.ServerID != "" || would.Snapshot != r.Snapshot || would.Quarantine != r.Quarantine {
		t.Errorf("the dry run said %+v, and then %+v was done", would, r)
	}
	start = time.Now()
	for i := range c.Size() {
		c.Start(i)
	}
	c.WaitReady()
	return r, start
}

// S36, S81, I2, I14: A holds k when the snapshot is taken, and then B, as long as the cluster lives. Restored, it has neither, and the next token exceeds
// both.
func TestRestore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		leader, followers := roles(c)
		if err := quorumlock.NewSemaphore(c.Node(leader), "pool", 2).Resize(context.Background(), 7); err != nil {
			t.Fatal(err)
		}
		a := lockIn(t, c.Node(followers[0]), "k", time.Second)
		waitQueued(t, c, c.Node(followers[1]), "k", 1)
		snapshot, info := snapshotFrom(t, c.Node(followers[0]))
		old := c.Node(leader).ClusterID()
		if info.Cluster != "test" || info.ClusterID != old || info.Holds != 1 || info.Waiting != 1 || info.Sessions == 0 || info.Limits != 1 || info.Stale ||
			info.TokensUpTo < a.Token() || info.Index == 0 || info.Term == 0 || info.Level != 1 || time.Since(info.Taken) > time.Second {
			t.Errorf("%+v", info)
		}
		unlock(t, a)
		last := grantMany(t, c.Node(leader), "other", 400)
		b := lockIn(t, c.Node(leader), "late", time.Second)
		destroyed(c)
		r, start := restored(t, c, snapshot)
		n := c.Node(0)
		if r.Quarantine != quarantine || r.TokensAbove <= max(last, b.Token()) || n.ClusterID() != r.ClusterID || n.ID() != r.ServerID || r.ClusterID == old {
			t.Errorf("cluster %s, server %s, %+v after token %v", n.ClusterID(), n.ID(), r, b.Token())
		}
		for _, say := range []string{old, r.ClusterID, r.ServerID, fmt.Sprint(info.Index), "1 holds", quarantine.String()} {
			if !strings.Contains(r.String(), say) {
				t.Errorf("the report does not say %q:\n%v", say, r)
			}
		}
		inQuarantine(t, c.Node(1), "k")
		next := lockAfter(t, c.Node(2), "k", start, r.Quarantine)
		if next.Token() <= r.TokensAbove {
			t.Errorf("token %v, all were to be above %v", next.Token(), r.TokensAbove)
		}
		unlock(t, next)
		var limit *quorumlock.LimitError
		if _, err := quorumlock.NewSemaphore(n, "pool", 9).Acquire(context.Background(), 1); !errors.As(err, &limit) || limit.Agreed != 7 {
			t.Errorf("another limit than the one set before: %v", err)
		}
		awaitVoters(t, c, 30*time.Second, 0, 1, 2)
		c.CheckState()
	})
}

// S111: a survivor without a quorum gives what it has within 2 s, marked stale; a state that must be the newest is refused. So does a client.
func TestSnapshotWithoutAQuorum(t *testing.T) {
	for _, client := range []bool{false, true} {
		t.Run(fmt.Sprintf("client %v", client), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 4, quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
					cfg.Expect = 3
					if i == 3 {
						cfg.Expect, cfg.Role = 0, quorumlock.RoleClient
					}
				}))
				h := lockIn(t, c.Node(3), "k", time.Second)
				leader := c.Leader()
				survivor := (leader + 1) % 3
				_, fresh := snapshotFrom(t, c.Node(3))
				time.Sleep(time.Second) // followers have applied it
				for i := range 3 {
					if i != survivor {
						c.Crash(i)
					}
				}
				c.Disk(survivor).Hang(true)
				time.Sleep(8 * time.Second)
				asked := survivor
				if client {
					asked = 3
				}
				endsIn(t, "a stale snapshot", 2*time.Second, func() {
					_, info := snapshotFrom(t, c.Node(asked), quorumlock.Local())
					if !info.Stale || info.Age < 5*time.Second || info.Age > 10*time.Second || info.Holds != 1 || info.TokensUpTo < h.Token() || info.Index < fresh.Index {
						t.Errorf("%+v, before %+v", info, fresh)
					}
				})
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				if info, err := c.Node(asked).Snapshot(ctx, &bytes.Buffer{}); !errors.Is(err, quorumlock.ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("without a quorum: %+v, %v", info, err)
				}
				c.Disk(survivor).Hang(false)
			})
		})
	}
}

// What cannot be restored is refused with an error that says why, and nothing is written: the disk is that of a new member.
func TestRestoreRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		used, _ := recoverable(t)
		n, err := quorumlock.Open(context.Background(), aloneOn(used))
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		readyIn(t, n, restartBound)
		snapshot, _ := snapshotFrom(t, n)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		clockPassesTokens()
		flipped := bytes.Clone(snapshot)
		flipped[len(flipped)/2] ^= 1
		for name, test := range map[string]struct {
			disk   *store.Disk
			change func(*quorumlock.Config, *quorumlock.RestoreOptions)
			field  string
			want   error
		}{
			"occupied": {disk: used, field: "Config.Dir"},
			"nothing to restore": {
				change: func(_ *quorumlock.Config, o *quorumlock.RestoreOptions) { o.From = nil }, field: "RestoreOptions.From",
			},
			"negative floor":    {change: func(_ *quorumlock.Config, o *quorumlock.RestoreOptions) { o.TokenFloor = -1 }, field: "RestoreOptions.TokenFloor"},
			"bad configuration": {change: func(c *quorumlock.Config, _ *quorumlock.RestoreOptions) { c.Voters = 2 }, field: "Config.Voters"},
			"as a client": {change: func(c *quorumlock.Config, _ *quorumlock.RestoreOptions) {
				c.Role, c.Expect, c.Join = quorumlock.RoleClient, 0, []string{"host:7001"}
			}, field: "Config.Role"},
			"another name": {change: func(c *quorumlock.Config, _ *quorumlock.RestoreOptions) { c.Cluster = "other" }, want: quorumlock.ErrSnapshotForeign},
			"another name is wanted": {
				change: func(_ *quorumlock.Config, o *quorumlock.RestoreOptions) { o.Cluster = "other" }, want: quorumlock.ErrSnapshotForeign,
			},
			"altered": {
				change: func(_ *quorumlock.Config, o *quorumlock.RestoreOptions) { o.From = bytes.NewReader(flipped) }, want: quorumlock.ErrSnapshotAltered,
			},
			"truncated": {
				change: func(_ *quorumlock.Config, o *quorumlock.RestoreOptions) {
					o.From = bytes.NewReader(snapshot[:len(snapshot)-1])
				}, want: quorumlock.ErrSnapshotTruncated,
			},
		} {
			disk := test.disk
			if disk == nil {
				disk = store.NewDisk()
			}
			for _, dry := range []bool{true, false} {
				cfg, opt := aloneOn(disk), quorumlock.RestoreOptions{From: bytes.NewReader(snapshot), DryRun: dry}
				if test.change != nil {
					test.change(&cfg, &opt)
				}
				r, err := quorumlock.Restore(context.Background(), cfg, opt)
				var field *quorumlock.FieldError
				if r != nil || err == nil || test.field != "" && (!errors.As(err, &field) || field.Field != test.field) || test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("%s, dry %v: %+v, %v, want field %q, %v", name, dry, r, err, test.field, test.want)
				}
			}
			s, err := store.Open(context.Background(), store.Options{Disk: disk, Cluster: "test", Existing: true})
			if fresh := errors.Is(err, store.ErrNoMember); fresh != (test.disk == nil) {
				t.Errorf("%s: the disk afterwards: %v", name, err)
			}
			if err == nil {
				_ = s.Close()
			}
		}
	})
}

// Another name is no obstacle where it is said.
func TestRestoreUnderAnotherName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 1)
		last := grantMany(t, c.Node(0), "k", 3)
		snapshot, _ := snapshotFrom(t, c.Node(0))
		clockPassesTokens()
		cfg := aloneOn(store.NewDisk())
		cfg.Cluster = "other"
		r, err := quorumlock.Restore(context.Background(), cfg, quorumlock.RestoreOptions{From: bytes.NewReader(snapshot), Cluster: "test"})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		n, err := quorumlock.Open(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		if h := lockAfter(t, n, "k", start, r.Quarantine); h.Token() <= last {
			t.Errorf("token %v after %v", h.Token(), last)
		}
	})
}

// S82: each write of a restore fails in turn. The disk then counts as empty, and the restore can be repeated; or it is the new cluster's.
func TestRestoreFailsAtAnyWrite(t *testing.T) {
	broken := errors.New("broken")
	for nth := 1; nth <= 8; nth++ {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 1)
				last := grantMany(t, c.Node(0), "k", 3)
				snapshot, _ := snapshotFrom(t, c.Node(0))
				clockPassesTokens()
				disk := store.NewDisk()
				restore := func() (*quorumlock.Restoration, error) {
					return quorumlock.Restore(context.Background(), aloneOn(disk), quorumlock.RestoreOptions{From: bytes.NewReader(snapshot)})
				}
				disk.FailWrite(nth, broken)
				r, err := restore()
				disk.FailWrite(0, nil)
				if failed := disk.Refused() > 0; failed != errors.Is(err, broken) || (nth == 1) && !failed || (nth == 8) && failed {
					t.Fatalf("failed %v: %v", failed, err)
				}
				again, second := restore()
				if err != nil && second != nil || err == nil && second == nil {
					t.Fatalf("%v, and then %v", err, second)
				}
				if err != nil {
					r = again
				}
				start := time.Now()
				n, err := quorumlock.Open(context.Background(), aloneOn(disk))
				if err != nil {
					t.Fatal(err)
				}
				defer n.Close()
				readyIn(t, n, restartBound)
				if n.ClusterID() != r.ClusterID || n.ID() != r.ServerID {
					t.Errorf("cluster %s, server %s; %+v", n.ClusterID(), n.ID(), r)
				}
				if h := lockAfter(t, n, "k", start, r.Quarantine); h.Token() <= last {
					t.Errorf("token %v after %v", h.Token(), last)
				}
			})
		})
	}
}
