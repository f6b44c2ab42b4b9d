package quorumlock

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/expiry"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// fsm joins the replicated log to the lock table: decode, apply, stamp, publish. It takes no decision of its own, and everything a
// result depends on stands in the log; the clock is read only for stamps, which never enter the state.
type fsm struct {
	clock  clock.Source
	binary wire.Binary
	// publish tells of an entry's events; it runs on raft's goroutine in log order, must not block, and keeps nothing of the slice.
	publish func(events []locktable.Event)
	// founded tells that the cluster's id has been replicated.
	founded func()
	// reset tells that the state was replaced by a snapshot.
	reset func(h locktable.Header)
	// fail stops the node: it can not go on applying.
	fail func(error)
	// awaited tells whether somebody may wait for the answer of an entry that is applied now; nil is always.
	awaited func() bool
	// snapshots are raft's: the newest one is that which is being restored.
	snapshots raft.SnapshotStore

	mu      sync.Mutex
	table   *locktable.Table
	term    uint64 // of the last entry applied
	stamps  *expiry.Tracker
	effects locktable.Effects  // reused from entry to entry
	batch   wire.Batch         // reused too: the table keeps no command
	unread  []locktable.Result // reused for entries whose results nobody waits for
	hashes  *stateHashes
	group   electorate
	broken  error  // sticky: nothing is applied after it
	bytes   uint64 // applied since the last snapshot
	written uint64 // bytes of the last snapshot that was written or restored
}

func newFSM(c clock.Source, by wire.Binary) *fsm {
	return &fsm{clock: c, binary: by, table: locktable.New(), stamps: expiry.New(), hashes: newStateHashes()}
}

// answered is what the state machine says to an entry: one result for each of its commands. Whoever waits takes them out, since raft's log cache keeps the entry's future, and the
// answer with it, as long as the entry, on a busy leader several times what the entries take.
type answered struct{ results []locktable.Result }

func (a *answered) take() []locktable.Result {
	results := a.results
	a.results = nil
	return results
}

// Apply implements raft.FSM. It gives *answered or an error.
func (f *fsm) Apply(entry *raft.Log) any {
	f.mu.Lock()
	if f.broken != nil {
		f.mu.Unlock()
		return f.broken
	}
	f.bytes += uint64(len(entry.Data))
	batch := &f.batch
	err := f.binary.DecodeBatchInto(batch, entry.Data)
	var level *wire.LevelError
	if errors.As(err, &level) {
		f.broken = fmt.Errorf("entry %d: %w", entry.Index, err)
		f.mu.Unlock()
		f.fail(f.broken)
		return f.broken
	}
	if err != nil {
		// The same bytes are malformed for every member of every version that knows the level, so an error result keeps them equal.
		f.mu.Unlock()
		return &answered{[]locktable.Result{{Code: locktable.CodeMalformed, Index: entry.Index, Detail: err.Error()}}}
	}
	results := f.applyBatch(entry, batch)
	f.mu.Unlock()
	if events := f.effects.Events; len(events) > 0 { // effects are this goroutine's own
		f.publish(events)
	}
	if founds(batch) {
		f.founded()
	}
	if len(batch.Commands) > keptCommands {
		batch.Commands = nil
	}
	return &answered{results}
}

// keptCommands is the largest slice of commands that is kept for the next entry: what a leader puts into one.
const keptCommands = 256

func founds(b *wire.Batch) bool {
	return slices.ContainsFunc(b.Commands, func(c locktable.Command) bool { return c.Op == locktable.OpFound })
}

func (f *fsm) applyBatch(entry *raft.Log, batch *wire.Batch) []locktable.Result {
	eff := &f.effects
	eff.Events, eff.Renewed, eff.Ended, eff.Drains = eff.Events[:0], eff.Renewed[:0], eff.Ended[:0], eff.Drains[:0]
	f.term = entry.Term
	results := f.roomFor(len(batch.Commands))
	for i := range batch.Commands {
		results[i] = f.table.Apply(entry.Index, entry.Term, batch.Wall, &batch.Commands[i], eff)
	}
	f.stamp(eff)
	f.hashes.applied(entry.Index, f.table)
	return results
}

// roomFor makes room for n results. Those of entries that another node leads are looked at by nobody, and they are most of what a follower would allocate.
func (f *fsm) roomFor(n int) []locktable.Result {
	if n > keptCommands || f.awaited == nil || f.awaited() {
		return make([]locktable.Result, n)
	}
	if n > cap(f.unread) {
		f.unread = make([]locktable.Result, n)
	}
	return f.unread[:n]
}

// stamp notes when this member applied renewals; a later leader's expiry is reckoned from its own stamps alone. A renewal and an
// end of one session in one entry leave it ended: a session never comes back, so the order between them does not matter.
func (f *fsm) stamp(eff *locktable.Effects) {
	now := f.clock.Now()
	for _, r := range eff.Renewed {
		f.stamps.Renewed(r.Session, r.TTL, r.Index, now)
	}
	for _, s := range eff.Ended {
		f.stamps.Ended(s)
	}
	for _, d := range eff.Drains {
		if d.Index != 0 {
			f.stamps.DrainBegan(d.Grant, d.Wait, d.Index, now)
		} else {
			f.stamps.DrainEnded(d.Grant)
		}
	}
}

// Snapshot implements raft.FSM. It copies nothing: the table is copy-on-write, so that Apply never waits for encoding.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return nil, f.broken
	}
	f.bytes = 0
	return &fsmSnapshot{state: f.table.Snapshot(), goOn: f.hashes.goOn, written: f.snapshotWritten, refused: f.snapshotRefused}, nil
}

