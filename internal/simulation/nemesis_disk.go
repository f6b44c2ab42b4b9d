package simulation

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

var diskActs = []act{
	{"slow disk", 1, (*nemesis).slowDisk},
	{"hung disk", 2, (*nemesis).hangDisk},
	{"failed disk", 1, (*nemesis).failDisk},
}

// diskTrouble is a disk with a fault, and what marks its end.
type diskTrouble struct {
	*quorumlocktest.Disk
	well func()
}

// disk picks an instance with a disk that is in order.
func (n *nemesis) disk() (*instance, *diskTrouble) {
	if n.Memory {
		return nil, nil
	}
	in := n.victim()
	if in == nil || in.bad["disk"] > 0 {
		return nil, nil
	}
	return in, &diskTrouble{n.c.Disk(in.index), in.trouble("disk")}
}

func (n *nemesis) slowDisk() bool {
	in, d := n.disk()
	if in == nil {
		return false
	}
	d.Slow(time.Duration(n.rng.Int64N(int64(1500 * time.Millisecond))))
	n.later(longest, func() { d.Slow(0); d.well() })
	return true
}

func (n *nemesis) hangDisk() bool {
	in, d := n.disk()
	if in == nil {
		return false
	}
	d.Hang(true)
	n.later(longest, func() { d.Hang(false); d.well() })
	return true
}

var errInjected = errors.New("input/output error")

// failDisk ends an instance's part in the group, whether all writes fail or a single one; it is started again with a disk that is in order.
func (n *nemesis) failDisk() bool {
	in, d := n.disk()
	if in == nil {
		return false
	}
	before := d.Refused()
	if n.rng.IntN(2) == 0 {
		d.Fail(errInjected)
	} else {
		d.FailNext(errInjected)
	}
	n.later(longest, func() { n.replaceDisk(in, d, before) })
	return true
}

// failureBound is within what a node fails after its disk has refused a write.
const failureBound = time.Second

// replaceDisk starts an instance again. A node whose disk refused a write must have failed by then (I11).
func (n *nemesis) replaceDisk(in *instance, d *diskTrouble, before int) {
	if in.frozen.Load() { // nobody can end it
		n.later(time.Second, func() { n.replaceDisk(in, d, before) })
		return
	}
	d.Fail(nil)
	d.FailNext(nil)
	if in.node != nil {
		time.Sleep(failureBound)
		err := in.node.Err()
		if failed := errors.Is(err, quorumlock.ErrFailed) && errors.Is(err, errInjected); !failed && (err != nil || d.Refused() > before) {
			n.t.Errorf("instance %d, whose disk refused %d writes: %v", in.index, d.Refused()-before, err)
		}
		n.close(in)
		n.start(in)
	}
	d.well()
}
