package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/snapshots"
)

// SnapshotStatus tells how it goes with Config.Snapshots, as far as this node knows: of the leader, who writes, it is
// exact; another member looks into the store once in SnapshotEvery.
type SnapshotStatus struct {
	Writes bool // this node leads, and so it is the one that writes
	// Last is the newest snapshot of this cluster in the store; zero if there is none, or none was seen yet.
	Last StoredSnapshot
	// Covered is the last time at which the store was known to have all that a restore takes: when Last was made, or later
	// if nothing has changed since. Zero: never.
	Covered time.Time
	// Err is why the latest attempt, to write one or to look, has failed, at ErrAt. Nil after one that has not.
	Err   error
	ErrAt time.Time
	// Overdue: Covered, and the start of this node, are more than three times SnapshotEvery ago. The log says so too.
	Overdue bool
}

// SnapshotStatus tells whether there is something to restore the cluster from. It is the zero value without
// Config.Snapshots, and on clients. Readiness and locks do not depend on it.
func (n *Node) SnapshotStatus() SnapshotStatus {
	if n.cfg.Snapshots == nil || n.isClient() {
		return SnapshotStatus{}
	}
	s := n.backups.get(n.clock.Now().Wall, n.cfg.SnapshotEvery)
	s.Writes = n.lead.Load() != nil
	return s
}

const overdueAfter = 3 // intervals

// backups is what this node knows of the snapshots in the store.
type backups struct {
	mu     sync.Mutex
	status SnapshotStatus
	since  time.Time // from when on snapshots are expected
	busy   bool      // an attempt is under way, or hangs
	due    time.Time // of the next attempt
	term   uint64    // in which due was reckoned; 0: not as the leader
	good   string    // name of an object that this node has read back
	warned time.Time
}

func (b *backups) get(now time.Time, every time.Duration) SnapshotStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	from := newest(s.Covered, b.since)
	s.Overdue = !b.since.IsZero() && now.Sub(from) > overdueAfter*every
	return s
}

func (b *backups) start(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = now
}

// begin tells whether to try now. A leadership that has just begun looks at once, since the former leader may have come to nothing.
func (b *backups) begin(now time.Time, term uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy || now.Before(b.due) && term == b.term {
		return false
	}
	b.busy, b.term = true, term
	return true
}

func (b *backups) ended(now, next time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy, b.due = false, next
	b.status.Err, b.status.ErrAt = err, time.Time{}
	if err != nil {
		b.status.ErrAt = now
	}
}

// cut ends an attempt that came to nothing since the leadership has ended.
func (b *backups) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy, b.due = false, time.Time{}
}

func (b *backups) covered(last StoredSnapshot, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Last = last
	if at.After(b.status.Covered) {
		b.status.Covered = at
	}
}

// warn tells whether it is time to complain once more.
func (b *backups) warn(now time.Time, pause time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.warned).Abs() < pause {
		return false
	}
	b.warned = now
	return true
}

func (b *backups) isGood(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.good == name
}

func (b *backups) setGood(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.good = name
}

const (
	backupPaceLeast = 100 * time.Millisecond
	backupPaceMost  = 5 * time.Second
	attemptLeast    = 30 * time.Second // bound of one attempt, which is otherwise SnapshotEvery
	attemptMost     = time.Hour
	retryLeast      = time.Second
	retryMost       = time.Minute
)

// runBackups has the leader write a snapshot once in an interval, and the others look whether it does. Attempts run beside this loop, one at a time: a store that
// hangs keeps neither it nor the leadership from going on.
func (n *Node) runBackups() {
	every := n.cfg.SnapshotEvery
	n.backups.start(n.clock.Now().Wall)
	ticker := time.NewTicker(min(max(every/8, backupPaceLeast), backupPaceMost))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-n.life.Done():
			return
		}
		if n.isClient() || n.failed() != nil || !n.isMember() {
			continue
		}
		n.complain()
		lead, term := n.lead.Load(), uint64(0)
		if lead != nil {
			term = lead.term
		}
		if !n.backups.begin(n.clock.Now().Wall, term) {
			continue
		}
		n.spawn(func() { n.backUp(lead) })
	}
}

func (n *Node) complain() {
	every := n.cfg.SnapshotEvery
	now := n.clock.Now().Wall
	if s := n.backups.get(now, every); s.Overdue && n.backups.warn(now, overdueAfter*every) {
		n.log.Error("no snapshot has been saved for too long", "covered", s.Covered, "every", every, "last", s.Last.Name, "error", s.Err)
	}
}

// backUp is one attempt: of the leader to have a snapshot in the store that is young enough, of another member (lead is nil) to see one.
func (n *Node) backUp(lead *leadership) {
	every, life := n.cfg.SnapshotEvery, n.life
	if lead != nil {
		life = lead.life
	}
	ctx, cancel := context.WithTimeout(life, min(max(every, attemptLeast), attemptMost))
	defer cancel()
	next, err := n.attempt(ctx, lead)
	now := n.clock.Now().Wall
	if life.Err() != nil {
		n.backups.cut()
		return
	}
	if err != nil {
		n.log.Warn("snapshot not saved", "error", err)
		next = now.Add(min(max(every/10, retryLeast), retryMost))
	}
	n.backups.ended(now, next, err)
}

