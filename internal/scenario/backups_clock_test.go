package scenario_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/snapshots"
	"github.com/quorumlock/quorumlock/snapshots/snaptest"
)

// keepsSaving fails the test unless a snapshot was made in nearly every one of some intervals, and nobody misses one.
func keepsSaving(t *testing.T, c *quorumlocktest.Cluster, store *snaptest.Memory, intervals int) {
	t.Helper()
	before, lead := store.Made(), c.Node(c.Leader())
	saved := lead.SnapshotStatus().Saved
	time.Sleep(time.Duration(intervals) * backupEvery)
	if made := store.Made() - before; made < intervals*9/10 || made > intervals+1 {
		t.Errorf("%d were made in %d intervals", made, intervals)
	}
	if s := lead.SnapshotStatus(); !s.Writes || s.Saved-saved != uint64(store.Made()-before) || s.Failed != 0 || s.Overdue || s.Err != nil || s.Last.Name == "" {
		t.Errorf("%+v", s)
	}
}

// A3: the wall clock of the leader, or of all, is set back or forward by a day, as when it was wrong at the boot.
func TestSnapshotsGoOnWhenClocksStep(t *testing.T) {
	for _, step := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprint(step, all), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					store := &snaptest.Memory{}
					c := backedUp(t, store, nil)
					work := trafficOn(t, c, "k")
					defer work.stop()
					time.Sleep(4 * backupEvery)
					lead := c.Leader()
					for i := range 3 {
						if i == lead || all {
							c.Clock(i).StepWall(step)
						}
					}
					keepsSaving(t, c, store, 40)
				})
			})
		}
	}
}

// An object whose time lies in the future, as after a copy by hand, is old once it has been seen for an interval.
func TestSnapshotOfTomorrow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &snaptest.Memory{}
		c := backedUp(t, store, nil)
		work := trafficOn(t, c, "k")
		defer work.stop()
		time.Sleep(4 * backupEvery)
		list := saved(t, store)
		last := list[len(list)-1]
		b, err := io.ReadAll(contentOf(t, store, last.Name))
		if err != nil {
			t.Fatal(err)
		}
		store.Put(last.Name, b, -24*time.Hour)
		keepsSaving(t, c, store, 40)
	})
}

// A store whose clock is not that of the nodes.
type skewed struct {
	*snaptest.Memory
	by time.Duration
}

func (s skewed) List(ctx context.Context, prefix string) ([]snapshots.Object, error) {
	list, err := s.Memory.List(ctx, prefix)
	for i := range list {
		list[i].Modified = list[i].Modified.Add(s.by)
	}
	return list, err
}

func TestSnapshotsWhereTheStoreHasAnotherTime(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, 4 * backupEvery, backupEvery / 2, -backupEvery / 2, -4 * backupEvery, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := &snaptest.Memory{}
				c := quorumlocktest.New(t, 3, quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) {
					cfg.Snapshots, cfg.SnapshotEvery = skewed{store, by}, backupEvery
				}))
				work := trafficOn(t, c, "k")
				defer work.stop()
				time.Sleep(4 * backupEvery)
				keepsSaving(t, c, store, 40)
			})
		})
	}
}
