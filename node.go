package quorumlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/gossip"
	"github.com/quorumlock/quorumlock/internal/hub"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/quiet"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
	"github.com/quorumlock/quorumlock/watch"
)

// Node is one instance's member of a cluster. It serves as soon as Open returns; locking works once a quorum has
// formed, which Ready waits for. All methods are safe for concurrent use.
type Node struct {
	cfg  Config
	id   string // server id
	boot string // random, made at each start
	// opened is when Open began.
	opened time.Time
	log    hclog.Logger
	clock  clock.Source
	// binary is what this binary understands of the log and of snapshots.
	binary wire.Binary

	store    *store.Store
	endpoint transport.Endpoint
	calls    *transport.Calls
	gossip   gossip.Gossip
	seeds    *gossip.Seeds // of a caller, whose gossip it is, too; else nil
	fsm      *fsm
	group    *group
	router   *router.Router
	founding *membership.Founding
	hub      *hub.Hub
	public   []watch.Event // what publish hands to the hub; its own, and reused
	sessions *sessionSet
	trips    roundTrips
	lines    quiet.Limiter

	lead     atomic.Pointer[leadership]
	leaders  *signal // wakes whoever waits for another leader
	standing standing
	roster   atomic.Pointer[roster]
	// unattached is why a caller has found no member yet.
	unattached atomic.Pointer[error]
	// reader is the member that answered a client's reads last.
	reader    atomic.Pointer[router.Peer]
	names     nameBook
	cuts      raftCuts
	farewells farewells
	given     givenStates
	backups   backups
	answers   atomic.Pointer[answers]
	foreign   atomic.Pointer[foreignCluster]
	// duplicate is set when this process was found to run on a copy of another live one's data directory.
	duplicate atomic.Bool
	verdict   atomic.Pointer[DivergedError] // set when this member's state is known to differ, before anybody is told

	opening chan struct{} // one slot: who holds it may open the node's own session
	own     *Session      // guarded by opening

	identity chan struct{}          // one slot: serializes writes of the identity, which last as long as the disk hangs
	cluster  atomic.Pointer[string] // the cluster the node belongs to
	adopted  atomic.Pointer[string] // the one whose raft streams it accepts
	wasReady atomic.Bool
	member   chan struct{} // closed when the node belongs to a cluster
	joined   sync.Once

	started chan struct{} // closed when all parts are there: the lower ones may call back before
	// life ends when Close stops the background; until then sessions, calls and callbacks go on.
	life    context.Context
	endLife context.CancelFunc
	// asking ends with life, or when the node is found to be a copy; it bounds calls that belong to no session.
	asking    context.Context
	endAsking context.CancelFunc
	tasks     tasks
	closing   atomic.Bool
	departing chan struct{} // closed when Close or Leave comes to the removal from the group
	// removal ends when one of several calls that end the node has no more time for the removal.
	removal    context.Context
	endRemoval context.CancelFunc
	closed     chan struct{} // closed when Close has done everything
	closeErr   error         // set before closed
	departed   bool          // set before closed: no member any more, or the last one

	done    chan struct{}
	doneErr error
	doneMu  sync.Mutex
}

// Open starts a node and returns when it serves; it does not wait for a leader or for other nodes (see Ready). ctx
// bounds the start only.
//
// Errors: *FieldError values, joined, for what cfg has wrong (also an address in use, a data directory in use by
// another process, of another cluster or of a newer format). Nothing is left running after an error.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open node: %w", err)
	}
	n := &Node{
		cfg: cfg, log: cfg.Logger, clock: cfg.sim.Clock, binary: cfg.sim.Binary, boot: newID(), hub: hub.NewHub(watchHistory), leaders: newSignal(),
		opening: make(chan struct{}, 1), identity: make(chan struct{}, 1), member: make(chan struct{}), closed: make(chan struct{}), done: make(chan struct{}),
		started: make(chan struct{}), departing: make(chan struct{}), opened: time.Now(),
	}
	if n.clock == nil {
		n.clock = clock.System()
	}
	n.life, n.endLife = context.WithCancel(context.Background())
	n.asking, n.endAsking = context.WithCancel(n.life)
	n.removal, n.endRemoval = context.WithCancel(context.Background())
	n.standing.asking = make(chan struct{}, 1)
	n.sessions = newSessionSet(func(s *Session) { n.endLater(s, false) })
	if err := n.start(ctx); err != nil {
		_ = n.stopParts()
		return nil, fmt.Errorf("open node: %w", err)
	}
	return n, nil
}

