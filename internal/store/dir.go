//go:build !wasip1

package store

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// The files of a data directory, besides the snapshots directory that belongs to raft's file snapshot store.
const (
	lockName      = "LOCK"
	metaName      = "meta"
	identityName  = "identity"
	boltName      = "raft.db"
	segmentsName  = "log" // the log, where it is not in raft.db
	snapshotsDir  = "snapshots"
	condemnedName = "condemned" // see Store.Condemn
)

// dirFormat is the highest version of the directory's layout that this package reads. It writes the lowest that says what it has
// to say, so that a version before it reads all that it can.
const (
	plainFormat    = 1
	segmentsFormat = 2 // meta names the form of the log
	dirFormat      = segmentsFormat
)

// lockPatience bounds the wait for a directory in use. The lock of a killed process is free within some 40 ms.
const lockPatience = 2 * time.Second

// dirMeta is the content of the meta file.
type dirMeta struct {
	ServerID string    `json:"server_id"`
	Cluster  string    `json:"cluster"`
	Created  time.Time `json:"created"`
	// Complete is set once all other files exist. Before, nothing has been promised to anybody and a half-made directory may be
	// finished; afterwards a file that is missing has been lost, and with it perhaps a vote.
	Complete bool `json:"complete"`
	// Heir is the subdirectory in which the member's own files stand, if it succeeded another; see Store.Succeed.
	Heir string `json:"heir,omitempty"`
	// Log is the form of the log. A directory keeps the one that it was made with.
	Log logForm `json:"log,omitempty"`
}

func (m *dirMeta) format() int {
	if m.Log == logInBolt {
		return plainFormat
	}
	return segmentsFormat
}

// dataDir is a directory being opened, or open.
type dataDir struct {
	path   string
	lock   *dirLock
	meta   dirMeta
	start  incarnation
	holder Holder // this process
	bolt   *boltFile
	log    *segmentLogs // nil: the log is in bolt
	logger hclog.Logger
}

func openDir(ctx context.Context, opt Options) (*medium, error) {
	if opt.Existing {
		if _, err := os.Stat(filepath.Join(opt.Dir, metaName)); err != nil {
			return nil, errNoMember(opt.Dir)
		}
	}
	if err := makeDir(opt.Dir); err != nil {
		return nil, &DirError{Dir: opt.Dir, Err: err}
	}
	lock, err := lockDir(ctx, opt.Dir)
	if err != nil {
		return nil, err
	}
	d := &dataDir{path: opt.Dir, lock: lock, logger: opt.Logger}
	m, err := d.open(opt)
	if err != nil {
		return nil, errors.Join(d.typed(err), d.close())
	}
	return m, nil
}

