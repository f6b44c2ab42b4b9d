package store

import (
	"maps"
	"slices"
	"strconv"

	"github.com/hashicorp/raft"
)

// judge is a directory's judge. The caller holds d.mu.
func (d *Disk) judge(u *diskUser, opt Options, durable bool) incarnation {
	switch {
	case !opt.Incarnation:
		return noIncarnation(errNotAsked)
	case !durable:
		return noIncarnation(errNoDir)
	}
	// Like all that opening a Disk writes, the mark meets no planted faults: a disk that hangs does not hang Open.
	leave := func(m mark) error {
		return u.read(func() error { d.run = &m; return nil })
	}
	return newIncarnation(d.run, d.place(), leave)
}

// place counts instead of drawing lots: what is drawn here would change every recorded schedule.
func (d *Disk) place() place {
	return place{Boot: strconv.Itoa(d.boots), Inode: d.lockFile}
}

// Reboot is Crash, and another boot of the machine: no later start learns anything about a former one from before.
func (d *Disk) Reboot() {
	d.Crash()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boots++
}

// RemakeLock removes the lock file and makes it anew. As with a directory, a Store that is open keeps the others out all the same, since the log has a lock of its own.
func (d *Disk) RemakeLock() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lockFile++
	d.run = nil
}

// Copy returns another disk with the same content, down to the server id, as a copied directory has it. The original may be open and stays so;
// faults planted in it are not copied.
func (d *Disk) Copy() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &Disk{
		serverID: d.serverID,
		logs:     copyLogs(d.logs),
		values:   maps.Clone(d.values),
		cluster:  d.cluster,
		used:     d.used,
		identity: d.identity.clone(),
		retired:  d.retired,
		mark:     d.mark,
		last:     d.last,
		run:      d.run,
		boots:    d.boots,
		lockFile: d.lockFile + 1, // beyond each that a mark on this disk can name
	}
	c.snapshots.made, c.snapshots.kept = d.snapshots.content()
	return c
}

func copyLogs(from *raft.InmemStore) *raft.InmemStore {
	to := raft.NewInmemStore()
	first, _ := from.FirstIndex() // an InmemStore reports no errors but absent entries
	last, _ := from.LastIndex()
	for index := first; index <= last && last != 0; index++ {
		entry := new(raft.Log)
		if from.GetLog(index, entry) == nil {
			_ = to.StoreLog(entry)
		}
	}
	return to
}

// content returns the snapshots finished so far and the number of those begun.
func (m *memSnapshots) content() (made int, kept []memSnapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made, slices.Clone(m.kept)
}
