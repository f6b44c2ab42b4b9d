package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/hashicorp/raft"
)

// guardedSnapshots is raft's SnapshotStore: latch and watchdog around the medium's.
//
// Its writes do not queue with those of the log: a snapshot takes long, and is only an optimisation until it is finished.
type guardedSnapshots struct {
	s      *Store
	base   raft.SnapshotStore
	verify func(io.Reader) error // nil: nobody reads along
}

func (g *guardedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	var sink raft.SnapshotSink
	err := g.s.watch("create snapshot", 1, func() (err error) {
		sink, err = g.base.Create(version, index, term, configuration, configurationIndex, trans)
		return err
	})
	if err != nil {
		if sink != nil {
			_ = sink.Cancel()
		}
		return nil, err
	}
	return &guardedSink{s: g.s, base: sink, along: readAlong(g.verify)}, nil
}

func (g *guardedSnapshots) List() ([]*raft.SnapshotMeta, error) {
	if err := g.s.usable(); err != nil {
		return nil, err
	}
	return g.base.List()
}

// Open verifies the whole snapshot. One that is gone was replaced since it was listed; any other failure fells the latch.
func (g *guardedSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if err := g.s.usable(); err != nil {
		return nil, nil, err
	}
	meta, content, err := g.base.Open(id)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return meta, content, err
	}
	return nil, nil, g.s.fail(fmt.Errorf("read snapshot: %w", &CorruptError{What: "snapshot " + id, Err: err}))
}

// guardedSink remembers how it ended: the file store's sink answers a second Close with nil even if the first one failed.
// A sink belongs to one goroutine.
type guardedSink struct {
	s     *Store
	base  raft.SnapshotSink
	along *alongReader
	ended bool
	err   error
}

func (k *guardedSink) ID() string { return k.base.ID() }

func (k *guardedSink) Write(p []byte) (n int, err error) {
	err = k.s.watch("write snapshot", 1, func() (err error) {
		n, err = k.base.Write(p)
		return err
	})
	if err != nil {
		return n, err
	}
	if err := k.along.write(p); err != nil {
		return 0, k.refused(err)
	}
	return n, nil
}

func (k *guardedSink) refused(err error) error { return &RefusedError{Snapshot: k.base.ID(), Err: err} }

// Close makes the snapshot durable, and visible, if whoever reads along accepts it. raft shortens its log only after it has returned nil.
func (k *guardedSink) Close() error {
	if k.ended {
		return k.err
	}
	k.ended = true
	if err := k.along.finish(nil); err != nil {
		k.s.logger.Warn("a snapshot is refused by whoever reads it back: it is not kept", "snapshot", k.base.ID(), "error", err)
		_ = k.discard()
		k.err = k.refused(err)
		return k.err
	}
	k.err = k.s.watch("finish snapshot", snapshotPatience, k.base.Close)
	if k.err != nil {
		_ = k.base.Cancel() // lets go of the file where Close was not reached
	}
	return k.err
}

// Cancel throws the snapshot away. It reaches the medium even on a failed store, to let go of the file.
func (k *guardedSink) Cancel() error {
	if k.ended {
		return k.err
	}
	k.ended = true
	_ = k.along.finish(errCancelled)
	k.err = k.discard()
	return k.err
}

func (k *guardedSink) discard() error {
	if k.s.usable() != nil {
		return k.base.Cancel()
	}
	return k.s.watch("cancel snapshot", snapshotPatience, k.base.Cancel)
}
