package store

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Disk stands in for a data directory in simulations. It outlives the stores opened on it, as a directory outlives processes.
// Writes are atomic, and durable once they have returned. It uses no files and works inside a testing/synctest bubble.
//
// The methods below Crash plant faults. All of them may be called at any time from any goroutine.
type Disk struct {
	serverID  string
	logs      *raft.InmemStore
	values    map[string][]byte // of the stable store; guarded by mu
	snapshots memSnapshots

	mu       sync.Mutex
	cluster  string
	used     bool // cluster has been recorded
	identity Identity
	retired  bool      // the next open finds it empty
	heir     *Disk     // what the next open finds, if there is one
	mark     string    // not empty: condemned, and why
	user     *diskUser // nil: not open
	last     Holder    // of the latest user
	run      *mark     // of the latest incarnation; immutable
	boots    int       // of the machine
	lockFile uint64    // stands for the inode of the lock file

	slow     time.Duration
	hang     chan struct{} // non-nil while writes hang; closed to let them go
	failAll  error
	failNth  error
	failIn   int // writes up to and with the one that fails with failNth; 0: none
	failMark error
	refused  int // writes that failed so
}

// diskUser is one process's hold on the disk.
type diskUser struct {
	disk   *Disk
	holder Holder
	gone   chan struct{} // closed when err is set
	err    error         // ErrClosed or ErrCrashed; guarded by disk.mu
}

// NewDisk makes an empty disk with a server id of its own.
func NewDisk() *Disk {
	return &Disk{serverID: newServerID(), logs: raft.NewInmemStore(), values: make(map[string][]byte)}
}

// open takes the disk for one Store.
func (d *Disk) open(opt Options, durable bool) (*medium, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.user != nil {
		return nil, &InUseError{Dir: d.name(), Holder: d.user.holder}
	}
	if d.used && d.cluster != opt.Cluster {
		return nil, &ForeignError{Dir: d.name(), Found: d.cluster, Asked: opt.Cluster}
	}
	if d.retired {
		d.serverID, d.identity, d.retired, d.mark = newServerID(), Identity{}, false, ""
		d.logs, d.values, d.snapshots = raft.NewInmemStore(), make(map[string][]byte), memSnapshots{}
	}
	if h := d.heir; h != nil {
		d.serverID, d.identity, d.logs, d.values, d.heir = h.serverID, h.identity, h.logs, h.values, nil
		d.snapshots = memSnapshots{made: h.snapshots.made, kept: h.snapshots.kept}
	}
	if opt.Existing && !d.used {
		return nil, errNoMember(d.name())
	}
	if d.mark != "" {
		return nil, &CondemnedError{Dir: d.name(), Reason: d.mark}
	}
	if err := opt.admit(d.identity.clone()); err != nil {
		return nil, err
	}
	d.used, d.cluster = true, opt.Cluster
	u := &diskUser{disk: d, holder: currentHolder(d.last), gone: make(chan struct{})}
	d.user, d.last = u, u.holder
	return &medium{
		serverID:      d.serverID,
		durable:       durable,
		logs:          diskLogs{u},
		stable:        diskValues{u, d},
		snapshots:     diskSnapshots{u, d},
		identity:      d.identity.clone(),
		started:       u.holder.Started,
		incarnation:   d.judge(u, opt, durable),
		writeIdentity: u.writeIdentity,
		retire:        u.retire,
		condemn:       u.condemn,
		succeed:       u.succeed,
		release:       func() { u.leave(ErrClosed) },
		close:         func() error { u.leave(ErrClosed); return nil },
	}, nil
}

func (d *Disk) name() string { return "(simulated disk " + d.serverID[:8] + ")" }

// Crash is what kill -9 of the process does: the disk is free to be opened again, and the Store that was open on it gets
// ErrCrashed from every access, without effect, for ever. Its latch does not fall. A write that hangs is let go. Where raft would
// panic on that error, the calling goroutine of raft ends.
func (d *Disk) Crash() {
	d.mu.Lock()
	u := d.user
	d.mu.Unlock()
	if u != nil {
		u.leave(ErrCrashed)
	}
}

