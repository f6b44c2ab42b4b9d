package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/commit"
	"github.com/quorumlock/quorumlock/internal/expiry"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
)

const (
	expiryPace     = 100 * time.Millisecond
	expiryBatch    = 256 // sessions proposed for expiry in one pace
	membershipPace = 500 * time.Millisecond
	graceVoter     = 15 * time.Second // DESIGN.md section 6
	caughtUpLag    = 256              // entries behind the leader at which a member counts as caught up
)

// leadership is what runs only while this node leads, in one term: group commit, expiry, membership. It starts and stops as one. Commands
// made here are applied through this node's own raft only and carry the term: if leadership is lost and won again meanwhile, they
// are dropped when applied.
type leadership struct {
	node     *Node
	term     uint64
	promoted clock.Reading
	elected  time.Time // the same moment, for contactAge
	batch    *commit.Batcher
	progress *progress

	life context.Context // ends with the leadership
	stop context.CancelFunc
	done sync.WaitGroup
	// change has one slot: who holds it may change the membership, so that each change is judged on the configuration that the former one left. Not a
	// mutex, since it is held while raft writes: whoever waits for it is bounded by ctx.
	change chan struct{}
}

// runLeadership follows raft: it starts a leadership when this node is elected and stops it when it is deposed. Raft's notice may come late, or for two changes at once;
// so each look compares the term.
func (n *Node) runLeadership() {
	var cur *leadership
	for {
		changed := n.leaders.get()
		leading, term := n.group.leading(), n.group.term()
		if cur != nil && (!leading || term != cur.term) {
			n.lead.CompareAndSwap(cur, nil)
			cur.end()
			cur = nil
		}
		if leading && cur == nil && n.life.Err() == nil && n.failed() == nil {
			cur = n.startLeadership(term)
			n.lead.Store(cur)
			n.leaderMayHaveChanged() // whoever waited for this leadership finds it now
		}
		select {
		case <-changed:
		case <-time.After(membershipPace): // a notice that was lost
		case <-n.life.Done():
			if cur != nil {
				n.lead.Store(nil)
				cur.end()
			}
			return
		}
	}
}

func (n *Node) startLeadership(term uint64) *leadership {
	l := &leadership{node: n, term: term, promoted: n.clock.Now(), elected: time.Now(), progress: newProgress(n.binary.Highest()), change: make(chan struct{}, 1)}
	l.batch = commit.New(commit.Env{Propose: n.group.propose, Urgent: n.fsm.urgent}, commit.Options{})
	ctx, stop := context.WithCancel(n.life)
	l.life, l.stop = ctx, stop
	n.log.Info("leading", "term", term)
	l.done.Add(1)
	go func() {
		defer l.done.Done()
		l.run(ctx)
	}()
	return l
}

// end stops everything; entries in flight get their outcome from raft.
func (l *leadership) end() {
	l.stop()
	l.batch.Stop(errNotLeader)
	l.done.Wait()
	l.node.log.Info("no longer leading", "term", l.term)
}

// do is the router's way to the leader on this node.
func (n *Node) localDo(ctx context.Context, c *locktable.Command) (locktable.Result, error) {
	l := n.lead.Load()
	if l == nil && n.group.leading() {
		l = n.awaitLeadership(ctx)
	}
	if l == nil {
		return locktable.Result{}, router.ErrNotLeader
	}
	if err := n.mayProposeHere(ctx, c); err != nil {
		return locktable.Result{}, err
	}
	begun := time.Now()
	res, err := l.batch.Do(ctx, c)
	n.trips.took(c.Op, begun, err)
	return res, leaderError(err)
}

// leaderError tells the router of an error of the batcher that says that this node does not lead.
func leaderError(err error) error {
	if err == nil {
		return nil
	}
	if known := (*commit.Error)(nil); errors.As(err, &known) && known.Outcome == commit.NotDone && errors.Is(err, errNotLeader) {
		return router.ErrNotLeader
	}
	return err
}