// Restore implements raft.FSM. The new state is built and verified in full before it takes the place of the old one.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	if err := f.stopped(); err != nil {
		return err // raft would try an older snapshot, behind which the log may not begin any more
	}
	counted := countingReader{Reader: r}
	table, err := f.binary.ReadSnapshot(&counted)
	if other := (*wire.StateError)(nil); errors.As(err, &other) {
		err = &SnapshotError{Index: other.Index, cause: err}
	}
	if err != nil {
		err = fmt.Errorf("restore snapshot: %w", err)
		f.stop(err)
		f.fail(err)
		return err
	}
	group, term := f.newestGroup()
	f.mu.Lock()
	f.table, f.term, f.bytes, f.written, f.group = table, term, 0, counted.n, group
	f.hashes.replaced()
	f.restamp()
	h := table.Header()
	f.mu.Unlock()
	f.reset(h)
	return nil
}

// stop makes this the last that the state machine does: nothing is applied, and no snapshot given, afterwards.
func (f *fsm) stop(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken == nil {
		f.broken = why
	}
}

func (f *fsm) stopped() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken
}

// Raft asks for it by a type assertion and goes without it in silence.
var _ raft.ConfigurationStore = (*fsm)(nil)

// electorate is the voters of a committed configuration, and from which log index on. The zero electorate is not known.
type electorate struct {
	since  uint64
	voters []string
}

func newElectorate(index uint64, c raft.Configuration) electorate {
	e := electorate{since: index}
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter {
			e.voters = append(e.voters, string(s.ID))
		}
	}
	return e
}

// StoreConfiguration implements raft.ConfigurationStore. Raft (v1.8.0) brings committed configurations in log order,
// between the entries, also those that it replays at a start; not the one that stands in a snapshot instead.
func (f *fsm) StoreConfiguration(index uint64, c raft.Configuration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.group = newElectorate(index, c)
}

// newestGroup is the configuration in the newest snapshot, which has the one that is being restored, or, if this member took a later one itself, one
// that was committed later: either stands until the log brings another. Not known if the snapshots cannot be listed. term is that snapshot's.
func (f *fsm) newestGroup() (group electorate, term uint64) {
	if f.snapshots == nil {
		return electorate{}, 0
	}
	list, err := f.snapshots.List()
	if err != nil || len(list) == 0 {
		return electorate{}, 0
	}
	return newElectorate(list[0].ConfigurationIndex, list[0].Configuration), list[0].Term
}

func (f *fsm) electorate() electorate {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.group
}

// restamp gives every session and drain a full TTL from now, which is never too early.
func (f *fsm) restamp() {
	now := f.clock.Now()
	f.stamps.Reset(func(yield func(locktable.Renewal) bool) {
		for s := range f.table.Sessions() {
			if !yield(locktable.Renewal{Session: s.ID, TTL: s.TTL, Index: s.RenewIndex}) {
				return
			}
		}
	}, now)
	for d := range f.table.Drains() {
		f.stamps.DrainBegan(d.Grant, d.Wait, d.Index, now)
	}
}

// due lists what this member's stamps say has run out, at most limit of each.
func (f *fsm) due(now clock.Reading, limit int) ([]expiry.Expiry, []expiry.DrainDue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	expire, drained, _ := f.stamps.Due(now, limit)
	return expire, drained
}

func (f *fsm) header() locktable.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.table.Header()
}

// view is the state at one index, to read without holding up Apply.
func (f *fsm) view() *locktable.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.table.Snapshot()
}

// viewOf is view, and the term of the last entry in it.
func (f *fsm) viewOf() (state *locktable.Snapshot, term uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.table.Snapshot(), f.term
}

// snapshotRefused stops a member that cannot write its own state down so that it is read back as the same. Its state, its copy or its program is at fault, and the
// others must not get what it would hand on. The log is as good as ever, so the directory stays usable.
func (f *fsm) snapshotRefused(index uint64, cause error) {
	err := &SnapshotError{Index: index, Taken: true, cause: cause}
	f.stop(err)
	f.fail(err)
}

// fsmSnapshot is one state on its way to the disk. The store reads it back while it is written (see verifySnapshot).
type fsmSnapshot struct {
	state   *locktable.Snapshot
	goOn    func() bool
	written func(size uint64)
	refused func(index uint64, cause error)
}

// Persist runs beside Apply.
func (s *fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	counted := countingWriter{Writer: sink}
	err := wire.WriteSnapshotWhile(&counted, s.state, s.goOn)
	if err != nil {
		_ = sink.Cancel()
	} else if err = sink.Close(); err == nil {
		s.written(counted.n)
	}
	if refused := (*store.RefusedError)(nil); errors.As(err, &refused) && !errors.Is(err, wire.ErrStopped) {
		s.refused(s.state.Header().Index, refused.Err)
	}
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// verifySnapshot tells whether a snapshot, of this member or of another one, may be kept. One of a newer level is not this binary's to judge: the state machine
// fails over it.
func (n *Node) verifySnapshot(r io.Reader) error {
	err := n.binary.VerifySnapshot(r, func() bool { return n.life.Err() == nil })
	if errors.Is(err, wire.ErrLevel) {
		return nil
	}
	return err
}

// Release implements raft.FSMSnapshot; the copy is garbage collected.
func (s *fsmSnapshot) Release() {}