// watchHistory is how many events are kept for watchers that resume.
const watchHistory = 16384

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// start brings up the parts from the bottom to the top. What it has started when it fails, stopParts ends.
func (n *Node) start(ctx context.Context) error {
	n.standing.client.Store(n.cfg.caller())
	if err := n.tryAddress(); err != nil {
		return err
	}
	if err := n.openStore(ctx); err != nil {
		return err
	}
	if err := n.listen(); err != nil {
		return err
	}
	if err := n.startGossip(); err != nil {
		return err
	}
	n.router = router.New(router.Env{
		Self: n.id, Local: n.localDo, Leader: n.knownLeader, Others: n.members, Call: n.callPropose, Why: n.why,
		LocalRenew: n.localRenew, CallRenew: n.newRenewCaller().call,
	})
	n.fsm = newFSM(n.clock, n.binary)
	n.fsm.publish, n.fsm.reset, n.fsm.fail = n.publish, n.stateReplaced, n.fail
	n.fsm.snapshots = n.store.Snapshots()
	n.fsm.founded = func() { n.spawn(n.learnCluster) }
	n.fsm.hashes.run, n.fsm.hashes.goOn = n.spawn, func() bool { return n.life.Err() == nil }
	if every := n.cfg.sim.HashEvery; every > 0 {
		n.fsm.hashes.least = every
	}
	var err error
	n.group, err = startGroup(groupConfig{
		serverID: n.id, timing: n.cfg.Timing, logger: n.log, fsm: n.fsm, store: n.store, endpoint: n.endpoint, resolve: n.resolve,
		changed: n.leaderMayHaveChanged, clock: n.clock, binary: n.binary,
	})
	if err != nil {
		return errors.Join(err, n.failed()) // of a snapshot that cannot be restored only the state machine knows why
	}
	if err := n.checkClient(); err != nil {
		return err
	}
	n.founding = membership.New(n.foundingConfig(), n.foundingEnv())
	n.calls = transport.NewCalls(n.endpoint, n.serve, n.takePush, transport.CallOptions{Logger: n.log.Named("calls")})
	close(n.started)
	n.spawn(n.runLeadership)
	n.spawn(n.runPacer)
	n.spawn(n.runFounding)
	n.spawn(n.runRejoin)
	n.spawn(n.runClient)
	n.spawn(n.runSnapshots)
	n.spawn(n.runDivergence)
	if n.cfg.Snapshots != nil {
		n.spawn(n.runBackups)
	}
	if n.cfg.RestartInPlace {
		n.spawn(n.endFormer)
	}
	return nil
}

func (n *Node) isStarted() bool {
	select {
	case <-n.started:
		return true
	default:
		return false
	}
}

// tryAddress finds out that the address is in use before the data directory is touched. (The port itself is opened later, since handshakes need the
// server id that the directory holds; who takes the port in between makes Open fail then.)
func (n *Node) tryAddress() error {
	if n.cfg.caller() {
		return nil
	}
	probe, err := n.cfg.Transport.Listen(n.transportConfig(newID()))
	if err != nil {
		return addressError(err)
	}
	return probe.Close()
}

func (n *Node) transportConfig(id string) transport.Config {
	conf := transport.Config{
		Addr: n.cfg.Addr, Advertise: n.cfg.Advertise, Cluster: n.cfg.Cluster, ServerID: id, ClusterID: n.clusterIDNow, RaftClusterID: n.raftClusterID,
		AllowPlaintext: n.cfg.AllowPlaintext, Logger: n.log.Named("transport"), OnForeign: n.metForeign, DialOnly: n.cfg.caller(),
	}
	if t := n.cfg.TLS; t != nil {
		conf.TLS = &transport.TLS{Server: t.Server, Client: t.Client}
	}
	return conf
}