// makeDir makes the directory itself, not its parents: a mistyped or unmounted path should not be brought to life.
func makeDir(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return errors.New("is not a directory")
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// open does all reading that may refuse the directory before the first write.
func (d *dataDir) open(opt Options) (*medium, error) {
	found, err := d.readMeta(opt.Cluster)
	if err != nil {
		return nil, err
	}
	if opt.Existing && !d.meta.Complete {
		return nil, errNoMember(d.path)
	}
	if d.meta.Complete {
		if err := d.checkMark(); err != nil {
			return nil, err
		}
		identity, err := d.readIdentity()
		if err == nil {
			err = opt.admit(identity)
		}
		if err != nil {
			return nil, err
		}
	}
	d.start = d.judge(opt)
	if err := d.probe(); err != nil {
		return nil, err
	}
	d.holder = currentHolder(d.lock.last())
	if err := d.lock.announce(d.holder); err != nil {
		return nil, err
	}
	if !found {
		d.meta = dirMeta{ServerID: newServerID(), Cluster: opt.Cluster, Created: time.Now().UTC(), Log: opt.logForm()}
		if err := d.writeMeta(); err != nil {
			return nil, err
		}
	}
	if !d.meta.Complete {
		if err := d.startAfresh(); err != nil {
			return nil, err
		}
	}
	if err := d.sweepHeirs(); err != nil {
		return nil, err
	}
	m, err := d.openParts()
	if err != nil || d.meta.Complete {
		return m, err
	}
	d.meta.Complete = true
	return m, d.writeMeta()
}

func (d *dataDir) openParts() (*medium, error) {
	identity, err := d.readIdentity()
	if err != nil {
		return nil, err
	}
	if err := d.openLog(!d.meta.Complete); err != nil {
		return nil, err
	}
	if err := d.sweepSnapshots(); err != nil {
		return nil, err
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(d.data(""), retainedSnapshots, d.logger.Named("snapshots"))
	if err != nil {
		return nil, err
	}
	return &medium{
		serverID:      d.meta.ServerID,
		durable:       true,
		logs:          d.logs(),
		stable:        d.bolt,
		snapshots:     syncedSnapshots{SnapshotStore: snaps, dir: d.data(snapshotsDir)},
		identity:      identity,
		started:       d.holder.Started,
		incarnation:   d.start,
		writeIdentity: d.writeIdentity,
		retire:        d.retire,
		condemn:       d.condemn,
		succeed:       d.succeed,
		release:       func() {},
		close:         d.close,
	}, nil
}

// openLog opens what raft keeps, or makes it if fresh.
func (d *dataDir) openLog(fresh bool) (err error) {
	if d.bolt, err = openBoltFile(d.data(boltName), fresh); err != nil || d.meta.Log == logInBolt {
		return err
	}
	d.log, err = openSegments(d.data(segmentsName), fresh)
	return err
}

func (d *dataDir) logs() raft.LogStore {
	if d.log != nil {
		return d.log
	}
	return d.bolt
}

func (d *dataDir) closeLog() error {
	var errs []error
	if d.log != nil {
		errs = append(errs, d.log.close())
	}
	if d.bolt != nil {
		errs = append(errs, d.bolt.close())
	}
	return errors.Join(errs...)
}

func (d *dataDir) file(name string) string { return filepath.Join(d.path, name) }

// readMeta reads the meta file if there is one and says whether there was. A directory with a log but no meta file has lost its
// server id; a new one beside the old log would be a stranger with somebody's memory.
func (d *dataDir) readMeta(cluster string) (found bool, err error) {
	format, body, err := readRecord(d.file(metaName), "meta")
	switch {
	case format > dirFormat:
		return false, &FormatError{Dir: d.path, Found: format, Supported: dirFormat}
	case errors.Is(err, fs.ErrNotExist):
		if log := d.strayLog(); log != "" {
			return false, corrupt(d.file(metaName), "it is missing beside %s", log)
		}
		return false, nil
	case err != nil:
		return false, err
	}
	if err := json.Unmarshal(body, &d.meta); err != nil {
		return false, &CorruptError{What: d.file(metaName), Err: err}
	}
	if d.meta.ServerID == "" {
		return false, corrupt(d.file(metaName), "no server id in it")
	}
	if h := d.meta.Heir; h != "" && (filepath.Base(h) != h || !strings.HasPrefix(h, heirPrefix)) {
		return false, corrupt(d.file(metaName), "%q is no directory of a successor", h)
	}
	if !d.meta.Log.known() {
		return false, corrupt(d.file(metaName), "%q is no form of a log", d.meta.Log)
	}
	if d.meta.Cluster != cluster {
		return false, &ForeignError{Dir: d.path, Found: d.meta.Cluster, Asked: cluster}
	}
	return true, nil
}

func (d *dataDir) writeMeta() error {
	body, err := json.Marshal(d.meta)
	if err != nil {
		return err
	}
	return writeRecord(d.file(metaName), "meta", d.meta.format(), body)
}

// probe finds out whether files can be made here, and leaves nothing.
func (d *dataDir) probe() error {
	f, err := os.CreateTemp(d.path, "probe-*"+tempSuffix)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// retire leaves a directory that looks like that of an interrupted first Open.
func (d *dataDir) retire() error {
	d.meta = dirMeta{ServerID: newServerID(), Cluster: d.meta.Cluster, Created: time.Now().UTC(), Log: d.meta.Log}
	return d.writeMeta()
}

// condemn leaves a file of its own, and not a field of another one: whoever knows better can remove it, and nothing else has to be changed.
func (d *dataDir) condemn(reason string) error {
	return writeRecord(d.file(condemnedName), "condemned", plainFormat, []byte(reason))
}

// checkMark refuses a directory that was condemned. A mark that cannot be read is one all the same.
func (d *dataDir) checkMark() error {
	_, reason, err := readRecord(d.file(condemnedName), "condemned")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		reason = []byte(err.Error())
	}
	return &CondemnedError{Dir: d.path, Reason: string(reason), Mark: d.file(condemnedName)}
}

// startAfresh clears what an interrupted first Open, or a member that retired, has left, and makes the identity file.
func (d *dataDir) startAfresh() error {
	if err := os.Remove(d.file(boltName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(d.file(condemnedName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range []string{segmentsName, snapshotsDir} {
		if err := os.RemoveAll(d.file(name)); err != nil {
			return err
		}
	}
	return d.writeIdentity(Identity{})
}

// identityRecord is the content of the identity file.
type identityRecord struct {
	ClusterID string `json:"cluster_id"`
	Joining   string `json:"joining,omitempty"`
	Promise   []byte `json:"promise"`
}

func (d *dataDir) readIdentity() (Identity, error) {
	_, body, err := readRecord(d.data(identityName), "identity")
	if errors.Is(err, fs.ErrNotExist) {
		err = &CorruptError{What: d.data(identityName), Err: err}
	}
	if err != nil {
		return Identity{}, err
	}
	var r identityRecord
	if err := json.Unmarshal(body, &r); err != nil {
		return Identity{}, &CorruptError{What: d.data(identityName), Err: err}
	}
	return Identity(r), nil
}

func (d *dataDir) writeIdentity(id Identity) error {
	body, err := json.Marshal(identityRecord(id))
	if err != nil {
		return err
	}
	return writeRecord(d.data(identityName), "identity", plainFormat, body)
}

// sweepSnapshots removes snapshots that were never finished. raft skips them but never deletes them.
func (d *dataDir) sweepSnapshots() error {
	entries, err := os.ReadDir(d.data(snapshotsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasSuffix(e.Name(), tempSuffix) {
			if err := os.RemoveAll(filepath.Join(d.data(snapshotsDir), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// close lets go of the lock last.
func (d *dataDir) close() error {
	return errors.Join(d.closeLog(), d.lock.release())
}

// typed makes sure that every refusal names the directory and can be told apart.
func (d *dataDir) typed(err error) error {
	var (
		inUse   *InUseError
		format  *FormatError
		foreign *ForeignError
		damaged *CorruptError
		marked  *CondemnedError
	)
	if errors.As(err, &inUse) || errors.As(err, &format) || errors.As(err, &foreign) || errors.As(err, &damaged) || errors.As(err, &marked) {
		return err
	}
	return &DirError{Dir: d.path, Err: err}
}
