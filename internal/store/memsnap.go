package store

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// memSnapshots keeps finished snapshots in memory. raft's own in-memory store is unfit: it keeps the snapshot created last, even
// if it was never finished, and so loses the one to restore from.
type memSnapshots struct {
	mu   sync.Mutex
	made int           // distinguishes snapshots of one term and index
	kept []memSnapshot // newest first
}

type memSnapshot struct {
	meta    raft.SnapshotMeta
	made    int
	content []byte // immutable once kept
}

func (m *memSnapshots) create(index, term uint64, configuration raft.Configuration, configurationIndex uint64) *memSnapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made++
	return &memSnapshot{
		made: m.made,
		meta: raft.SnapshotMeta{
			Version:            raft.SnapshotVersionMax,
			ID:                 fmt.Sprintf("%d-%d-%d", term, index, m.made),
			Index:              index,
			Term:               term,
			Configuration:      configuration.Clone(),
			ConfigurationIndex: configurationIndex,
		},
	}
}

func (m *memSnapshots) keep(snap *memSnapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	snap.meta.Size = int64(len(snap.content))
	m.kept = append(m.kept, *snap)
	slices.SortFunc(m.kept, func(a, b memSnapshot) int {
		return -cmp.Or(cmp.Compare(a.meta.Term, b.meta.Term), cmp.Compare(a.meta.Index, b.meta.Index), cmp.Compare(a.made, b.made))
	})
	m.kept = m.kept[:min(len(m.kept), retainedSnapshots)]
}

// alter is Disk.AlterSnapshot.
func (m *memSnapshots) alter(change func([]byte) []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.kept) == 0 {
		return false
	}
	newest := &m.kept[0]
	newest.content = change(bytes.Clone(newest.content))
	newest.meta.Size = int64(len(newest.content))
	return true
}

func (m *memSnapshots) list() []*raft.SnapshotMeta {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*raft.SnapshotMeta
	for _, snap := range m.kept {
		list = append(list, snap.copyMeta())
	}
	return list
}

func (m *memSnapshots) open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, snap := range m.kept {
		if snap.meta.ID == id {
			return snap.copyMeta(), io.NopCloser(bytes.NewReader(snap.content)), nil
		}
	}
	return nil, nil, fmt.Errorf("snapshot %s: %w", id, fs.ErrNotExist)
}

func (s memSnapshot) copyMeta() *raft.SnapshotMeta {
	meta := s.meta
	meta.Configuration = meta.Configuration.Clone()
	return &meta
}
