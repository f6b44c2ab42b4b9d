package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
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
	// Saved and Failed count, since this node started, the snapshots that it has written and read back, and its attempts
	// to write one or to look that came to nothing.
	Saved, Failed uint64
	// Overdue: Covered, and the start of this node, are more than three times SnapshotEvery ago. The log says so too.
	Overdue bool
}

// SnapshotStatus tells whether there is something to restore the cluster from. It is the zero value without
// Config.Snapshots, and on clients. Readiness and locks do not depend on it.
func (n *Node) SnapshotStatus() SnapshotStatus {
	if n.cfg.Snapshots == nil || n.isClient() {
		return SnapshotStatus{}
	}
	s := n.backups.get(n.clock.Now(), n.cfg.SnapshotEvery)
	s.Writes = n.lead.Load() != nil
	return s
}

const overdueAfter = 3 // intervals

// backups is what this node knows of the snapshots in the store. It counts time by the clocks that do not step; wall clocks, of which the store has one of its own, are for people.
type backups struct {
	mu     sync.Mutex
	status SnapshotStatus
	since  *clock.Reading // from when on snapshots are expected
	busy   bool           // an attempt is under way, or hangs
	tried  clock.Reading  // when the latest attempt ended
	pause  time.Duration  // from then on until the next one
	term   uint64         // of the latest attempt; 0: not as the leader
	good   string         // name of an object that this node has read back
	warned *clock.Reading

	newest   string        // name of the object that was the newest at the latest look
	sighted  clock.Reading // when it was first seen
	fresh    *clock.Reading
	freshAge time.Duration // how old the coverage was then
}

func (b *backups) get(now clock.Reading, every time.Duration) SnapshotStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	if b.since == nil {
		return s
	}
	without := clock.Longest(*b.since, now)
	if b.fresh != nil {
		without = min(without, b.freshAge+clock.Longest(*b.fresh, now))
	}
	s.Overdue = without > overdueAfter*every
	return s
}

func (b *backups) start(now clock.Reading) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = &now
}

// begin tells whether to try now. A leadership that has just begun looks at once, since the former leader may have come to nothing.
func (b *backups) begin(now clock.Reading, term uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy || clock.Longest(b.tried, now) < b.pause && term == b.term {
		return false
	}
	b.busy, b.term = true, term
	return true
}

func (b *backups) ended(now clock.Reading, pause time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy, b.tried, b.pause = false, now, pause
	b.status.Err, b.status.ErrAt = err, time.Time{}
	if err != nil {
		b.status.ErrAt = now.Wall
		b.status.Failed++
	}
}

// cut ends an attempt that came to nothing since the leadership has ended.
func (b *backups) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy, b.pause = false, 0
}

// age is how old an object is at least: by the store's clock, unless that lies ahead of this node's, or the object in the future, and by how long this node has seen it.
func (b *backups) age(o snapshots.Object, now clock.Reading) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o.Name != b.newest {
		b.newest, b.sighted = o.Name, now
	}
	return max(now.Wall.Sub(o.Modified), clock.Longest(b.sighted, now), 0)
}

// covered notes that a restore from last would take all that was there some age ago.
func (b *backups) covered(last StoredSnapshot, now clock.Reading, age time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fresh != nil && b.freshAge+clock.Longest(*b.fresh, now) < age {
		b.status.Last = last
		return
	}
	b.status.Last, b.status.Covered = last, now.Wall.Add(-age)
	b.fresh, b.freshAge = &now, age
}

// warn tells whether it is time to complain once more.
func (b *backups) warn(now clock.Reading, pause time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.warned != nil && clock.Longest(*b.warned, now) < pause {
		return false
	}
	b.warned = &now
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

// made notes an object that this node has just made and read back.
func (b *backups) made(name string, now clock.Reading) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.good, b.newest, b.sighted = name, name, now
	b.status.Saved++
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
	n.backups.start(n.clock.Now())
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
		if !n.backups.begin(n.clock.Now(), term) {
			continue
		}
		n.spawn(func() { n.backUp(lead) })
	}
}

func (n *Node) complain() {
	every := n.cfg.SnapshotEvery
	now := n.clock.Now()
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
	pause, err := n.attempt(ctx, lead)
	if life.Err() != nil {
		n.backups.cut()
		return
	}
	if err != nil {
		n.log.Warn("snapshot not saved", "error", err)
		pause = min(max(every/10, retryLeast), retryMost)
	}
	n.backups.ended(n.clock.Now(), pause, err)
}

// attempt returns how long to wait for the next one.
func (n *Node) attempt(ctx context.Context, lead *leadership) (time.Duration, error) {
	every := n.cfg.SnapshotEvery
	newest, err := n.newestBackup(ctx)
	if err != nil {
		return 0, err
	}
	now := n.clock.Now()
	age := n.backups.age(newest.Object, now)
	switch covered := n.covers(newest); {
	case covered && lead != nil:
		// Nothing has changed; what is there must be good, though, and it may be a former leader's.
		err := n.readBack(ctx, newest.Object.Name)
		if err == nil {
			n.backups.covered(storedSnapshot(newest), now, 0)
			return every, nil
		}
		if !damaged(err) {
			return 0, err
		}
		n.log.Error("a snapshot in the store is not good", "name", newest.Object.Name, "error", err)
	case covered:
		n.backups.covered(storedSnapshot(newest), now, 0)
		return every, nil
	case newest.Object.Name != "":
		n.backups.covered(storedSnapshot(newest), now, age)
		if lead != nil && age < every {
			return every - age, nil
		}
	}
	if lead == nil {
		return every, nil
	}
	err = n.upload(ctx, newest)
	if errors.Is(err, errSuperseded) {
		n.log.Info("snapshot given up", "reason", err)
		return 0, nil // to see that one
	}
	return every, err
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
	now := n.clock.Now()
	n.backups.made(info.Name, now)
	n.backups.covered(StoredSnapshot{
		Name: info.Name, ClusterID: info.ClusterID, TokensUpTo: info.TokensUpTo, Index: info.Index, Size: info.Size, Modified: now.Wall,
	}, now, 0)
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