// SlowWrites makes each write take delay longer; zero ends it.
func (d *Disk) SlowWrites(delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow = delay
}

// HangWrites makes writes hang until it is called with false, or the Store is closed, or the disk crashes.
func (d *Disk) HangWrites(hang bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case hang && d.hang == nil:
		d.hang = make(chan struct{})
	case !hang && d.hang != nil:
		close(d.hang)
		d.hang = nil
	}
}

// FailWrites makes every write fail with err, without effect, until it is called with nil.
func (d *Disk) FailWrites(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failAll = err
}

// FailNextWrite makes the next write fail with err, without effect.
func (d *Disk) FailNextWrite(err error) { d.FailWrite(1, err) }

// FailWrite makes the nth write from now on fail with err, without effect.
func (d *Disk) FailWrite(nth int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failNth, d.failIn = err, nth
}

// FailCondemn makes the mark of Store.Condemn fail with err, without effect, until it is called with nil.
func (d *Disk) FailCondemn(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failMark = err
}

// AlterSnapshot puts what change makes of the newest snapshot's content in its place, and reports whether there is one. As with Corrupt no Store notices.
func (d *Disk) AlterSnapshot(change func(content []byte) []byte) bool {
	return d.snapshots.alter(change)
}

// Corrupt flips a bit in the stored log entry. It reports whether there is such an entry. As with a real disk, a Store that is
// open may still have the entry in its cache.
func (d *Disk) Corrupt(index uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	var entry raft.Log
	if err := d.logs.GetLog(index, &entry); err != nil {
		return false
	}
	damaged := slices.Clone(entry.Data)
	if len(damaged) == 0 {
		damaged = []byte{0}
	} else {
		damaged[len(damaged)/2] ^= 1
	}
	entry.Data = damaged
	return d.logs.StoreLog(&entry) == nil
}

func (u *diskUser) leave(why error) {
	u.disk.mu.Lock()
	defer u.disk.mu.Unlock()
	if u.err != nil {
		return
	}
	u.err = why
	close(u.gone)
	u.disk.user = nil
}

// read runs fn if the process still lives. The disk stays locked, so that no successor writes meanwhile.
func (u *diskUser) read(fn func() error) error {
	u.disk.mu.Lock()
	defer u.disk.mu.Unlock()
	if u.err != nil {
		return u.err
	}
	return fn()
}

// write runs fn as one atomic write, after the planted faults have had their turn.
func (u *diskUser) write(fn func() error) error {
	u.linger()
	return u.read(func() error {
		if err := u.disk.takeFault(); err != nil {
			return err
		}
		return fn()
	})
}

// linger waits as long as the disk is slow or hangs and the process lives.
func (u *diskUser) linger() {
	u.disk.mu.Lock()
	slow := u.disk.slow
	u.disk.mu.Unlock()
	if slow > 0 {
		timer := time.NewTimer(slow)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-u.gone:
		}
	}
	for {
		u.disk.mu.Lock()
		hang := u.disk.hang
		u.disk.mu.Unlock()
		if hang == nil {
			return
		}
		select {
		case <-hang:
		case <-u.gone:
			return
		}
	}
}

// takeFault returns the error the next write has to fail with. The caller holds d.mu.
func (d *Disk) takeFault() error {
	err := d.failAll
	if d.failIn > 0 {
		if d.failIn--; d.failIn == 0 && d.failNth != nil {
			err = d.failNth
		}
	}
	if err != nil {
		d.refused++
	}
	return err
}

// Refused is how many writes have failed because of FailWrites and FailWrite.
func (d *Disk) Refused() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused
}

func (u *diskUser) retire() error {
	return u.write(func() error {
		u.disk.retired = true
		return nil
	})
}

