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

// failDisk ends an instance's part in the group; it is started again with a disk that is in order.
func (n *nemesis) failDisk() bool {
	in, d := n.disk()
	if in == nil {
		return false
	}
	d.Fail(errInjected)
	n.later(longest, func() { n.replaceDisk(in, d) })
	return true
}

func (n *nemesis) replaceDisk(in *instance, d *diskTrouble) {
	if in.frozen.Load() { // nobody can end it
		n.later(time.Second, func() { n.replaceDisk(in, d) })
		return
	}
	if in.node == nil {
		d.Fail(nil)
	} else {
		if err := in.node.Err(); err != nil && !(errors.Is(err, quorumlock.ErrFailed) && errors.Is(err, errInjected)) {
			n.t.Errorf("node with a failed disk: %v", err)
		}
		n.close(in)
		d.Fail(nil)
		n.start(in)
	}
	d.well()
}
