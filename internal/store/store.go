package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	defaultStallAfter = 3 * time.Second
	cachedEntries     = 1024
	retainedSnapshots = 2
)

// Options say where a Store lives and whom it tells of trouble.
type Options struct {
	// Dir is the data directory; it is made if its parent exists. Empty with a nil Disk: everything stays in memory, under a
	// fresh server id at each Open.
	Dir string
	// Disk stands in for a directory in simulations. At most one of Dir and Disk may be set.
	Disk *Disk
	// Cluster is the cluster's name. It is recorded at first use; a directory of another name is a *ForeignError.
	Cluster string
	// Segments keeps the log of a directory that is made now in segment files, with one sync for a batch, and not in raft.db. It
	// says nothing about one that exists.
	Segments bool
	// Existing refuses, with a *DirError, a store that no member has used before, where otherwise a new member is made. Nothing is written then.
	Existing bool
	// Admit, if set, is asked about the identity found, before anything is written; its error refuses the store.
	Admit func(Identity) error
	// VerifySnapshot, if set, reads every snapshot while it is written, be it of this member or of another one; its error keeps it from being finished: the
	// sink returns a *RefusedError, and the latch stays up. It runs on a goroutine of its own, and must return soon once reading fails or ends.
	VerifySnapshot func(io.Reader) error
	// Logger receives what there is to say; default: nothing is logged.
	Logger hclog.Logger
	// OnFail is called once, when the latch falls, before any caller of the Store sees the error. The raft streams are cut in
	// it. It must not block and must not call the Store, except for Failed.
	OnFail func(error)
	// OnStall is called with true when a write has hung for more than StallAfter, and with false when it has succeeded after
	// all. It must not block. Calls do not overlap.
	OnStall func(stalled bool)
	// StallAfter defaults to 3 s.
	StallAfter time.Duration
	// Incarnation gives this start a nonce, kept in the data directory, and finds out about the starts before; see Store.Formers.
	Incarnation bool

	placeOf func(lock *os.File) (place, error) // nil but in tests: the kernel's word
}

// Identity is what a member knows about itself beyond its server id.
type Identity struct {
	ClusterID string
	// Joining is the cluster that was asked to let this member in. If raft state is found without a ClusterID, it is of this one, or of the promise.
	Joining string
	Promise []byte // opaque; a founding promise of package membership
}

func (id Identity) clone() Identity {
	id.Promise = slices.Clone(id.Promise)
	return id
}

// medium is what the guarded stores stand on: a directory or a Disk. Its parts do no checking of their own.
type medium struct {
	serverID  string
	durable   bool
	logs      raft.LogStore
	stable    valueStore
	snapshots raft.SnapshotStore

	identity      Identity // as found
	started       time.Time
	incarnation   incarnation
	writeIdentity func(Identity) error
	retire        func() error                              // see Store.Retire
	condemn       func(reason string) error                 // see Store.Condemn
	succeed       func(serverID string) (*successor, error) // see Store.Succeed
	// release lets go of writes that hang, where the medium can; it comes before close and must not wait for them.
	release func()
	close   func() error
}

// valueStore is the part of raft.StableStore that a medium needs. Get returns an error with the text "not found" for an absent key.
type valueStore interface {
	Set(key, value []byte) error
	Get(key []byte) ([]byte, error)
}

// Store is one member's storage, open. All methods are safe for concurrent use.
type Store struct {
	medium *medium
	logger hclog.Logger
	latch  *latch
	dog    *watchdog

	logs   *guardedLogs
	stable *guardedStable
	snaps  *guardedSnapshots

	// writing admits one write at a time to the log, the stable values and the identity, so that a write begun before another
	// one failed cannot succeed after it. bbolt has one writer anyway. It holds a token while nobody writes; a channel and not a
	// mutex, since a wait for a mutex stops the clock of a synctest bubble, and so for ever a simulation whose disk hangs.
	writing chan struct{}

	idMu     sync.Mutex
	identity Identity

	closing  atomic.Bool
	closed   chan struct{} // closed when Close begins: nothing is accepted any more
	gone     chan struct{} // closed when Close has ended
	closeErr error         // valid once gone is closed
}