func (n *Node) openStore(ctx context.Context) error {
	s, err := store.Open(ctx, store.Options{
		Dir: n.cfg.Dir, Segments: n.cfg.LogStore.segments(), Disk: n.cfg.sim.Disk, Cluster: n.cfg.Cluster, Admit: n.cfg.pinned, VerifySnapshot: n.verifySnapshot, Logger: n.log.Named("store"),
		OnFail: n.storeFailed, OnStall: n.storeStalled, Incarnation: n.cfg.RestartInPlace,
	})
	if other := (*FieldError)(nil); errors.As(err, &other) {
		return other // of pinned
	}
	if err != nil {
		return directoryError(err)
	}
	n.store, n.id = s, s.ServerID()
	if id := s.Identity().ClusterID; id != "" {
		n.setCluster(id)
	}
	return nil
}

// pinned refuses the directory of another cluster than the one that was asked for.
func (c *Config) pinned(found store.Identity) error {
	if want, id := c.ClusterID, found.ClusterID; want != "" && id != "" && want != id {
		return &FieldError{Field: "Config.ClusterID", Value: want, Problem: fmt.Sprintf("the data directory belongs to cluster %s", id)}
	}
	return nil
}

func (n *Node) listen() error {
	e, err := n.cfg.Transport.Listen(n.transportConfig(n.id))
	if err != nil {
		return addressError(err)
	}
	n.endpoint = e
	n.cuts.attach(e)
	return nil
}

func (n *Node) startGossip() error {
	if n.cfg.caller() {
		return n.startSeeds()
	}
	var err error
	n.gossip, err = newGossip(n.cfg.sim, gossip.Options{
		Endpoint: n.endpoint, ServerID: n.id, Cluster: n.cfg.Cluster, Meta: n.meta(), Started: n.store.Started(), Seeds: n.cfg.Join, Keys: n.cfg.GossipKeys,
		Logger: n.log.Named("gossip"), OnChange: n.gossipChanged, OnConflict: n.idConflict, OnForeign: n.metForeign,
	})
	return err
}

// addressError and directoryError give what the layers below found wrong as the field that the caller set.
func addressError(err error) error {
	var addr *transport.AddrError
	if errors.As(err, &addr) {
		return &FieldError{Field: "Config." + addr.Option, Value: addr.Addr, Problem: addr.Err.Error(), Err: err}
	}
	var plain *transport.PlaintextError
	if errors.As(err, &plain) {
		return &FieldError{Field: "Config.AllowPlaintext", Problem: plain.Error(), Err: err}
	}
	return err
}

func directoryError(err error) error {
	cause := err
	if errors.As(err, new(*store.CondemnedError)) {
		cause = fmt.Errorf("%w: %w", ErrDiverged, err)
	}
	return &FieldError{Field: "Config.Dir", Problem: err.Error(), Err: cause}
}

// ID is the server id: random, made with the data directory (or at each start without one), never reused.
func (n *Node) ID() string { return n.id }

// Addr is the address that other nodes are told, "" of a caller (see RoleClient).
func (n *Node) Addr() string { return n.endpoint.Advertise() }

// ClusterID is the id of the cluster the node belongs to, "" while it belongs to none.
func (n *Node) ClusterID() string { return n.clusterIDNow() }

// Ready waits until the node belongs to a cluster and a leader has answered it. Until it has been ready once it also
// waits, if it replicates, until its state has got as far as the leader's was then: from that moment on the cluster can
// do without another instance, as a rolling update must know. ctx bounds the wait; the error then says what is missing.
func (n *Node) Ready(ctx context.Context) error {
	const op = "ready"
	if err := n.usable(ctx, op); err != nil {
		return err
	}
	res, err := n.ask(ctx, op, "", &locktable.Command{Op: locktable.OpBarrier})
	if err != nil {
		return err
	}
	if n.wasReady.Load() {
		return nil
	}
	err = n.awaitApplied(ctx, op, res.Index)
	n.wasReady.Store(err == nil)
	return err
}

const appliedPace = 20 * time.Millisecond // a follower applies what is committed 75 ms later as a rule

// awaitApplied waits until this node's state has reached an index of the log, unless it keeps none.
func (n *Node) awaitApplied(ctx context.Context, op string, index uint64) error {
	for !n.isClient() && n.fsm.header().Index < index {
		pause(ctx, appliedPace)
		switch {
		case ctx.Err() != nil:
			return &WaitError{Op: op, Waiting: fmt.Sprintf("state at log index %d of %d", n.fsm.header().Index, index), Err: ended(ctx)}
		case n.failed() != nil:
			return n.failed()
		case n.life.Err() != nil:
			return &WaitError{Op: op, Err: ErrClosed}
		}
	}
	return nil
}

