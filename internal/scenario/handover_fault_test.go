package scenario_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// writesBound is within what locks are granted again after a leadership that was not handed over.
const writesBound = 10 * time.Second

// slowVoters are one-way delays from the leader to the others, so that handing over takes a while: the probe, the barrier, and
// then the request itself.
func slowVoters(c *quorumlocktest.Cluster, leader int, near, far int) {
	for i, d := range map[int]time.Duration{near: 20 * time.Millisecond, far: 60 * time.Millisecond} {
		c.Network().SetDelay(c.Host(leader), c.Host(i), d, 0)
		c.Network().SetDelay(c.Host(i), c.Host(leader), d, 0)
	}
}

// cutBoth cuts two instances off from each other.
func cutBoth(c *quorumlocktest.Cluster, i, j int) {
	c.Cut(i, j)
	c.Cut(j, i)
}

// evenOut ends slowVoters.
func evenOut(c *quorumlocktest.Cluster) {
	c.Network().SetDelay("*", "*", 200*time.Microsecond, 50*time.Microsecond)
}

// S46: the network is cut at some moment of a handing over, which is asked for twice at once: to the target alone, when the
// leader goes on to lead, or to everybody. Requests that were on their way arrive after the heal. However it ends, locks are
// granted to all within the bound, and the same instance can lead again and hand over once more.
func TestHandOverThatIsCutOff(t *testing.T) {
	cuts := map[string]func(c *quorumlocktest.Cluster, leader, near int){
		"to the target": cutBoth,
		"one way":       func(c *quorumlocktest.Cluster, leader, near int) { c.Cut(leader, near) },
		"the way back":  func(c *quorumlocktest.Cluster, leader, near int) { c.Cut(near, leader) },
		"to all":        func(c *quorumlocktest.Cluster, leader, _ int) { c.Isolate(leader) },
	}
	for name, cut := range cuts {
		var failed atomic.Int64
		t.Run(name, func(t *testing.T) {
			for _, after := range []time.Duration{10, 50, 90, 110, 130} {
				bubbleIn(t, func(t *testing.T) { failed.Add(int64(cutHandOver(t, after*time.Millisecond, cut))) })
			}
		})
		if failed.Load() == 0 {
			t.Errorf("cut %s: leadership was handed over whenever it was: the fault did not bite", name)
		}
	}
}

// cutHandOver cuts a handing over off and gives the number of attempts that failed.
func cutHandOver(t *testing.T, after time.Duration, cut func(c *quorumlocktest.Cluster, leader, near int)) (failed int) {
	d, heard := keepDiary()
	c := quorumlocktest.New(t, 3, heard)
	old, f := roles(c)
	r := trafficOn(t, c, "k")
	slowVoters(c, old, f[0], f[1])
	time.Sleep(time.Second)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			endsIn(t, "handing over", 1100*time.Millisecond, func() { c.HandOver(old) })
		})
	}
	time.Sleep(after)
	cut(c, old, f[0])
	time.Sleep(2 * time.Second)
	failed = d.said("leadership not handed over")
	c.Heal()
	both.Wait()
	for i := range 3 {
		unlock(t, lockIn(t, c.Node(i), fmt.Sprint("after", i), writesBound))
	}
	r.flows(3, writesBound)
	r.stop()
	evenOut(c)
	leadWith(t, c, old)
	for i := range 3 {
		unlock(t, lockIn(t, c.Node(i), "again", grantBound))
	}
	c.HandOver(old)
	c.LeaderExcept(old)
	unlock(t, lockIn(t, c.Node(old), "again", grantBound))
	d.leaders(t)
	c.CheckState()
	return failed
}

// S46: a leader that is closed while its target is slow, and then the network is cut, is closed within the bound all the same.
// The others elect, and the closed one comes back and leads again.
func TestCloseOfALeaderWhoseHandOverIsCutOff(t *testing.T) {
	var failed atomic.Int64
	t.Run("cuts", func(t *testing.T) {
		for _, after := range []time.Duration{10, 50, 90, 130} {
			bubbleIn(t, func(t *testing.T) { failed.Add(int64(closeCutOff(t, after*time.Millisecond))) })
		}
	})
	if failed.Load() == 0 {
		t.Error("leadership was handed over whenever the network was cut: the fault did not bite")
	}
}

// closeCutOff cuts the leader off after it began to close, and gives the number of attempts to hand over that failed.
func closeCutOff(t *testing.T, after time.Duration) (failed int) {
	d, heard := keepDiary()
	c := quorumlocktest.New(t, 3, heard)
	old, f := roles(c)
	held := lockIn(t, c.Node(f[1]), "held", time.Second)
	slowVoters(c, old, f[0], f[1])
	time.Sleep(time.Second)
	cut := time.AfterFunc(after, func() { c.Isolate(old) })
	defer cut.Stop()
	endsIn(t, "close", closeBound, func() {
		if err := c.Stop(old); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	failed = d.said("leadership not handed over")
	for _, i := range f {
		unlock(t, lockIn(t, c.Node(i), "k", writesBound))
	}
	calm(t, held)
	c.Heal()
	evenOut(c)
	c.Start(old)
	c.WaitReady()
	leadWith(t, c, old)
	unlock(t, lockIn(t, c.Node(old), "k", grantBound))
	unlock(t, held)
	d.leaders(t)
	c.CheckState()
	return failed
}
