package quorumlock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/backup"
	"github.com/quorumlock/quorumlock/snapshots"
)

// SnapshotStore is where snapshots are kept for the day on which all else is lost: see package snapshots.
type SnapshotStore = snapshots.Store

const (
	defaultSnapshotEvery = time.Hour
	defaultSnapshotKeep  = 48
	minSnapshotEvery     = time.Second
	maxSnapshotEvery     = 30 * 24 * time.Hour
)

func (c *Config) snapshotDefaults() {
	c.SnapshotKeys = slices.Clone(c.SnapshotKeys)
	for i, k := range c.SnapshotKeys {
		c.SnapshotKeys[i] = slices.Clone(k)
	}
	if c.Snapshots == nil {
		return
	}
	if c.SnapshotEvery == 0 {
		c.SnapshotEvery = defaultSnapshotEvery
	}
	if c.SnapshotKeep == 0 {
		c.SnapshotKeep = defaultSnapshotKeep
		if c.SnapshotKeepFor > 0 {
			c.SnapshotKeep = 1
		}
	}
}

func (c *Config) validateSnapshots(p *problems) {
	for i, k := range c.SnapshotKeys {
		if len(k) != backup.KeySize {
			p.add("SnapshotKeys", nil, "key %d has %d bytes; %d are needed", i, len(k), backup.KeySize)
		}
	}
	if c.Snapshots == nil {
		if c.SnapshotEvery != 0 || c.SnapshotKeep != 0 || c.SnapshotKeepFor != 0 {
			p.add("Snapshots", nil, "is needed with SnapshotEvery, SnapshotKeep and SnapshotKeepFor")
		}
		return
	}
	if c.SnapshotEvery < minSnapshotEvery || c.SnapshotEvery > maxSnapshotEvery {
		p.add("SnapshotEvery", c.SnapshotEvery, "must lie between %v and %v", minSnapshotEvery, maxSnapshotEvery)
	}
	if c.SnapshotKeep < -1 {
		p.add("SnapshotKeep", c.SnapshotKeep, "must be a number of snapshots, or -1 for all")
	}
	if c.SnapshotKeepFor < 0 {
		p.add("SnapshotKeepFor", c.SnapshotKeepFor, "must not be negative")
	}
}

// sealingKey encrypts; nil: nothing is encrypted.
func (c *Config) sealingKey() []byte {
	if len(c.SnapshotKeys) == 0 {
		return nil
	}
	return c.SnapshotKeys[0]
}
