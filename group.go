package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/commit"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/quiet"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
)

// Sizes of the raft group, chosen for entries that are batches of up to 256 commands (FACTS are in docs/design/group.md).
const (
	maxAppendEntries = 512
	trailingLogs     = 1024
	raftCallTimeout  = 2 * time.Second
	raftPool         = 3
	confTimeout      = 5 * time.Second // bound of one membership change
	bootstrapPace    = 5 * time.Millisecond
	bootstrapBound   = time.Minute     // longer than any stall that ends
	enqueueTimeout   = 2 * time.Second // a leader whose disk hangs takes no more entries; its proposers look elsewhere
)

// group is this node's member of the raft group. It and fsm.go are the only places of the root where raft's types are used, and one
// function (outcome) turns raft's errors into ours.
type group struct {
	raft     *raft.Raft
	trans    *raft.NetworkTransport
	streams  *streamLayer
	store    *store.Store
	observer *raft.Observer
	seen     chan raft.Observation
	gone     chan struct{} // closed when the observation loop has ended
	asked    *requests
	changed  func() // the leader may have changed
	clock    clock.Source
	binary   wire.Binary
	stopping sync.Once
	stopped  chan struct{} // closed when raft has stopped
	offers   offers
}

type groupConfig struct {
	clock    clock.Source
	binary   wire.Binary
	serverID string
	timing   Timing
	logger   hclog.Logger
	fsm      *fsm
	store    *store.Store
	endpoint transport.Endpoint
	resolve  func(serverID string) (string, bool)
	changed  func()
}

func startGroup(cfg groupConfig) (*group, error) {
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(cfg.serverID)
	conf.HeartbeatTimeout = cfg.timing.Heartbeat
	conf.ElectionTimeout = cfg.timing.Election
	conf.LeaderLeaseTimeout = cfg.timing.Lease
	conf.MaxAppendEntries = maxAppendEntries
	conf.TrailingLogs = trailingLogs
	conf.SnapshotThreshold = snapshotEntries
	conf.SnapshotInterval = 30 * time.Second
	conf.ShutdownOnRemove = false
	conf.BatchApplyCh = false
	conf.NoLegacyTelemetry = true
	conf.Logger = quiet.Logger(cfg.logger.Named("raft"))
	streams := newStreamLayer(cfg)
	trans := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:  streams,
		MaxPool: raftPool,
		Timeout: raftCallTimeout,
		Logger:  quiet.Logger(cfg.logger.Named("raft-net")),
	})
	patient := &raftTransport{NetworkTransport: trans, life: streams.life}
	asked := newRequests()
	cfg.fsm.awaited = asked.any
	var r *raft.Raft
	err := cfg.store.Guard(func() (err error) {
		r, err = raft.NewRaft(conf, cfg.fsm, cfg.store.Logs(), cfg.store.Stable(), cfg.store.Snapshots(), patient)
		return err
	})
	if err != nil {
		streams.cut()
		_ = trans.Close()
		return nil, fmt.Errorf("start raft: %w", err)
	}
	patient.raft.Store(r)
	g := &group{
		raft: r, trans: trans, streams: streams, store: cfg.store, clock: cfg.clock, binary: cfg.binary, changed: cfg.changed,
		seen: make(chan raft.Observation, 16), gone: make(chan struct{}), stopped: make(chan struct{}), asked: asked,
	}
	g.observer = raft.NewObserver(g.seen, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	})
	r.RegisterObserver(g.observer)
	go g.observe()
	return g, nil
}

// observe wakes whoever waits for another leader. An observation that is dropped because the channel is full does no harm: each
// only says "look again", and one that is queued says so already.
func (g *group) observe() {
	defer close(g.gone)
	for range g.seen {
		g.changed()
	}
}

// stop ends raft and everything it left behind, and returns true; or false when ctx ends, since raft may be waiting for a disk write that hangs, and
// then the rest ends when the disk lets go. The store and the endpoint must outlive it. Twice is fine.
func (g *group) stop(ctx context.Context) bool {
	g.stopping.Do(func() {
		go func() {
			defer close(g.stopped)
			g.shutdown()
		}()
	})
	select {
	case <-g.stopped:
		return true
	case <-ctx.Done():
		return false
	}
}

func (g *group) shutdown() {
	g.streams.cut() // calls to peers that do not answer would hold it up
	g.asked.drain(drainBound)
	_ = g.raft.Shutdown().Error()
	g.raft.DeregisterObserver(g.observer)
	close(g.seen)
	<-g.gone
	g.trans.CloseStreams()
	_ = g.trans.Close()
}

