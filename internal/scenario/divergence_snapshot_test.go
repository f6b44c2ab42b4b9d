package scenario_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// ofAnotherState makes a snapshot say that it was taken of another state; it is sound to the last byte. The hash of the state is the last thing before a zero and
// the checksum.
func ofAnotherState(content []byte) []byte {
	body := content[:len(content)-sha256.Size]
	body[len(body)-2] ^= 1
	sum := sha256.Sum256(body)
	return append(body, sum[:]...)
}

const refusedWords = "it is not kept"

// The leader's snapshot is sound and yet of another state. Neither a member that was away for too long nor a newcomer takes it; both stay as they are, go on asking, lock
// through others meanwhile, and come in with the next snapshot. Nobody stops.
func TestBadSnapshotOfTheLeaderIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h, log := listen(refusedWords)
		c := quorumlocktest.New(t, 3, quorumlocktest.HashEvery(hashEvery), quorumlocktest.SnapshotBytes(500), log)
		awaitVoters(t, c, 20*time.Second, others(c, -1)...)
		away := others(c, c.Leader())[0]
		c.Isolate(away)
		lead := c.LeaderExcept(away)
		write := func() {
			var work sync.WaitGroup
			for k := range 4 {
				work.Go(func() { use(c.Node(lead), fmt.Sprint("k", k), after(c.Node(lead), 1400)) })
			}
			work.Wait()
			time.Sleep(2 * time.Second) // a snapshot of the last entries is taken, and the log before it is shortened
		}
		write()
		for _, i := range others(c, away) { // either may come to lead
			if !c.Disk(i).AlterSnapshot(ofAnotherState) {
				t.Fatal("no snapshot: the fault did not bite")
			}
		}
		c.Heal()
		time.Sleep(10 * time.Second)
		fresh := c.Grow()
		time.Sleep(10 * time.Second)
		if n := h.times(refusedWords); n < 3 {
			t.Errorf("%d snapshots were refused", n)
		}
		for i := range c.Size() {
			if err := c.Node(i).Err(); err != nil {
				t.Errorf("instance %d: %v", i, err)
			}
		}
		unlock(t, lockIn(t, c.Node(away), "as a client", deadBound))
		unlock(t, lockIn(t, c.Node(fresh), "as a client", deadBound))
		lead = c.Leader()
		write()
		c.CheckState()
		for i := range c.Size() {
			if err := c.Node(i).Err(); err != nil {
				t.Errorf("instance %d: %v", i, err)
			}
		}
	})
}

// A member whose own newest snapshot gives another state does not start, says what is known, and comes back with an empty directory.
func TestMemberWithABadSnapshotDoesNotStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3, quorumlocktest.SnapshotBytes(500))
		awaitVoters(t, c, 20*time.Second, others(c, -1)...)
		bad := others(c, c.Leader())[0]
		other := c.Node(others(c, bad)[0])
		use(other, "k", after(other, 300))
		time.Sleep(2 * time.Second)
		c.Crash(bad)
		if !c.Disk(bad).AlterSnapshot(ofAnotherState) {
			t.Fatal("no snapshot: the fault did not bite")
		}
		for range 2 {
			var s *quorumlock.SnapshotError
			if err := c.TryStart(bad); !errors.As(err, &s) || s.Taken || errors.Is(err, quorumlock.ErrDiverged) {
				t.Fatalf("start: %v", err)
			}
		}
		c.Replace(bad)
		c.Start(bad)
		c.WaitReady()
		awaitVoters(t, c, 40*time.Second, others(c, -1)...)
		c.CheckState()
	})
}
