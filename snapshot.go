package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/backup"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/snapshots"
)

const opSnapshot = "snapshot"

// Snapshot writes the cluster's state to w, for Restore: sessions, holds and queues as they are, for people to look at,
// and what a restore takes of them, the counter of the tokens, limits and the audit. It is no older than the call. With
// Local it is what this node has, or for a client what some member has, without asking anybody else: so the survivor of
// a lost majority gives it, at once, and it is marked stale.
//
// Any member and any client gives it; a member's state is not held up while it is written. What was written of it when
// an error is returned is no snapshot, and is recognised as truncated. Config.SnapshotKeys encrypt it. ctx bounds the
// call, but a Write of w that is under way is waited for. A client whose w takes longer than 30 s for a MiB gets an error, since the member does not wait for it, and one that
// asks a member beside several others may be told ErrOverloaded.
func (n *Node) Snapshot(ctx context.Context, w io.Writer, opts ...ReadOption) (SnapshotInfo, error) {
	if w == nil {
		return SnapshotInfo{}, &FieldError{Field: "writer", Problem: "must not be nil"}
	}
	source, err := n.snapshotSource(ctx, readingOf(opts).local)
	if err != nil {
		return SnapshotInfo{}, err
	}
	return n.writeSnapshot(ctx, w, source)
}

// SaveSnapshot is Snapshot into a store, nil for Config.Snapshots, under the name that SnapshotInfo.Name tells. A
// snapshot of the same state that is there already does as well, once it has been read back and found whole.
func (n *Node) SaveSnapshot(ctx context.Context, to SnapshotStore, opts ...ReadOption) (SnapshotInfo, error) {
	if to == nil {
		to = n.cfg.Snapshots
	}
	if to == nil {
		return SnapshotInfo{}, &FieldError{Field: "store", Problem: "is needed: Config.Snapshots names none"}
	}
	source, err := n.snapshotSource(ctx, readingOf(opts).local)
	if err != nil {
		return SnapshotInfo{}, err
	}
	info, err := n.saveSnapshot(ctx, to, source, nil)
	if err != nil {
		return SnapshotInfo{}, fmt.Errorf("save snapshot: %w", err)
	}
	return info, nil
}

// snapshotSource is a state at one index, of this node or of another one.
type snapshotSource struct {
	header backup.Header
	// write writes the state as package wire encodes it, once.
	write func(ctx context.Context, w io.Writer) error
}

func (n *Node) snapshotSource(ctx context.Context, local bool) (snapshotSource, error) {
	if err := n.usable(ctx, opSnapshot); err != nil {
		return snapshotSource{}, err
	}
	if n.isClient() {
		return n.memberState(ctx, local)
	}
	return n.ownState(ctx, local)
}

// ownState is what this member has: everything that was acknowledged before the call, or with local whatever it has.
func (n *Node) ownState(ctx context.Context, local bool) (snapshotSource, error) {
	if err := n.believable(); err != nil {
		return snapshotSource{}, err
	}
	if !local {
		res, err := n.ask(ctx, opSnapshot, "", &locktable.Command{Op: locktable.OpBarrier})
		if err != nil {
			return snapshotSource{}, err
		}
		if err := n.awaitApplied(ctx, opSnapshot, res.Index); err != nil {
			return snapshotSource{}, err
		}
	}
	return n.presentState(local)
}

func (n *Node) presentState(stale bool) (snapshotSource, error) {
	age := n.contactAge() // before the state, so that it is never too young for it
	state, term := n.fsm.viewOf()
	h := headerOf(state)
	if h.ClusterID == "" {
		return snapshotSource{}, &WaitError{Op: opSnapshot, Err: errNoState}
	}
	h.Cluster, h.Term, h.Wall = n.cfg.Cluster, term, n.clock.Now().Wall
	if stale {
		h.Stale, h.Age = true, age
	}
	return snapshotSource{h, func(ctx context.Context, w io.Writer) error {
		goOn := func() bool { return ctx.Err() == nil && n.life.Err() == nil }
		return wire.WriteSnapshotWhile(w, state, goOn)
	}}, nil
}

var errNoState = errors.New("this member has no state of a cluster yet")

func (n *Node) writeSnapshot(ctx context.Context, w io.Writer, source snapshotSource) (SnapshotInfo, error) {
	f, err := backup.Write(w, source.header, n.cfg.sealingKey(), func(w io.Writer) error { return source.write(ctx, w) })
	switch {
	case err == nil:
		return snapshotInfo(f), nil
	case ctx.Err() != nil:
		return SnapshotInfo{}, &WaitError{Op: opSnapshot, Waiting: "the snapshot is being written", Err: ended(ctx)}
	case n.life.Err() != nil:
		return SnapshotInfo{}, &WaitError{Op: opSnapshot, Err: ErrClosed}
	}
	return SnapshotInfo{}, err
}

