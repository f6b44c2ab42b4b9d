package quorumlocktest

import (
	"context"

	"github.com/quorumlock/quorumlock"
)

// Restore calls quorumlock.Restore on the disk of instance i, which must be down and empty: Replace empties it. The
// others join the restored one when they are started with empty disks as well.
func (c *Cluster) Restore(i int, opt quorumlock.RestoreOptions) (*quorumlock.Restoration, error) {
	c.t.Helper()
	in := c.instance(i)
	if c.running(in) != nil {
		c.t.Fatalf("instance %d is up", i)
	}
	return quorumlock.Restore(context.Background(), c.config(in), opt)
}