// awaitLeadership waits for what this node does as a leader to start: raft has elected it, and a caller turned away now would look for the leader elsewhere, where
// it may ask a dead one.
func (n *Node) awaitLeadership(ctx context.Context) *leadership {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	for ctx.Err() == nil && n.group.leading() {
		changed := n.leaders.get()
		if l := n.lead.Load(); l != nil {
			return l
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

const startBound = 100 * time.Millisecond

func (l *leadership) run(ctx context.Context) {
	if !l.found(ctx) {
		return
	}
	l.done.Add(2)
	go func() { defer l.done.Done(); l.runExpiry(ctx) }()
	go func() { defer l.done.Done(); l.runMembership(ctx) }()
}

// found replicates the cluster id, once in the life of a cluster: the first leader does. The counter starts at the wall clock, so that tokens rise even
// over the total loss of a cluster that kept nothing.
func (l *leadership) found(ctx context.Context) bool {
	for ctx.Err() == nil {
		err := l.node.group.barrier(ctx)
		if err == nil && l.node.fsm.header().ClusterID != "" {
			return true
		}
		if id := l.node.raftClusterID(); err == nil && id != "" {
			cmd := &locktable.Command{
				Op: locktable.OpFound, ClusterID: id, TTL: MaxSessionTTL,
				Rev: locktable.Rev(l.node.clock.Now().Wall.UnixMicro()),
			}
			var res locktable.Result
			if res, err = l.batch.Do(ctx, cmd); err == nil && res.Code != locktable.CodeOK && res.Code != locktable.CodeExists {
				err = fmt.Errorf("founding refused: code %d %s", res.Code, res.Detail)
			}
			if err == nil {
				return true
			}
		}
		l.node.log.Debug("not ready to lead", "error", err)
		pause(ctx, expiryPace)
	}
	return false
}

// runExpiry ends sessions and drains whose time is over by this member's own stamps, under the gate's guards.
func (l *leadership) runExpiry(ctx context.Context) {
	gate := expiry.NewGate(l.promoted)
	var busy atomic.Bool // the gate must be asked on time, however long a write takes
	ticker := time.NewTicker(expiryPace)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := l.node.clock.Now()
		if !gate.Open(now) {
			continue
		}
		if busy.Load() {
			continue // the former round is still being written
		}
		busy.Store(true)
		l.done.Add(1)
		go func() {
			defer l.done.Done()
			defer busy.Store(false)
			l.expireDue(ctx, now)
		}()
	}
}

// expireDue proposes what is due at now and waits for it.
func (l *leadership) expireDue(ctx context.Context, now clock.Reading) {
	expire, drained := l.node.fsm.due(now, expiryBatch)
	var pending sync.WaitGroup
	for _, e := range expire {
		if l.batch.RenewalPending(e.Session) {
			continue
		}
		l.propose(ctx, &pending, &locktable.Command{Op: locktable.OpExpire, Session: e.Session, RenewIndex: e.RenewIndex, Term: l.term})
	}
	for _, d := range drained {
		l.propose(ctx, &pending, &locktable.Command{Op: locktable.OpDrained, Rev: d.Grant, RenewIndex: d.Index, Term: l.term})
	}
	pending.Wait()
}

// propose sends an internal command; what it decided on is checked again when it is applied, so its result does not matter here.
func (l *leadership) propose(ctx context.Context, pending *sync.WaitGroup, c *locktable.Command) {
	pending.Add(1)
	go func() {
		defer pending.Done()
		if _, err := l.batch.Do(ctx, c); err != nil {
			l.node.log.Debug("internal command not done", "op", c.Op, "error", err)
		}
	}()
}

// runMembership probes the members and makes one change at a time.
func (l *leadership) runMembership(ctx context.Context) {
	ticker := time.NewTicker(membershipPace)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		l.probeAll(ctx)
		if err := l.stepAside(ctx); err != nil && ctx.Err() == nil {
			l.node.log.Warn("leading on", "error", err)
		}
		if _, err := l.reconcile(ctx); err != nil && ctx.Err() == nil {
			l.node.log.Warn("membership not changed", "error", err)
		}
		if err := l.raiseLevel(ctx); err != nil && ctx.Err() == nil {
			l.node.log.Warn("feature level not raised", "error", err)
		}
	}
}

func (l *leadership) probeAll(ctx context.Context) {
	last := l.node.group.lastIndex()
	servers := l.node.group.servers()
	l.progress.keep(servers)
	var round sync.WaitGroup
	for _, s := range servers {
		if s.ID == l.node.id {
			continue
		}
		round.Add(1)
		go func() {
			defer round.Done()
			begun := time.Now()
			status, err := l.node.probe(ctx, s.ID)
			l.progress.note(s.ID, status, err, last, time.Now())
			if err == nil && status.LeaderID == l.node.id && status.Term == l.term {
				l.progress.follows(s.ID, begun)
			}
		}()
	}
	round.Wait()
}

func (l *leadership) view() membership.View {
	servers, index := l.node.group.configuration()
	config := l.node.named(servers)
	return membership.View{
		Self: l.node.id, Config: config, Progress: l.progress.of(l.node.id, l.node.cfg.Zone, config, index, l.node.group.term()), Wanted: l.node.cfg.Voters, Grace: graceVoter,
		Drained: l.node.fsm.aside(),
	}
}

func (l *leadership) beginChange(ctx context.Context) error {
	select {
	case l.change <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *leadership) endChange() { <-l.change }

// reconcile makes the one change that is due, if any.
func (l *leadership) reconcile(ctx context.Context) (membership.Change, error) {
	if err := l.beginChange(ctx); err != nil {
		return membership.Change{}, err
	}
	defer l.endChange()
	c := membership.Next(l.view())
	if c.Kind == membership.None {
		return c, nil
	}
	l.node.log.Info("changing membership", "change", c.Kind, "server", c.ID, "reason", c.Reason)
	return c, l.apply(ctx, c)
}

func (l *leadership) apply(ctx context.Context, c membership.Change) error {
	ctx, cancel := context.WithTimeout(ctx, confTimeout)
	defer cancel()
	switch c.Kind {
	case membership.Promote:
		return l.node.group.addVoter(ctx, c.ID)
	case membership.Demote:
		return l.node.group.demote(ctx, c.ID)
	case membership.Remove:
		return l.node.group.remove(ctx, c.ID)
	}
	return nil
}

// refused is a membership change that was decided against: nothing was done.
type refused string

func (r refused) Error() string { return string(r) }

// admit takes a server in whose binary knows the feature level, without a vote; reconcile gives it one when it has caught up and one is wanted. The error is errEnough if there are
// replicas enough.
func (l *leadership) admit(ctx context.Context, req *wire.JoinRequest) error {
	if other, found := l.node.namesake(ctx, req); found {
		return refused(fmt.Sprintf("the name %s belongs to %s at %s, which is alive", req.Name, other.ServerID, other.Addr))
	}
	if err := l.beginChange(ctx); err != nil {
		return err
	}
	defer l.endChange()
	if err := l.refuseLevel(ctx, req.Level); err != nil {
		return err
	}
	s := membership.Server{ID: req.ServerID, Name: req.Name, Addr: req.Addr}
	switch d := membership.Admit(l.view(), s, req.Zone); d.Kind {
	case membership.Known, membership.AddNonvoter:
		if req.Client {
			return errEnough
		}
		if d.Kind == membership.Known {
			return nil
		}
	case membership.Enough:
		return errEnough
	default:
		return refused(d.Reason)
	}
	l.node.log.Info("admitting server", "server", s.ID, "name", s.Name, "address", s.Addr)
	l.progress.forget(s.ID)
	ctx, cancel := context.WithTimeout(ctx, confTimeout)
	defer cancel()
	return l.node.group.addNonvoter(ctx, s.ID)
}

// dismiss takes a server out that asked for it, when membership's rules allow: never at the price of the quorum that is alive. ctx bounds the wait
// for that; a wish that was not fulfilled is forgotten, since who made it goes on as a member.
func (l *leadership) dismiss(ctx context.Context, id string) error {
	if id == l.node.id {
		return errors.New("the leader hands over before it leaves")
	}
	l.progress.leave(id, true)
	defer l.progress.leave(id, false)
	for {
		if gone, committed := l.gone(id); gone {
			if committed {
				l.endDrain(ctx, id, "it left the group")
				return nil
			}
			// The change is another goroutine's, and on its way. A voter that left by one that is never committed would be missed for ever by those who have not heard of it.
			if pause(ctx, dismissPace); ctx.Err() != nil {
				return fmt.Errorf("removal not committed yet: %w", ctx.Err())
			}
			if l.node.group.leading() {
				continue
			}
			return errors.New("no longer leading")
		}
		c, err := l.reconcile(ctx)
		if err != nil {
			return err
		}
		if c.Kind != membership.None {
			continue
		}
		if pause(ctx, dismissPace); ctx.Err() != nil {
			return refused("it can not be taken out now: " + c.Reason)
		}
	}
}

const dismissPace = 50 * time.Millisecond

// gone tells whether a server is not in the latest configuration, which is in force before it is committed, and whether that is.
func (l *leadership) gone(id string) (gone, committed bool) {
	servers, index := l.node.group.configuration()
	gone = !contains(servers, id)
	return gone, l.node.fsm.electorate().since >= index
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