// succeed makes another disk, whose writes are subject to the faults of this one.
func (u *diskUser) succeed(serverID string) (*successor, error) {
	next := NewDisk()
	next.serverID = serverID
	return &successor{
		stable:    diskValues{u, next},
		snapshots: diskSnapshots{u, next},
		commit: func(id Identity) error {
			return u.write(func() error {
				next.identity = id.clone()
				u.disk.heir = next
				return nil
			})
		},
		discard: func() error { return nil },
	}, nil
}

func (u *diskUser) condemn(reason string) error {
	return u.write(func() error {
		if err := u.disk.failMark; err != nil {
			u.disk.refused++
			return err
		}
		u.disk.mark = reason
		return nil
	})
}

func (u *diskUser) writeIdentity(id Identity) error {
	return u.write(func() error {
		u.disk.identity = id.clone()
		return nil
	})
}

// diskLogs is a raft.LogStore.
type diskLogs struct{ u *diskUser }

func (l diskLogs) FirstIndex() (index uint64, err error) {
	err = l.u.read(func() error { index, err = l.u.disk.logs.FirstIndex(); return err })
	return index, err
}

func (l diskLogs) LastIndex() (index uint64, err error) {
	err = l.u.read(func() error { index, err = l.u.disk.logs.LastIndex(); return err })
	return index, err
}

func (l diskLogs) GetLog(index uint64, out *raft.Log) error {
	return l.u.read(func() error { return l.u.disk.logs.GetLog(index, out) })
}

func (l diskLogs) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

func (l diskLogs) StoreLogs(entries []*raft.Log) error {
	return l.u.write(func() error { return l.u.disk.logs.StoreLogs(entries) })
}

func (l diskLogs) DeleteRange(from, to uint64) error {
	return l.u.write(func() error { return l.u.disk.logs.DeleteRange(from, to) })
}

// diskValues is a valueStore. It keeps the slices it is given; the ones that come here are fresh.
type diskValues struct {
	u  *diskUser
	of *Disk // the user's, or that of a successor being made
}

func (v diskValues) Set(key, value []byte) error {
	return v.u.write(func() error { v.of.values[string(key)] = value; return nil })
}

func (v diskValues) Get(key []byte) (value []byte, err error) {
	err = v.u.read(func() error {
		kept, ok := v.of.values[string(key)]
		if !ok {
			return errNotFound
		}
		value = slices.Clone(kept)
		return nil
	})
	return value, err
}

// diskSnapshots is a raft.SnapshotStore.
type diskSnapshots struct {
	u  *diskUser
	of *Disk
}

func (s diskSnapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	if version != raft.SnapshotVersionMax {
		return nil, errors.New("snapshot version is not supported")
	}
	var sink *diskSink
	err := s.u.write(func() error {
		sink = &diskSink{u: s.u, of: s.of, snap: s.of.snapshots.create(index, term, configuration, configurationIndex)}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sink, nil
}

func (s diskSnapshots) List() (list []*raft.SnapshotMeta, err error) {
	err = s.u.read(func() error { list = s.of.snapshots.list(); return nil })
	return list, err
}

func (s diskSnapshots) Open(id string) (meta *raft.SnapshotMeta, content io.ReadCloser, err error) {
	err = s.u.read(func() error { meta, content, err = s.of.snapshots.open(id); return err })
	return meta, content, err
}

// diskSink gathers one snapshot. It shows in the store only once it is closed.
type diskSink struct {
	u     *diskUser
	of    *Disk
	snap  *memSnapshot
	ended bool
}

func (k *diskSink) ID() string { return k.snap.meta.ID }

func (k *diskSink) Write(p []byte) (int, error) {
	err := k.u.write(func() error {
		k.snap.content = append(k.snap.content, p...)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (k *diskSink) Close() error {
	if k.ended {
		return nil
	}
	k.ended = true
	return k.u.write(func() error {
		k.of.snapshots.keep(k.snap)
		return nil
	})
}

func (k *diskSink) Cancel() error {
	k.ended = true
	return nil
}