// Open opens the store and checks it: the newest snapshot against its checksum, the log's latest entries against theirs, and that
// log and snapshot join without a gap. ctx bounds the wait for a directory that is in use, which ends after 2 s in any case, and
// the check.
//
// Errors: *InUseError, *DirError, *FormatError, *ForeignError, *CorruptError, *CondemnedError, Admit's, or ctx's.
func Open(ctx context.Context, opt Options) (*Store, error) {
	if opt.Dir != "" && opt.Disk != nil {
		return nil, errors.New("open store: both Dir and Disk are set")
	}
	if opt.Logger == nil {
		opt.Logger = hclog.NewNullLogger()
	}
	if opt.StallAfter <= 0 {
		opt.StallAfter = defaultStallAfter
	}
	m, err := openMedium(ctx, opt)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s, err := newStore(ctx, opt, m)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), m.close())
	}
	return s, nil
}

func (o *Options) admit(id Identity) error {
	if o.Admit == nil {
		return nil
	}
	return o.Admit(id)
}

func openMedium(ctx context.Context, opt Options) (*medium, error) {
	switch {
	case opt.Disk != nil:
		return opt.Disk.open(opt, true)
	case opt.Dir != "":
		return openDir(ctx, opt)
	default:
		return NewDisk().open(opt, false)
	}
}

func newStore(ctx context.Context, opt Options, m *medium) (*Store, error) {
	s := &Store{
		medium:   m,
		logger:   opt.Logger,
		identity: m.identity,
		writing:  make(chan struct{}, 1),
		closed:   make(chan struct{}),
		gone:     make(chan struct{}),
	}
	s.writing <- struct{}{}
	s.latch = newLatch(func(cause error) {
		s.logger.Error("storage has failed, this member takes no further part", "error", cause)
		if opt.OnFail != nil {
			opt.OnFail(cause)
		}
	})
	checked, err := checkMedium(ctx, m)
	if err != nil {
		return nil, err
	}
	s.stable = &guardedStable{s: s, values: m.stable}
	s.snaps = &guardedSnapshots{s: s, base: m.snapshots, verify: opt.VerifySnapshot}
	s.logs = &guardedLogs{s: s, sealed: checked}
	// The report refers to s: until Close the watchdog's goroutine keeps a forgotten store, and so the lock of its directory, from the garbage collector.
	s.dog = startWatchdog(opt.StallAfter, func(stalled bool) {
		if stalled {
			s.logger.Warn("a disk write hangs", "longer-than", opt.StallAfter)
		} else {
			s.logger.Warn("the disk write that hung has succeeded")
		}
		if opt.OnStall != nil {
			opt.OnStall(stalled)
		}
	})
	if err := s.dropUnfinishedBootstrap(); err != nil {
		s.dog.close()
		return nil, err
	}
	if dropped := m.incarnation.dropped; dropped != "" {
		s.logger.Warn("too many starts in a row ended nothing of the ones before: the sessions of one of them are left to their TTL", "start", dropped)
	}
	// Last of all, since a start that fails has no sessions and had better leave the former one's mark.
	if begin := m.incarnation.begin; begin != nil {
		if err := begin(); err != nil {
			s.dog.close()
			return nil, fmt.Errorf("mark this incarnation: %w", err)
		}
	}
	return s, nil
}

// Logs returns raft's log store: checksummed, latched and watched, with the latest entries cached. Its indexes have no gap.
func (s *Store) Logs() raft.LogStore { return s.logs }

// Stable returns raft's store of term and vote, checksummed, latched and watched.
func (s *Store) Stable() raft.StableStore { return s.stable }

// Snapshots returns raft's snapshot store, latched and watched. The latest two finished snapshots are kept.
func (s *Store) Snapshots() raft.SnapshotStore { return s.snaps }

// ServerID returns the member's id: 128 random bits in hexadecimal, made with the directory, or at each Open without one.
func (s *Store) ServerID() string { return s.medium.serverID }

