package scenario_test

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// goneBy is how an instance goes in S61.
var goneBy = map[string]func(t *testing.T, c *quorumlocktest.Cluster, i int){
	"close": func(t *testing.T, c *quorumlocktest.Cluster, i int) {
		if err := c.Stop(i); err != nil {
			t.Errorf("close of instance %d: %v", i, err)
		}
	},
	"crash": func(_ *testing.T, c *quorumlocktest.Cluster, i int) { c.Crash(i) },
	"leave": func(t *testing.T, c *quorumlocktest.Cluster, i int) {
		ctx, cancel := context.WithTimeout(context.Background(), leaveBound)
		defer cancel()
		if err := c.Leave(ctx, i); err != nil {
			t.Errorf("leave of instance %d: %v", i, err)
		}
	},
}

// returnBound is within what there is a leader again once all instances are back.
const returnBound = 10 * time.Second

// S61: five instances go one by one, half a minute apart, down to one. Then a rolling restart, in which each comes back five
// seconds before the next one goes. Then all come back. The cluster stays the same, it never splits, tokens rise, and once all
// are back there is a leader within the bound, with nobody's help. Those that leave take their votes along, so the last one goes
// on alone. Those that only stop are taken out while a majority of the first five stays; below it nothing is granted.
func TestS61FiveInstancesGoOneByOneAndComeBack(t *testing.T) {
	for name, goes := range goneBy {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { goAndComeBack(t, name == "leave", goes) })
		})
	}
}

func goAndComeBack(t *testing.T, aloneIsEnough bool, goes func(t *testing.T, c *quorumlocktest.Cluster, i int)) {
	d, heard := keepDiary()
	five := quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.Voters, cfg.Expect = 5, 5 })
	c := quorumlocktest.New(t, 5, five, heard)
	awaitVoters(t, c, 20*time.Second, 0, 1, 2, 3, 4)
	cluster := c.Node(0).ClusterID()
	last := grantMany(t, c.Node(0), "k", 3)
	grants := func(i int, bound time.Duration) {
		t.Helper()
		h := lockIn(t, c.Node(i), "k", bound)
		if h.Token() <= last {
			t.Errorf("token %v after %v", h.Token(), last)
		}
		last = h.Token()
		unlock(t, h)
	}
	for i := range 4 {
		goes(t, c, i)
		if i < 3 || aloneIsEnough {
			grants(4, grantBound)
		} else {
			grantsNothing(t, c.Node(4), "k", grantBound)
		}
		time.Sleep(30 * time.Second)
	}
	for back := range 4 {
		c.Start(back)
		if aloneIsEnough {
			readyIn(t, c.Node(back), grantBound)
		}
		time.Sleep(5 * time.Second)
		goes(t, c, (back+4)%5)
	}
	for i := range 5 {
		if i != 3 {
			c.Start(i)
		}
	}
	endsIn(t, "the return", returnBound, func() {
		c.WaitReady()
		for i := range 5 {
			grants(i, returnBound)
		}
	})
	for i := range 5 {
		if got := c.Node(i).ClusterID(); got != cluster {
			t.Errorf("instance %d is in cluster %s, was in %s", i, got, cluster)
		}
	}
	if led := d.leaders(t); len(led) < 2 {
		t.Errorf("terms led: %v: the fault did not bite", led)
	}
	awaitVoters(t, c, time.Minute, 0, 1, 2, 3, 4)
	c.CheckState()
}

// grantsNothing fails the test unless a node is refused a lock for so long as bound.
func grantsNothing(t *testing.T, n *quorumlock.Node, name string, bound time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	h, err := quorumlock.NewMutex(n, name).Lock(ctx)
	if h != nil || !isOneOf(err, []error{quorumlock.ErrNoQuorum, quorumlock.ErrLost}) {
		t.Errorf("lock without a quorum: %v, %v", h, err)
	}
}
