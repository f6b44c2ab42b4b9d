//go:build !wasip1

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// heirPrefix begins the names of the subdirectories that hold the data of successors. Identity, log and snapshots of a member
// that succeeded another stand in one of its own, which meta names: so the replacement of meta, one atomic rename, is the moment
// in which all of them change.
const heirPrefix = "heir-"

// data is where a file of the member itself stands: in the directory, or in that of a successor.
func (d *dataDir) data(name string) string { return filepath.Join(d.path, d.meta.Heir, name) }

// heir is a directory for the data of a successor, and what is kept in it.
type heir struct {
	dataDir
	owner *dataDir
}

// succeed makes the directory of a successor. LOCK, meta and condemned remain one for all.
func (d *dataDir) succeed(serverID string) (*successor, error) {
	h := &heir{owner: d}
	h.path, h.logger = d.path, d.logger
	h.meta = d.meta
	h.meta.ServerID, h.meta.Created, h.meta.Heir = serverID, time.Now().UTC(), heirPrefix+serverID
	if err := os.Mkdir(h.data(""), 0o700); err != nil {
		return nil, err
	}
	snaps, err := h.openFresh()
	if err != nil {
		return nil, errors.Join(err, h.discard())
	}
	return &successor{
		stable:    h.bolt,
		snapshots: syncedSnapshots{SnapshotStore: snaps, dir: h.data(snapshotsDir)},
		commit:    h.commit,
		discard:   h.discard,
	}, nil
}

func (h *heir) openFresh() (snaps raft.SnapshotStore, err error) {
	if err := h.openLog(true); err != nil {
		return nil, err
	}
	return raft.NewFileSnapshotStoreWithLogger(h.data(""), retainedSnapshots, h.logger.Named("snapshots"))
}

// commit syncs what the rename of meta will show, from the bottom up.
func (h *heir) commit(id Identity) error {
	err := h.writeIdentity(id)
	err = errors.Join(err, h.closeLog())
	if err == nil {
		err = errors.Join(syncDir(h.data(snapshotsDir)), syncDir(h.data("")), syncDir(h.path))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(h.data("")))
	}
	return h.writeMeta()
}

func (h *heir) discard() error {
	return errors.Join(h.closeLog(), os.RemoveAll(h.data("")))
}

// sweepHeirs removes what a member that was succeeded has left, and successors that were never finished.
func (d *dataDir) sweepHeirs() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), heirPrefix) && e.Name() != d.meta.Heir {
			errs = append(errs, os.RemoveAll(d.file(e.Name())))
		}
	}
	if d.meta.Heir != "" {
		for _, name := range []string{boltName, segmentsName, identityName, snapshotsDir} {
			errs = append(errs, os.RemoveAll(d.file(name)))
		}
	}
	return errors.Join(errs...)
}

// strayLog is a log in the directory, whoever wrote it; "" without one.
func (d *dataDir) strayLog() string {
	var logs []string
	for _, name := range []string{boltName, segmentsName} {
		heirs, _ := filepath.Glob(d.file(heirPrefix + "*/" + name)) // its only error is that of a bad pattern
		logs = append(logs, heirs...)
		if _, err := os.Stat(d.file(name)); !errors.Is(err, fs.ErrNotExist) {
			logs = append(logs, d.file(name))
		}
	}
	if len(logs) == 0 {
		return ""
	}
	return logs[0]
}
