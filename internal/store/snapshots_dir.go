//go:build !wasip1

package store

import (
	"fmt"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// syncedSnapshots closes a gap in raft's file store: it syncs the files of a snapshot and the directory that holds the snapshots,
// but not the snapshot's own directory in between. It is done before Close returns, and raft shortens its log only then.
type syncedSnapshots struct {
	raft.SnapshotStore
	dir string
}

func (s syncedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, configuration, configurationIndex, trans)
	if err != nil {
		return nil, err
	}
	return &syncedSink{SnapshotSink: sink, dir: filepath.Join(s.dir, sink.ID())}, nil
}

type syncedSink struct {
	raft.SnapshotSink
	dir string
}

func (k *syncedSink) Close() error {
	if err := k.SnapshotSink.Close(); err != nil {
		return err
	}
	if err := syncDir(k.dir); err != nil {
		return fmt.Errorf("sync snapshot: %w", err)
	}
	return nil
}