func (n *Node) nameOfSnapshot(h *backup.Header) snapshots.Name {
	return snapshots.Name{Label: snapshots.Label(n.cfg.Cluster), ClusterID: h.ClusterID, Counter: h.Counter, Index: h.Index}
}

// saveSnapshot creates the object, asks before, if there is a question, whether it is still wanted, and reads it back: a backup that nobody has read is none. One
// that is in the way and damaged makes room: it is of the same state of the same cluster, and good for nothing.
func (n *Node) saveSnapshot(ctx context.Context, to SnapshotStore, source snapshotSource, wanted func() error) (SnapshotInfo, error) {
	name := n.nameOfSnapshot(&source.header).String()
	found, err := n.createSnapshot(ctx, to, name, source, wanted)
	if !errors.Is(err, snapshots.ErrExists) {
		return found, err
	}
	found, err = checkObject(ctx, to, name)
	if !damaged(err) {
		return found, err
	}
	if err := to.Remove(ctx, name); err != nil {
		return SnapshotInfo{}, err
	}
	return n.createSnapshot(ctx, to, name, source, wanted)
}

func (n *Node) createSnapshot(ctx context.Context, to SnapshotStore, name string, source snapshotSource, wanted func() error) (SnapshotInfo, error) {
	var wrote SnapshotInfo
	err := to.Create(ctx, name, func(w io.Writer) (err error) {
		wrote, err = n.writeSnapshot(ctx, w, source)
		if err == nil && wanted != nil {
			err = wanted()
		}
		return err
	})
	if err != nil {
		return SnapshotInfo{}, err
	}
	found, err := checkObject(ctx, to, name)
	if err == nil && (found.SHA256 != wrote.SHA256 || found.Size != wrote.Size) {
		err = fmt.Errorf("%w: %s does not hold what was written", ErrSnapshotAltered, name)
	}
	if damaged(err) {
		err = errors.Join(err, to.Remove(ctx, name)) // it is ours, and nobody must take it for a backup
	}
	if err != nil {
		return SnapshotInfo{}, fmt.Errorf("read back: %w", err)
	}
	return found, nil
}

// damaged tells that a snapshot is not what was written, from one that could not be read now.
func damaged(err error) bool {
	return errors.Is(err, ErrSnapshotTruncated) || errors.Is(err, ErrSnapshotAltered) || errors.Is(err, ErrSnapshotForeign)
}

// checkObject reads an object of a store, without a key and without decoding the state, which may be a newer version's: that it is whole and as it was written.
func checkObject(ctx context.Context, from SnapshotStore, name string) (SnapshotInfo, error) {
	r, err := from.Open(ctx, name)
	if err != nil {
		return SnapshotInfo{}, err
	}
	defer r.Close()
	f, err := backup.Read(ctx, r, nil, func(backup.Header, io.Reader) error { return nil })
	if err != nil && !errors.Is(err, ErrSnapshotKey) && !errors.Is(err, ErrSnapshotNewer) {
		return SnapshotInfo{}, err
	}
	info := snapshotInfo(f)
	info.Name = name
	return info, nil
}

// StoredSnapshot is an object of a SnapshotStore.
type StoredSnapshot struct {
	Name       string // of the object
	ClusterID  string
	TokensUpTo Token
	Index      uint64
	Size       int64
	Modified   time.Time // when it was made, by the store's clock
}

func storedSnapshot(s snapshots.Named) StoredSnapshot {
	return StoredSnapshot{
		Name: s.Object.Name, ClusterID: s.Name.ClusterID, TokensUpTo: Token(s.Name.Counter), Index: s.Name.Index, Size: s.Size, Modified: s.Modified,
	}
}

// ListSnapshots lists the snapshots of the clusters of a name in a store, the newest first. It opens none: what is told
// stands in their names. ctx bounds the call.
func ListSnapshots(ctx context.Context, store SnapshotStore, cluster string) ([]StoredSnapshot, error) {
	if store == nil {
		return nil, &FieldError{Field: "store", Problem: "must not be nil"}
	}
	named, err := snapshots.Of(ctx, store, cluster)
	if err != nil {
		return nil, err
	}
	list := make([]StoredSnapshot, 0, len(named))
	for _, s := range slices.Backward(named) {
		list = append(list, storedSnapshot(s))
	}
	return list, nil
}
