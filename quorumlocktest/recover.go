package quorumlocktest

import (
	"context"

	"github.com/quorumlock/quorumlock"
)

// Recover calls quorumlock.Recover on the disk of instance i, which must be down. The instances that were given up come
// back with the disks that they have; Replace empties them.
func (c *Cluster) Recover(i int, opt quorumlock.RecoverOptions) (*quorumlock.Recovery, error) {
	c.t.Helper()
	in := c.instance(i)
	if c.running(in) != nil {
		c.t.Fatalf("instance %d is up", i)
	}
	return quorumlock.Recover(context.Background(), c.config(in), opt)
}