// usable is the first check of every call.
func (n *Node) usable(ctx context.Context, op string) error {
	if n.closing.Load() {
		return &WaitError{Op: op, Err: ErrClosed}
	}
	if ctx.Err() != nil {
		return &WaitError{Op: op, Err: ended(ctx)}
	}
	return n.isCopy(op, "")
}

// do routes a command and turns errors into this package's. A leader that has not founded the cluster yet is about to: it is waited for.
func (n *Node) do(ctx context.Context, op, name string, cmd *locktable.Command, opt router.Options) (locktable.Result, error) {
	if err := n.mayAsk(ctx, op, name, cmd); err != nil {
		return locktable.Result{}, err
	}
	for {
		res, err := n.router.Do(ctx, cmd, opt)
		if err != nil && context.Cause(ctx) == errGranted {
			return res, errGranted // nobody reads it
		}
		if err != nil || res.Code != locktable.CodeNotFounded {
			return res, n.explain(failure(ctx, op, name, err))
		}
		if pause(ctx, foundingPause); ctx.Err() != nil {
			return res, &WaitError{Op: op, Name: name, Waiting: "the cluster is being founded", Err: joined(ended(ctx), true), unsent: true}
		}
	}
}

const foundingPause = 20 * time.Millisecond

// awaitMember waits until the node belongs to a cluster. Nothing is asked of a cluster before: the one that gossip shows may be another than the one
// that this node founds, joins or is pinned to.
func (n *Node) awaitMember(ctx context.Context, op, name string) error {
	if n.isMember() {
		return nil
	}
	select {
	case <-n.member:
		return nil
	case <-n.done:
		return n.Err()
	case <-n.life.Done():
		return &WaitError{Op: op, Name: name, Err: ErrClosed}
	case <-ctx.Done():
		return &WaitError{Op: op, Name: name, Waiting: n.standingBy(), Err: joined(ended(ctx), true), unsent: true}
	}
}

// ask is do for calls that belong to no session: they end when the node closes.
func (n *Node) ask(ctx context.Context, op, name string, cmd *locktable.Command) (locktable.Result, error) {
	if err := n.isCopy(op, name); err != nil {
		return locktable.Result{}, err
	}
	if err := n.awaitMember(ctx, op, name); err != nil {
		return locktable.Result{}, err
	}
	both, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(n.asking, cancel)
	defer func() { stop(); cancel() }()
	res, err := n.do(both, op, name, cmd, router.Options{})
	if err != nil && ctx.Err() == nil && n.life.Err() != nil {
		return res, &WaitError{Op: op, Name: name, Err: ErrClosed}
	}
	if err != nil && ctx.Err() == nil && n.asking.Err() != nil {
		return res, n.isCopy(op, name)
	}
	return res, err
}

// knownLeader is the leader as this node knows it, and a channel that is closed when that may have changed.
func (n *Node) knownLeader() (router.Peer, <-chan struct{}) {
	changed := n.leaders.get()
	id, _ := n.leader()
	if id == "" {
		return router.Peer{}, changed
	}
	addr, ok := n.resolve(id)
	if !ok {
		return router.Peer{}, changed
	}
	return router.Peer{ID: id, Addr: addr}, changed
}

// resolve gives the address of a server id: gossip is the phone book.
func (n *Node) resolve(id string) (string, bool) {
	if id == "" {
		return "", false
	}
	if id == n.id {
		return n.endpoint.Advertise(), true
	}
	return n.gossip.Lookup(id)
}

func (n *Node) leaderMayHaveChanged() {
	n.leaders.raise()
	for _, s := range n.sessions.all(nil) {
		s.hurry()
	}
}

// keptEvents is the largest buffer for events that is kept from entry to entry: more than an entry brings in order, a few hundred KB.
const keptEvents = 1024

