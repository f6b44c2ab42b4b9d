package scenario_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// S68: the leader leaves while another voter takes no entries, though it answers calls, so the removal cannot be committed now. It is told that it has left only when the removal is
// committed; else it is still a voter, and is missed. Either way the rest has a quorum when the disk answers again and who is still a member is back.
func TestS68LeaderLeavesWhileAVoterHangs(t *testing.T) {
	var stayed atomic.Int64
	t.Run("hangs", func(t *testing.T) {
		for _, ago := range []int{200, 1500, 2600, 2900, 3100, 4000} {
			bubbleIn(t, func(t *testing.T) {
				if leaveBesideAHang(t, time.Duration(ago)*time.Millisecond) {
					stayed.Add(1)
				}
			})
		}
	})
	if stayed.Load() == 0 {
		t.Error("the leader could leave in every run: the fault did not bite")
	}
}

// leaveBesideAHang lets the leader leave a while after a voter's disk began to hang, and tells whether it stayed a member.
func leaveBesideAHang(t *testing.T, ago time.Duration) (stayed bool) {
	c := quorumlocktest.New(t, 3)
	l, f := roles(c)
	unlock(t, lockIn(t, c.Node(l), "before", time.Second))
	c.Disk(f[0]).Hang(true)
	time.Sleep(ago)
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
	defer cancel()
	err := c.Leave(ctx, l)
	time.Sleep(3 * time.Second)
	c.Disk(f[0]).Hang(false)
	if err != nil {
		c.Start(l)
	}
	for _, i := range f {
		unlock(t, lockIn(t, c.Node(i), fmt.Sprint("after", i), 20*time.Second))
	}
	c.CheckState()
	return err != nil
}
