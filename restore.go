package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// RestoreOptions is what Restore has to be told beside the Config.
type RestoreOptions struct {
	// From is the snapshot, read to its end. Needed.
	From io.Reader
	// Cluster is the name of the cluster that the snapshot is of, where it is another than Config.Cluster: so that a
	// service does not come up with somebody else's state by mistake. Default: Config.Cluster.
	Cluster string
	// TokenFloor is a token that every new one has to exceed: the highest that a fenced resource has accepted, or more.
	// Needed only if the clock of this machine is behind the snapshot's own time. Default 0: the clock, and the snapshot,
	// decide.
	TokenFloor Token
	// DryRun checks everything and reports, and writes nothing.
	DryRun bool
}

// Restoration is what Restore did, or in a dry run would do.
type Restoration struct {
	DryRun bool
	// Snapshot is what was read. Its sessions, holds and waiting claims are dropped.
	Snapshot SnapshotInfo

	ClusterID string // of the new cluster; "" in a dry run
	ServerID  string // of its one member; "" in a dry run
	// TokensAbove is what every new token exceeds.
	TokensAbove Token
	// Quarantine is for how long nobody is granted a lock, from the start of the restored node on: see Recovery.
	Quarantine time.Duration
}

// String is a report for people, of several lines.
func (r *Restoration) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if r.DryRun {
		line("dry run: nothing was written; the snapshot can be restored")
	} else {
		line("cluster %s is restored as %s; server %s is its only member", r.Snapshot.ClusterID, r.ClusterID, r.ServerID)
	}
	line("%v", r.Snapshot)
	line("dropped: %d sessions, %d holds, %d waiting claims", r.Snapshot.Sessions, r.Snapshot.Holds, r.Snapshot.Waiting)
	line("every new token is above %d", r.TokensAbove)
	fmt.Fprintf(&b, "locks are granted %v after the node has started, and not before", r.Quarantine)
	return b.String()
}

// Restore makes a new cluster out of a snapshot, when the old one is lost with all its disks, or in a drill beside it. It
// is called offline, for the directory of one node that does not run, which must be empty: cfg is the Config with which
// that node will be opened. The others are then started with empty directories, and join it.
//
// No session, no hold and no queue of the snapshot survives, so nobody is taken for a holder who may not be one; the
// limits of semaphores that Resize set stay, and so do the records of forced releases. The cluster has a new id, and its
// nodes refuse those of the old one, which refuse them (ErrClusterChanged). A Config.ClusterID that pins the old cluster has to
// name the new one, everywhere. Tokens rise on: they exceed every one in the snapshot and the wall clock in microseconds, which no
// cluster's tokens overtake, and so also those that were granted after the snapshot was taken. After the node's start
// nobody is granted a lock for Restoration.Quarantine, until the holders of the old cluster, who may still run, have
// stopped believing, and longer if they had set a longer Delay at the time: Lock waits meanwhile, and TryLock fails with
// ErrQuarantine.
//
// Two clusters serve the same names if the old one is not lost after all: the caller must know that it is, or have
// stopped it.
//
// Everything is verified before anything is written: besides the errors of VerifySnapshot, a snapshot of another cluster
// name is ErrSnapshotForeign; and a *FieldError tells of a directory that is not empty (Config.Dir), and of a machine
// whose clock is behind the snapshot's own time (RestoreOptions.TokenFloor). A crash at any point leaves a directory
// that counts as empty, in which Restore can be repeated, or the new cluster. ctx bounds the reading.
func Restore(ctx context.Context, cfg Config, opt RestoreOptions) (*Restoration, error) {
	cfg = cfg.withDefaults()
	if err := errors.Join(cfg.validate(), cfg.validateRestore(opt)); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	if err := cfg.checkVacant(ctx); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	r, next, err := planRestore(ctx, &cfg, opt)
	if err == nil && !opt.DryRun {
		err = r.into(ctx, &cfg, next)
	}
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return r, nil
}

func (c *Config) validateRestore(opt RestoreOptions) error {
	errs := c.offlineProblems("the restored cluster would have no other member")
	if opt.From == nil {
		errs = append(errs, &FieldError{Field: "RestoreOptions.From", Problem: "is needed"})
	}
	errs = append(errs, checkFloor("RestoreOptions.TokenFloor", opt.TokenFloor))
	return errors.Join(errs...)
}

