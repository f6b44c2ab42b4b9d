package conformance

import (
	"testing"

	"github.com/quorumlock/quorumlock/snapshots"
	"github.com/quorumlock/quorumlock/snapshots/snaptest"
)

func TestBucket(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		snaptest.Test(t, func(t *testing.T) snapshots.Store { return storeAt(t, inMemory(t, nil), "", 1) })
	})
	t.Run("on disk, under a prefix", func(t *testing.T) {
		snaptest.Test(t, func(t *testing.T) snapshots.Store { return storeAt(t, onDisk(t), "backups/quorumlock-", 3) })
	})
}