func (g *group) leading() bool { return g.raft.State() == raft.Leader }

func (g *group) term() uint64 { return g.raft.CurrentTerm() }

// leader is the server id of the leader this node knows, "" if none.
func (g *group) leader() string {
	_, id := g.raft.LeaderWithID()
	return string(id)
}

// lastContact is when this node last heard a leader, gave its vote to one, or stopped leading; zero if never.
func (g *group) lastContact() time.Time { return g.raft.LastContact() }

func (g *group) lastIndex() uint64 { return g.raft.LastIndex() }

func (g *group) appliedIndex() uint64 { return g.raft.AppliedIndex() }

// servers is the latest configuration this node has, committed or not.
func (g *group) servers() []membership.Server {
	list, _ := g.configuration()
	return list
}

// configuration is the latest one, committed or not, and where it stands in the log.
func (g *group) configuration() (list []membership.Server, index uint64) {
	future := g.raft.GetConfiguration()
	if future.Error() != nil {
		return nil, 0
	}
	for _, s := range future.Configuration().Servers {
		list = append(list, membership.Server{ID: string(s.ID), Voter: s.Suffrage == raft.Voter})
	}
	return list, future.Index()
}

// propose starts one entry. The futures of raft never leave this function: wait gives results or a *commit.Error.
func (g *group) propose(cmds []*locktable.Command) func() ([]locktable.Result, error) {
	data := g.binary.AppendBatch(nil, g.clock.Now().Wall.UnixMilli(), cmds)
	if !g.asked.begin() {
		return func() ([]locktable.Result, error) { return nil, outcome(raft.ErrNotLeader) }
	}
	future := g.raft.Apply(data, enqueueTimeout)
	return func() ([]locktable.Result, error) {
		defer g.asked.end()
		if err := future.Error(); err != nil {
			return nil, outcome(err)
		}
		switch answer := future.Response().(type) {
		case *answered:
			return answer.take(), nil
		case error:
			return nil, &commit.Error{Outcome: commit.Unknown, Err: answer}
		}
		return nil, &commit.Error{Outcome: commit.Unknown, Err: errors.New("no answer of the state machine")}
	}
}

var errNotLeader = errors.New("not the leader")

// outcome says what an error of raft means for the command: certainly not done, or unknown. It is the one table of raft's errors; one
// that is not listed is unknown, the safe side.
func outcome(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		// The last one is a leader whose log takes nothing: it is as good as none, and its callers had better look elsewhere.
		return &commit.Error{Outcome: commit.NotDone, Err: errNotLeader}
	case errors.Is(err, raft.ErrRaftShutdown):
		// Raised for entries that were never enqueued and for those in flight alike.
		return &commit.Error{Outcome: commit.Unknown, Err: errNotLeader}
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrAbortedByRestore):
		return &commit.Error{Outcome: commit.Unknown, Err: errNotLeader}
	}
	return &commit.Error{Outcome: commit.Unknown, Err: errors.New("consensus: " + err.Error())}
}

// barrier returns once everything committed before it has been applied here; only a leader can. ctx bounds the wait.
func (g *group) barrier(ctx context.Context) error {
	return g.await(ctx, func() raft.Future { return g.raft.Barrier(enqueueTimeout) })
}

// bootstrap makes servers the first configuration and returns when this node has it. Raft's future is not waited for: if the disk fails between two of
// raft's writes, its main goroutine ends (see store.Guard), and the future would never be answered.
func (g *group) bootstrap(ctx context.Context, servers []membership.Server) error {
	if has, err := g.store.HasState(); err != nil || has {
		return err // with state, a former attempt of this very founding got here
	}
	var conf raft.Configuration
	for _, s := range servers {
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(s.ID), Address: raft.ServerAddress(s.ID), Suffrage: suffrage(s.Voter)})
	}
	g.raft.BootstrapCluster(conf)
	for end := time.Now().Add(bootstrapBound); len(g.servers()) == 0; {
		if time.Now().After(end) {
			return errors.New("raft did not take the first configuration")
		}
		if err := g.store.Failed(); err != nil {
			return err
		}
		if pause(ctx, bootstrapPace); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func suffrage(voter bool) raft.ServerSuffrage {
	if voter {
		return raft.Voter
	}
	return raft.Nonvoter
}

// The address of a server in the configuration is its id, never dialable by itself: it is resolved through gossip at each dial, so
// a server under a new address needs no change of the configuration, and an address that somebody else took over reaches nobody.
func (g *group) addNonvoter(ctx context.Context, id string) error {
	return g.await(ctx, func() raft.Future {
		return g.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(id), 0, confTimeout)
	})
}