// planRestore makes the first state of the new cluster, in memory.
func planRestore(ctx context.Context, cfg *Config, opt RestoreOptions) (*Restoration, *locktable.Table, error) {
	info, state, err := readSnapshot(ctx, opt.From, cfg.SnapshotKeys, cfg.sim.Binary)
	if err != nil {
		return nil, nil, err
	}
	want := opt.Cluster
	if want == "" {
		want = cfg.Cluster
	}
	if info.Cluster != want {
		return nil, nil, fmt.Errorf("%w: it is of cluster %q, not of %q; RestoreOptions.Cluster has to name it", ErrSnapshotForeign, info.Cluster, want)
	}
	clk := cfg.sim.Clock
	if clk == nil {
		clk = clock.System()
	}
	counter, err := raisedCounter("RestoreOptions.TokenFloor", locktable.Rev(info.TokensUpTo), info.Taken, clk.Now().Wall, opt.TokenFloor)
	if err != nil {
		return nil, nil, err
	}
	next, err := state.Refounded(locktable.Refounding{ClusterID: newID(), Counter: counter, Index: info.Index})
	if err != nil {
		return nil, nil, err
	}
	if err := wire.WriteSnapshot(io.Discard, next.Snapshot()); err != nil {
		return nil, nil, err
	}
	h := next.Header()
	r := &Restoration{Snapshot: info, TokensAbove: Token(h.Counter), Quarantine: h.Quarantine.Wait, DryRun: opt.DryRun}
	return r, next, nil
}

// checkVacant refuses a directory in which something lives, and writes nothing.
func (c *Config) checkVacant(ctx context.Context) error {
	if err := store.CheckVacant(c.Dir); err != nil {
		return directoryError(err)
	}
	s, err := c.openVacant(ctx, true)
	if errors.Is(err, store.ErrNoMember) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Close()
}

// openVacant opens a store in which no member has lived, be it that a restore was interrupted in it. existing makes none.
func (c *Config) openVacant(ctx context.Context, existing bool) (*store.Store, error) {
	s, err := store.Open(ctx, store.Options{
		Dir: c.Dir, Segments: c.LogStore.segments(), Disk: c.sim.Disk, Cluster: c.Cluster, Logger: c.Logger.Named("store"), Existing: existing, Admit: admitNobody,
		VerifySnapshot: func(r io.Reader) error {
			return c.sim.Binary.VerifySnapshot(r, func() bool { return ctx.Err() == nil })
		},
	})
	if errors.Is(err, ErrInvalid) {
		return nil, err // of Admit
	}
	if err != nil {
		return nil, directoryError(err)
	}
	has, err := s.HasState()
	if err == nil && has {
		err = errOccupied
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// errOccupied is for a directory in which there has been more than a restore that came to nothing.
var errOccupied = &FieldError{Field: "Config.Dir", Problem: "a member of a cluster lives there: Restore wants an empty directory"}

func admitNobody(id store.Identity) error {
	if id.ClusterID != "" || id.Joining != "" || len(id.Promise) > 0 {
		return errOccupied
	}
	return nil
}

// into makes a member of an empty directory, and then its successor: the one step of store.Succeed is that in which the
// directory becomes the new cluster's.
func (r *Restoration) into(ctx context.Context, cfg *Config, next *locktable.Table) error {
	s, err := cfg.openVacant(ctx, false)
	if err != nil {
		return err
	}
	return errors.Join(r.write(s, cfg, next), s.Close())
}

func (r *Restoration) write(s *store.Store, cfg *Config, next *locktable.Table) error {
	id := next.Header().ClusterID
	server, err := s.Succeed(store.Succession{
		Identity: store.Identity{ClusterID: id}, Index: r.Snapshot.Index, Term: max(r.Snapshot.Term, 1),
		State: func(w io.Writer) error { return wire.WriteSnapshot(w, next.Snapshot()) },
	})
	if err != nil {
		return err
	}
	r.ClusterID, r.ServerID = id, server
	cfg.Logger.Warn("a cluster was restored from a snapshot", "restored", r.Snapshot.ClusterID, "cluster", id, "server", server, "index", r.Snapshot.Index,
		"taken", r.Snapshot.Taken, "sessions-dropped", r.Snapshot.Sessions, "holds-dropped", r.Snapshot.Holds, "no-lock-granted-for", r.Quarantine)
	return nil
}