// attempt returns when the next one is due.
func (n *Node) attempt(ctx context.Context, lead *leadership) (time.Time, error) {
	every := n.cfg.SnapshotEvery
	newest, err := n.newestBackup(ctx)
	if err != nil {
		return time.Time{}, err
	}
	now := n.clock.Now().Wall
	switch covered := n.covers(newest); {
	case covered && lead != nil:
		// Nothing has changed; what is there must be good, though, and it may be a former leader's.
		err := n.readBack(ctx, newest.Object.Name)
		if err == nil {
			n.backups.covered(storedSnapshot(newest), now)
			return now.Add(every), nil
		}
		if !damaged(err) {
			return time.Time{}, err
		}
		n.log.Error("a snapshot in the store is not good", "name", newest.Object.Name, "error", err)
	case covered:
		n.backups.covered(storedSnapshot(newest), now)
		return now.Add(every), nil
	case newest.Object.Name != "":
		n.backups.covered(storedSnapshot(newest), newest.Modified)
		if age := max(now.Sub(newest.Modified), 0); lead != nil && age < every {
			return now.Add(every - age), nil
		}
	}
	if lead == nil {
		return now.Add(every), nil
	}
	err = n.upload(ctx, newest)
	if errors.Is(err, errSuperseded) {
		n.log.Info("snapshot given up", "reason", err)
		return now, nil // to see that one
	}
	return now.Add(every), err
}

// newestBackup is the newest snapshot of this very cluster; zero if there is none.
func (n *Node) newestBackup(ctx context.Context) (snapshots.Named, error) {
	all, err := n.ownBackups(ctx)
	if err != nil || len(all) == 0 {
		return snapshots.Named{}, err
	}
	return all[len(all)-1], nil
}

// ownBackups leaves out those of other ids, also of this name: they are not ours to judge, nor to remove.
func (n *Node) ownBackups(ctx context.Context) ([]snapshots.Named, error) {
	all, err := snapshots.Of(ctx, n.cfg.Snapshots, n.cfg.Cluster)
	if err != nil {
		return nil, err
	}
	own := all[:0]
	for _, s := range all {
		if s.Name.ClusterID == n.clusterIDNow() {
			own = append(own, s)
		}
	}
	return own, nil
}

// covers tells whether a restore from it would take all that this node's state has: whatever is taken moves the counter.
func (n *Node) covers(s snapshots.Named) bool {
	return s.Object.Name != "" && s.Name.Counter >= int64(n.fsm.header().Counter)
}

// readBack verifies an object once.
func (n *Node) readBack(ctx context.Context, name string) error {
	if n.backups.isGood(name) {
		return nil
	}
	if _, err := checkObject(ctx, n.cfg.Snapshots, name); err != nil {
		return err
	}
	n.backups.setGood(name)
	return nil
}

// errSuperseded: somebody else has written one meanwhile.
var errSuperseded = errors.New("another snapshot was written meanwhile")

// upload writes the present state. The name, which no other state has, keeps it from replacing anything; and before the object is made this node makes sure that it
// still leads and that no other leader has written one meanwhile, so that one that was paused or cut off in the middle does not add a second one to the interval.
func (n *Node) upload(ctx context.Context, before snapshots.Named) error {
	begun := time.Now()
	if err := n.group.barrier(ctx); err != nil {
		return err
	}
	source, err := n.presentState(false)
	if err != nil {
		return err
	}
	info, err := n.saveSnapshot(ctx, n.cfg.Snapshots, source, func() error {
		if err := n.group.barrier(ctx); err != nil {
			return fmt.Errorf("still leading: %w", err)
		}
		switch now, err := n.newestBackup(ctx); {
		case err != nil:
			return err
		case now.Object.Name != before.Object.Name:
			return errSuperseded
		}
		return nil
	})
	if err != nil {
		return err
	}
	n.backups.setGood(info.Name)
	n.backups.covered(StoredSnapshot{
		Name: info.Name, ClusterID: info.ClusterID, TokensUpTo: info.TokensUpTo, Index: info.Index, Size: info.Size, Modified: n.clock.Now().Wall,
	}, n.clock.Now().Wall)
	n.log.Info("snapshot saved", "name", info.Name, "size", info.Size, "took", time.Since(begun))
	n.thin(ctx, info.Name)
	return nil
}

// thin removes what is neither new nor young enough to be kept. It is called when newest has just been read back.
func (n *Node) thin(ctx context.Context, newest string) {
	if n.cfg.SnapshotKeep < 0 {
		return
	}
	all, err := n.ownBackups(ctx)
	if err == nil {
		err = n.remove(ctx, surplus(all, newest, n.cfg.SnapshotKeep, n.cfg.SnapshotKeepFor))
	}
	if err != nil && ctx.Err() == nil {
		n.log.Warn("old snapshots not removed", "error", err)
	}
}

func (n *Node) remove(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := n.cfg.Snapshots.Remove(ctx, name); err != nil {
			return err
		}
		n.log.Info("old snapshot removed", "name", name)
	}
	return nil
}

// surplus decides, of snapshots of one cluster in their order, which ones are not kept. The one that is known to be good stays, and so does all if it is not there. Ages are
// reckoned by the store's own clock.
func surplus(all []snapshots.Named, good string, keep int, keepFor time.Duration) []string {
	var now time.Time
	for _, s := range all {
		if s.Object.Name == good {
			now = s.Modified
		}
	}
	if now.IsZero() {
		return nil
	}
	var names []string
	for i, s := range all {
		old := keepFor == 0 || now.Sub(s.Modified) >= keepFor
		if s.Object.Name != good && len(all)-i > keep && old {
			names = append(names, s.Object.Name)
		}
	}
	return names
}