// Started is when this Store was opened, and later than when any other was that had the same directory open before: if need be, it is ahead of the clock. That holds for
// a copy of the directory too, made while the other Store was open.
func (s *Store) Started() time.Time { return s.medium.started }

// Durable says whether what is written survives the process.
func (s *Store) Durable() bool { return s.medium.durable }

// Identity returns the identity last set; the zero Identity on a new store.
func (s *Store) Identity() Identity {
	s.idMu.Lock()
	defer s.idMu.Unlock()
	return s.identity.clone()
}

// SetIdentity replaces the identity, atomically and durably.
func (s *Store) SetIdentity(id Identity) error {
	id = id.clone()
	err := s.write("write identity", func() error { return s.medium.writeIdentity(id) })
	if err != nil {
		return err
	}
	s.idMu.Lock()
	defer s.idMu.Unlock()
	s.identity = id
	return nil
}

// Retire gives the member's identity up for good: the next Open finds an empty store with a new server id. Until then this one goes on.
// It is for a member that has been removed from its cluster, since server ids are never used again.
func (s *Store) Retire() error { return s.write("retire", s.medium.retire) }

// Condemn marks the store: no later Open accepts it, and its error gives the reason. It is for a member that is not to come back
// although all that it has stored is sound. Until it is closed this store goes on.
//
// The latch has no part in it: a mark that cannot be written says nothing about what is stored, and its error must not be told before the
// reason for the mark; and a store that has failed may still take one.
func (s *Store) Condemn(reason string) error {
	select {
	case <-s.writing:
	case <-s.closed:
		return ErrClosed
	}
	defer func() { s.writing <- struct{}{} }()
	if err := s.medium.condemn(reason); err != nil {
		return fmt.Errorf("condemn: %w", err)
	}
	return nil
}

// HasState says whether the member has raft state of a cluster: a term, an entry or a snapshot.
func (s *Store) HasState() (has bool, err error) {
	err = s.Guard(func() error {
		has, err = raft.HasExistingState(s.logs, s.stable, s.snaps)
		return err
	})
	return has, err
}

// Failed returns why the latch fell, nil while it is up. It never waits.
func (s *Store) Failed() error { return s.latch.why() }

// Close ends the store and returns when its goroutine and its files are gone. It waits for a write in flight; on a Disk a write
// that hangs is let go. Twice is fine. Call it after raft.Shutdown().Error().
func (s *Store) Close() error {
	if s.closing.CompareAndSwap(false, true) {
		close(s.closed)
		s.medium.release()
		<-s.writing // for good: nobody writes to a closed medium
		s.dog.close()
		s.closeErr = s.medium.close()
		close(s.gone)
	}
	<-s.gone
	return s.closeErr
}

// usable returns nil while the store is neither failed nor closed.
func (s *Store) usable() error {
	if err := s.latch.check(); err != nil {
		return err
	}
	select {
	case <-s.closed:
		return ErrClosed
	default:
		return nil
	}
}

// write runs one write under the rules of the package: alone, watched, and latched if it fails.
func (s *Store) write(what string, fn func() error) error {
	select {
	case <-s.writing:
	case <-s.closed:
		return ErrClosed
	}
	defer func() { s.writing <- struct{}{} }()
	return s.watch(what, 1, fn)
}

// watch runs fn under the watchdog and the latch. The latch is asked again afterwards: a write that succeeded while another one
// failed is not acknowledged.
func (s *Store) watch(what string, patience int, fn func() error) error {
	if err := s.usable(); err != nil {
		return err
	}
	w := s.dog.begin(patience)
	err := fn()
	if err != nil {
		err = s.fail(fmt.Errorf("%s: %w", what, err))
	}
	s.dog.end(w, err == nil)
	if err != nil {
		return err
	}
	return s.latch.check()
}

// fail fells the latch, unless the store is merely gone, and returns the error to hand on.
func (s *Store) fail(err error) error {
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrCrashed) {
		return err
	}
	return s.latch.fall(err)
}

func newServerID() string { return newID() }

// newID returns 128 random bits in hexadecimal.
func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // documented never to fail
	return hex.EncodeToString(id[:])
}