func (g *group) addVoter(ctx context.Context, id string) error {
	return g.await(ctx, func() raft.Future { return g.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(id), 0, confTimeout) })
}

func (g *group) demote(ctx context.Context, id string) error {
	return g.await(ctx, func() raft.Future { return g.raft.DemoteVoter(raft.ServerID(id), 0, confTimeout) })
}

func (g *group) remove(ctx context.Context, id string) error {
	return g.await(ctx, func() raft.Future { return g.raft.RemoveServer(raft.ServerID(id), 0, confTimeout) })
}

// transfer hands leadership to a voter that answered just now and said which index its log ends with: raft's own choice ignores liveness.
//
// A barrier goes first: raft keeps the request in a queue that it does not answer when it stops, so one that a stuck log never takes up would wait for ever.
func (g *group) transfer(ctx context.Context, id string, last uint64) error {
	if err := g.barrier(ctx); err != nil {
		return err
	}
	if !g.offers.allow(g.raft.CurrentTerm(), id, last, g.lastIndex()) {
		return errOffered
	}
	return g.await(ctx, func() raft.Future {
		return g.raft.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(id))
	})
}

var errOffered = errors.New("it was offered before, and the voter has got no entry since")

// offers notes to whom leadership was offered in one term, and keeps a second offer back from a voter that has not got any entry since the first one.
//
// Raft (v1.8.0) tells the replication to a voter that it should hurry through a channel with room for one. An offer that fails because the voter takes no
// entries may leave that place taken; the next one then waits for the replication without a bound, even when the replication has ended because the
// leadership has. Until it gets through raft refuses all entries, in all later leaderships of this node, too. A voter that has got a later entry shows that its
// replication works, and so has emptied the channel.
type offers struct {
	mu   sync.Mutex
	term uint64
	at   map[string]uint64 // by voter, the last index of the log at the latest offer
}

// allow tells whether a voter whose log ends with index last may be offered leadership now, and notes that it is; own is the end of the leader's log.
func (o *offers) allow(term uint64, id string, last, own uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at == nil || o.term != term {
		o.term, o.at = term, make(map[string]uint64)
	}
	if at, offered := o.at[id]; offered && last <= at {
		return false
	}
	o.at[id] = max(own, last) // a voter's log may still end with what a former leader left there
	return true
}

// snapshot takes a snapshot now.
func (g *group) snapshot(ctx context.Context) error {
	err := g.await(ctx, func() raft.Future { return g.raft.Snapshot() })
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// await bounds a request by ctx: raft's own timeouts cover the queueing only, and that blocks the caller. The goroutine ends with the future, at the latest
// when raft has stopped.
func (g *group) await(ctx context.Context, request func() raft.Future) error {
	if !g.asked.begin() {
		return fmt.Errorf("consensus: %w", raft.ErrRaftShutdown)
	}
	done := make(chan error, 1)
	go func() {
		defer g.asked.end()
		done <- request().Error()
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("consensus: %w", err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// streamLayer lets raft speak over the endpoint. Addresses are server ids.
type streamLayer struct {
	endpoint transport.Endpoint
	resolve  func(serverID string) (string, bool)
	self     string
	life     context.Context // ends with cut
	end      context.CancelFunc
}

func newStreamLayer(cfg groupConfig) *streamLayer {
	s := &streamLayer{endpoint: cfg.endpoint, resolve: cfg.resolve, self: cfg.serverID}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// cut ends all streams and dials, for good.
func (s *streamLayer) cut() {
	s.end()
	s.endpoint.CutRaft()
}

// Dial implements raft.StreamLayer.
func (s *streamLayer) Dial(server raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id := string(server)
	addr, ok := s.resolve(id)
	if !ok {
		return nil, fmt.Errorf("%w: no address known for server %s", errUnreached, id)
	}
	ctx, cancel := context.WithTimeout(s.life, timeout)
	defer cancel()
	conn, err := s.endpoint.Dial(ctx, transport.KindRaft, addr, id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreached, err)
	}
	return conn, nil
}

// Accept implements raft.StreamLayer.
func (s *streamLayer) Accept() (net.Conn, error) { return s.endpoint.Accept(transport.KindRaft) }

// Close implements raft.StreamLayer; the endpoint belongs to the node.
func (s *streamLayer) Close() error { return nil }

// Addr implements raft.StreamLayer.
func (s *streamLayer) Addr() net.Addr { return serverAddr(s.self) }

type serverAddr string

func (a serverAddr) Network() string { return "quorumlock" }
func (a serverAddr) String() string  { return string(a) }