// publish runs on raft's goroutine for each entry that changed something.
func (n *Node) publish(events []locktable.Event) {
	n.public = watchEvents(n.public[:0], events)
	err := n.hub.Publish(n.public)
	if clear(n.public); cap(n.public) > keptEvents {
		n.public = nil
	}
	if err != nil {
		n.fail(fmt.Errorf("events out of order: %w", err))
		return
	}
	n.deliverOwn(events)
	if n.lead.Load() != nil {
		n.pushNews(events)
	}
}

// deliverOwn hands on what concerns sessions of this node, with one reading of the clocks for all.
func (n *Node) deliverOwn(events []locktable.Event) {
	var now clock.Reading
	read := false
	for i := range events {
		if events[i].Node != n.id {
			continue
		}
		if !read {
			now, read = n.clock.Now(), true
		}
		n.deliver(&events[i], now)
	}
}

func (n *Node) stateReplaced(h locktable.Header) {
	n.hub.Reset(int64(h.Counter))
	n.spawn(n.learnCluster)
	n.leaderMayHaveChanged() // sessions fetch the news they may have missed
}

// storeFailed runs before raft sees the error: the streams are cut, so that no zombie leader heartbeats on.
func (n *Node) storeFailed(err error) {
	n.cuts.end()
	n.fail(fmt.Errorf("store: %w", err))
}

// storeStalled takes the node out of raft while a write hangs, so that the others elect; calls go on, so that this node's holds live on through
// another leader.
func (n *Node) storeStalled(stalled bool) {
	n.cuts.stall(stalled)
	if stalled {
		n.log.Warn("a disk write hangs: taking no part in raft until it succeeds")
	} else {
		n.log.Info("the disk answers again")
	}
}

// fail ends the node's part in the group for good. Its host goes on, and so do its sessions, through other members, until Close; but not those of a copy, see withdraw.
func (n *Node) fail(err error) {
	err = n.withVerdict(err)
	n.doneMu.Lock()
	first := n.doneErr == nil
	if first {
		n.doneErr = &nodeError{err: err}
		close(n.done)
	}
	n.doneMu.Unlock()
	if !first {
		return
	}
	n.log.Error("node failed", "error", err)
	n.spawn(func() {
		select {
		case <-n.started:
		case <-n.life.Done():
			return // whoever ended it stops the parts
		}
		n.cuts.end()
		n.hub.Close(n.failed()) // a watcher of a state that stands still must be told
		ctx, cancel := context.WithTimeout(n.life, stopBound)
		defer cancel()
		n.group.stop(ctx)
		n.leaders.raise()
	})
}

// nodeError matches ErrFailed and unwraps to the reason.
type nodeError struct{ err error }

func (e *nodeError) Error() string   { return fmt.Sprintf("%v: %v", ErrFailed, e.err) }
func (e *nodeError) Unwrap() []error { return []error{ErrFailed, e.err} }

func (n *Node) failed() error {
	n.doneMu.Lock()
	defer n.doneMu.Unlock()
	return n.doneErr
}

// Done is closed when the node can not go on: it failed, was closed, or has left.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err tells why Done is closed: ErrClosed after Close or Leave; otherwise an error that matches ErrFailed and says what
// happened. Nil while the node works.
func (n *Node) Err() error { return n.failed() }

// spawn runs f in the background; false when the node has stopped. Close waits for what it started.
func (n *Node) spawn(f func()) bool { return n.tasks.start(f) }

// runSnapshots takes a snapshot when enough bytes were applied since the last one. Raft counts entries, and ours are batches.
func (n *Node) runSnapshots() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-n.life.Done():
			return
		}
		if !n.snapshotDue() || n.failed() != nil {
			continue
		}
		if err := n.group.snapshot(n.life); err != nil && n.life.Err() == nil {
			n.log.Warn("snapshot not taken", "error", err)
		}
	}
}

// meta is what gossip tells about this node.
func (n *Node) meta() gossip.Meta {
	m := n.cfg.gossipMeta()
	m.ClusterID, m.Version, m.Expect, m.Boot = n.clusterIDNow(), n.binary.Highest(), n.foundingConfig().MetaExpect(), n.boot
	m.HasState = n.hasState() && !n.isClient()
	return m
}

func newRand() *mrand.Rand {
	var seed [32]byte
	_, _ = rand.Read(seed[:])
	return mrand.New(mrand.NewChaCha8(seed))
}
