package simulation

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
)

// Deployments lists what is played.
func Deployments() []Deployment {
	either := func(rng *rand.Rand) bool { return rng.IntN(2) == 0 }
	always := func(*rand.Rand) bool { return true }
	three := func(rng *rand.Rand) int { return 3 + 2*rng.IntN(2) }
	five := func(*rand.Rand) int { return 5 }
	return []Deployment{
		{Name: "rolling replacement", Waits: 5 * time.Second, size: three, disks: either, play: (*deployment).replaceAll},
		{Name: "rolling restart under new addresses", Waits: 5 * time.Second, size: three, disks: always, play: (*deployment).restartAll},
		{Name: "five to one to five", Waits: 5 * time.Second, size: five, disks: either, play: (*deployment).shrinkAndGrow},
		{Name: "four of five leave at once", Waits: 5 * time.Second, size: five, disks: either, play: (*deployment).leaveAtOnce},
		{Name: "to fifty and back", Waits: 5 * time.Second, size: three, disks: either, play: (*deployment).growAndShrink, Costly: true},
		{Name: "all at once under new addresses", Waits: 20 * time.Second, size: three, disks: always, play: (*deployment).moveAll},
		{Name: "voters lost one by one", Waits: 10 * time.Second, size: func(*rand.Rand) int { return 7 }, disks: either, play: (*deployment).loseOneByOne},
	}
}

// replaceAll is a rolling update of instances that keep nothing, or whose disks are thrown away: each is followed, or preceded, by a new one.
func (d *deployment) replaceAll() {
	surge := d.rng.IntN(2) == 0
	for _, in := range d.shuffled() {
		if surge {
			d.grow()
			d.some(3 * time.Second)
		}
		d.remove(in)
		if !surge {
			d.grow()
		}
		d.some(5 * time.Second)
	}
}

// restartAll is a rolling update of instances that keep their directories and get new addresses.
func (d *deployment) restartAll() {
	for _, in := range d.shuffled() {
		d.stop(in)
		d.c.Move(in.index)
		d.some(10 * time.Second)
		d.again(in)
		d.wellAgain()
	}
}

func (d *deployment) stop(in *instance) {
	d.down(in)
	d.endsWithin("close", closeBound, func() {
		if err := d.c.Stop(in.index); err != nil {
			d.t.Errorf("%v: close of instance %d: %v", time.Since(d.started), in.index, err)
		}
	})
}

func (d *deployment) again(in *instance) {
	d.c.Start(in.index)
	d.ready(in.index)
	d.resume(in)
}

func (d *deployment) shrinkAndGrow() {
	list := d.shuffled()
	for _, in := range list[1:] {
		d.remove(in)
		d.some(5 * time.Second)
	}
	time.Sleep(5 * time.Second)
	for range list[1:] {
		d.grow()
		d.some(5 * time.Second)
	}
}

// leaveAtOnce is a scale-in from five to one, with one signal to four of them.
func (d *deployment) leaveAtOnce() {
	list := d.shuffled()
	d.remove(list[1:]...)
	d.some(10 * time.Second)
	for range list[1:] {
		d.grow()
	}
}

const many = 50

func (d *deployment) growAndShrink() {
	for len(d.members()) < many {
		d.grow()
		d.some(time.Second)
	}
	d.wellAgain()
	list := d.shuffled()
	for len(list) > d.Size {
		n := min(1+d.rng.IntN(5), len(list)-d.Size)
		d.remove(list[:n]...)
		list = list[n:]
		d.some(3 * time.Second)
	}
}

// moveAll starts all instances again under new addresses at about the same time, as after a failure of the site. Calls wait; the client outside keeps what it holds.
func (d *deployment) moveAll() {
	list := d.members()
	crash := d.rng.IntN(2) == 0
	for _, in := range list {
		if crash {
			d.down(in)
			d.c.Crash(in.index)
			d.outcome.Bites.Crashes++
			continue
		}
		node := in.node
		d.down(in)
		_ = node.Close() // the last ones have no quorum any more
		_ = d.c.Stop(in.index)
	}
	d.some(3 * time.Second)
	for _, in := range list {
		d.c.Move(in.index)
		d.c.Start(in.index)
		d.some(time.Second)
	}
	for _, in := range list {
		d.ready(in.index)
		d.resume(in)
	}
}

// loseOneByOne loses instances without a word, with time for the group to mend itself in between, until there are no more than what a majority needs.
func (d *deployment) loseOneByOne() {
	for len(d.members()) > 3 {
		voters := d.voters()
		in := voters[d.rng.IntN(len(voters))]
		d.down(in)
		in.left.Store(true)
		d.c.Crash(in.index)
		d.moved++
		d.outcome.Bites.Crashes++
		d.wellAgain()
	}
}

func (d *deployment) voters() (list []*instance) {
	members, _ := d.outside.node.Members(context.Background(), quorumlock.Local()) // as it was told lately
	for _, in := range d.members() {
		if slices.ContainsFunc(members, func(m quorumlock.Member) bool { return m.Voter && m.ServerID == in.node.ID() }) {
			list = append(list, in)
		}
	}
	return list
}
