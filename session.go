package quorumlock

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/router"
)

// SessionID names a session. It is never reused in a cluster.
type SessionID int64

// Owner is what locks are taken for: a *Node, which keeps a session of its own and opens another after a loss, or a
// *Session.
type Owner interface {
	// current is the live session to claim with; ctx bounds opening one.
	current(ctx context.Context) (*Session, error)
}

// Session is a promise to stay in touch: while the cluster hears of it within its TTL, it keeps what the session holds;
// when the node's own deadline (0.8 TTL after the last command the cluster answered was begun) passes, everything the
// session holds is lost together, and the session with it. A lost session never comes back.
//
// All methods are safe for concurrent use.
type Session struct {
	node *Node
	id   locktable.SessionID
	ttl  time.Duration

	// life ends when the session is lost or closed; its cause is the *LostError. It bounds what runs for the session in the background.
	life context.Context
	end  context.CancelCauseFunc
	// taking ends when no claim is taken any more: with life, or as soon as Close begins.
	taking    context.Context
	endTaking context.CancelFunc

	// mu guards what follows. It is never held while waiting for anything.
	mu     sync.Mutex
	lease  lease
	seq    uint64              // last sequence used
	floor  uint64              // lowest sequence without an answer
	open   map[uint64]struct{} // sequences without an answer
	line   list.List           // of chan uint64: requests that wait for their sequence
	since  locktable.Rev       // news about the session up to here has been taken in
	claims map[uint64]*claim   // waiting and held, by sequence
	// closing is set when Close begins: nothing is held any more, no claim is taken, and no renewal sent.
	closing *LostError
	// warned tells that a hold may be in jeopardy, so that in order no answer looks at every hold.
	warned bool
	// work counts callbacks of Do that still run; idle is closed when closing is set and the last one has returned. unlocks counts unlocks without an
	// answer; unlocked is closed when closing is set and none of either is left.
	work     int
	idle     chan struct{}
	unlocks  int
	unlocked chan struct{}
	// parted counts what has ended here and may yet be in the cluster as the session's: holds transferred away or past MaxHold, and claims being withdrawn.
	parted int

	noQuorum bool // the newest renewal to end found no leader

	extended chan struct{} // closed when an answer extends the lease; nil while nobody waits for that

	place     int           // in the pacer's list, from 1 on; -1 after it was taken out. The pacer's own
	offset    time.Duration // calm.offset as the pacer has it
	renewing  bool          // one renewal at a time; the router hedges it
	renewed   clock.Reading // when the last renewal was begun
	renewSoon bool          // do not wait for the interval: a leader changed, or news is waiting
}

// NewSession opens a session of its own with the given TTL in whole milliseconds; 0 is Config.SessionTTL. ctx bounds
// the opening only.
//
// From MinSessionTTL to MaxSessionTTL a TTL is always accepted. A shorter one, down to ShortestSessionTTL, is accepted
// only if the session would live through a change of leader: that depends on Config.Timing, on the number of voters,
// and on the round trips that this node has measured, and more are made to measure if need be. With round trips of up
// to 2 ms, as within one site, the least is
//
//	3 or 5 voters, TimingDefault               2.85 s
//	3 or 5 voters, TimingFast                  1.85 s
//	3 or 5 voters, Timing of 150, 150, 75 ms   0.95 s
//	1 voter                                    0.5 s
//
// Otherwise the error is a *FieldError that begins with the least TTL that would do, and tells the numbers; no other
// TTL is ever taken in its place. The judgement holds for the cluster as it is now: a session that later finds it
// slower is lost, not lengthened.
func (n *Node) NewSession(ctx context.Context, ttl time.Duration) (*Session, error) {
	if ttl == 0 {
		ttl = n.cfg.SessionTTL
	}
	if err := checkTTL(ttl); err != nil {
		return nil, err
	}
	if ttl < MinSessionTTL {
		if err := n.affords(ctx, ttl); err != nil {
			return nil, err
		}
	}
	return n.openSession(ctx, ttl)
}

func (n *Node) openSession(ctx context.Context, ttl time.Duration) (*Session, error) {
	const op = "open session"
	if err := n.usable(ctx, op); err != nil {
		return nil, err
	}
	for {
		s, err := n.tryOpen(ctx, op, ttl)
		if err != nil || s != nil {
			return s, err
		}
	}
}

// tryOpen is one round of opening. A lease counts from before its session was asked for, so an answer that took most of it is worth nothing: a
// round is bounded, and the next one counts anew. A session that such a round left behind is empty and expires.
func (n *Node) tryOpen(ctx context.Context, op string, ttl time.Duration) (*Session, error) {
	c0, turns := n.clock.Now(), n.sessions.turned()
	round, cancel := context.WithTimeout(ctx, 2*renewalInterval(ttl))
	defer cancel()
	cmd := &locktable.Command{Op: locktable.OpOpen, Node: n.id, NodeName: n.cfg.Name, TTL: ttl, Incarnation: n.store.Incarnation()}
	res, err := n.ask(round, op, "", cmd)
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if res.Code != locktable.CodeOK {
		return nil, refusal(op, "", &res)
	}
	s := &Session{
		node: n, id: res.Session, ttl: ttl, lease: newLease(ttl, c0), floor: 1, since: res.Rev, renewed: c0,
		open: make(map[uint64]struct{}), claims: make(map[uint64]*claim), idle: make(chan struct{}), unlocked: make(chan struct{}),
	}
	s.life, s.end = context.WithCancelCause(context.WithoutCancel(n.life))
	s.taking, s.endTaking = context.WithCancel(s.life)
	if !s.alive() {
		return nil, nil
	}
	switch err := n.sessions.add(s, turns); err {
	case nil:
		return s, nil
	case errTurned: // the session is empty, and expires
		s.lose(&LostError{Cause: CauseDiverged})
		return nil, nil
	default:
		s.lose(&LostError{Cause: CauseNodeClosed})
		return nil, &WaitError{Op: op, Err: err}
	}
}

// ID names the session in inspections, events and logs.
func (s *Session) ID() SessionID { return SessionID(s.id) }

// TTL is what the cluster agreed to.
func (s *Session) TTL() time.Duration { return s.ttl }

// Done is closed when the session is lost or has been closed.
func (s *Session) Done() <-chan struct{} { return s.life.Done() }

// Err is nil while the session is alive, ErrUnsure while the machine's clocks leave it in doubt, and a *LostError
// afterwards. It reads the clocks itself.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errLocked(s.node.clock.Now())
}

func (s *Session) errLocked(now clock.Reading) error {
	if s.closing != nil {
		return s.closing
	}
	switch s.judgeLocked(now) {
	case leaseLost:
		return context.Cause(s.life)
	case leaseUnsure:
		return ErrUnsure
	}
	return nil
}

// current leaves it to begin to look whether the session is alive.
func (s *Session) current(context.Context) (*Session, error) { return s, nil }

// alive reports whether a session is worth claiming with.
func (s *Session) alive() bool {
	err := s.Err()
	return err == nil || err == ErrUnsure
}

// judgeLocked looks at the lease and makes a loss that it finds final.
func (s *Session) judgeLocked(now clock.Reading) leaseState {
	if s.life.Err() != nil {
		return leaseLost
	}
	state := s.lease.state(now)
	if state == leaseLost {
		s.loseLocked(s.expiryLocked())
	}
	return state
}

// expiryLocked is why the lease ended, as far as this node can tell.
func (s *Session) expiryLocked() *LostError {
	switch other := s.node.foreignInSight(); {
	case !s.noQuorum:
		return &LostError{Cause: CauseExpired}
	case other != "":
		return &LostError{Cause: CauseClusterChanged, Reason: "met cluster " + other}
	}
	return &LostError{Cause: CauseNoQuorum}
}

// lose ends the session for good. The first cause stands.
func (s *Session) lose(cause *LostError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loseLocked(cause)
}

func (s *Session) loseLocked(cause *LostError) {
	if s.life.Err() != nil {
		return
	}
	s.end(cause)
	for _, c := range s.claims {
		c.loseLocked(cause)
	}
	clear(s.claims)
	clear(s.open)
	// A callback that still works keeps its TTL: a successor must not start beside it any earlier.
	s.node.sessions.remove(s, cause.Cause.byDeadline() && s.work == 0)
}

// do sends a command of the session. c0 is a reading of before it was queued, the younger the better, and every retry inside keeps it; only an answer that says so
// extends the lease. ctx bounds the wait for the answer.
func (s *Session) do(ctx context.Context, c0 clock.Reading, op, name string, cmd *locktable.Command) (locktable.Result, error) {
	cmd.Session = s.id
	res, err := s.node.do(ctx, op, name, cmd, router.Options{})
	if err != nil {
		return res, err
	}
	s.answered(cmd.Op, &res, c0)
	return res, nil
}

// answered takes in what an answer says of the session: its end, its news, and then the extension. The order matters: a hold that is being
// drained must be frozen before the lease it shares grows.
func (s *Session) answered(op locktable.Op, res *locktable.Result, c0 clock.Reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answeredLocked(op, res, c0)
}

func (s *Session) answeredLocked(op locktable.Op, res *locktable.Result, c0 clock.Reading) {
	now := s.node.clock.Now()
	if s.judgeLocked(now) == leaseLost {
		return
	}
	if res.Code == locktable.CodeNoSession {
		if s.closing == nil { // else Close tells how it ended
			s.loseLocked(sessionGone("", res))
		}
		return
	}
	s.noQuorum = false
	for _, g := range res.Grants {
		s.grantedLocked(g.Seq, Token(g.Token), now)
	}
	for _, l := range res.Lost {
		s.lostLocked(l)
	}
	if op == locktable.OpRenew {
		s.since = max(s.since, res.Rev)
	}
	if !res.Renewed {
		// The command was refused as it stood; a renewal will tell how the session is.
		s.renewSoonLocked()
		return
	}
	if s.closing == nil {
		s.extendLocked(c0)
	}
}

func (s *Session) extendLocked(c0 clock.Reading) {
	s.lease.extend(c0)
	if wallOffset(s.lease.newest) < s.offset-offsetSlack {
		s.node.sessions.notice(s) // or the pacer would miss a jump from there
	}
	if s.extended != nil {
		close(s.extended)
		s.extended = nil
	}
	s.calmLocked()
}

// calmLocked gives every hold that was in jeopardy a fresh channel if the lease recovered.
func (s *Session) calmLocked() {
	if !s.warned || s.lease.failing(s.node.clock.Now()) {
		return
	}
	s.warned = false
	for _, c := range s.claims {
		if c.hold != nil {
			c.hold.calmLocked()
		}
	}
}

// beginWork registers a callback that is about to run under a hold; false if that is over already. A release that is under way waits for nobody who begins after it.
func (s *Session) beginWork(h *Hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := h.errLocked(s.node.clock.Now()); err != nil && !errors.Is(err, ErrUnsure) {
		return false
	}
	h.over = make(chan struct{})
	s.work++
	return true
}

// endWork takes in that the callback under h has returned, and that its unlock follows, which ends with endUnlock.
func (s *Session) endWork(h *Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.coverLocked(s.node.clock.Now())
	close(h.over)
	s.work--
	s.unlocks++
	if s.work > 0 {
		return
	}
	if s.closing != nil {
		close(s.idle)
	}
	if s.life.Err() != nil {
		// The session was lost, or its closing given up, under the callback's hands: now nobody works under it any more.
		s.node.endLater(s, false)
	}
}

func (s *Session) endUnlock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlocks--
	s.quietLocked()
}

// quietLocked tells Close that neither callbacks nor unlocks are left; an unlock may still begin after that, and end.
func (s *Session) quietLocked() {
	if s.closing == nil || s.work > 0 || s.unlocks > 0 {
		return
	}
	select {
	case <-s.unlocked:
	default:
		close(s.unlocked)
	}
}

// Close releases everything the session holds and ends it. At once nothing is held any more: holds report a *LostError,
// contexts of callbacks end, waiting calls return. It then waits for callbacks of Do that still work, at most until the
// session's own deadline, since releasing under their hands would let a successor in beside them; if they outlast it,
// the TTL decides. Then it asks the cluster to end the session, for at most 2 s; the error tells if no answer came, and
// then too the TTL decides. Closing twice is fine.
//
// Do not call it from a callback of Do or Run whose session it is: it would wait for that callback, which waits for it.
// Return instead, or close elsewhere.
func (s *Session) Close() error { return s.close(CauseSessionClosed) }

// closeBound is how long Close asks for the release before it leaves it to the TTL.
const closeBound = 2 * time.Second

// closeEmptyBound is the same for a session with nothing to release, which the TTL may as well end.
const closeEmptyBound = 500 * time.Millisecond

func (s *Session) close(cause Cause) error {
	const op = "close session"
	now := s.node.clock.Now()
	s.mu.Lock()
	if s.closing != nil || s.judgeLocked(now) == leaseLost {
		s.mu.Unlock()
		<-s.life.Done()
		return nil
	}
	s.closing = &LostError{Cause: cause}
	s.endTaking()
	for _, c := range s.claims {
		c.closeLocked(s.closing)
	}
	if s.work == 0 {
		close(s.idle)
	}
	s.quietLocked()
	left, empty := s.lease.left(now), len(s.claims) == 0 && len(s.open) == 0 && s.parted == 0
	s.mu.Unlock()
	defer s.lose(s.closing)

	outlasted := &WaitError{Op: op, Waiting: "callbacks still work; the session ends by its TTL", Err: context.DeadlineExceeded}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-s.idle:
	case <-timer.C:
		return outlasted
	case <-s.life.Done(): // the pacer saw the deadline first
		return outlasted
	}
	bound := closeBound
	if empty {
		bound = closeEmptyBound
	}
	ctx, cancel := context.WithTimeout(s.life, min(bound, s.leftNow()))
	defer cancel()
	s.awaitUnlocks(ctx)
	_, err := s.node.do(ctx, op, "", &locktable.Command{Op: locktable.OpClose, Session: s.id, Now: true}, router.Options{})
	if empty {
		return nil // nothing hangs on the answer
	}
	if err != nil {
		s.node.endLater(s, true) // claims of calls that have failed must not wait for the TTL
	}
	return err
}

// awaitUnlocks gives unlocks that are on their way half of Close's time. In order that is a round trip; one that Close overtook could not tell any more
// whether its lock had been lost before. Without a quorum they last as long as the lease.
func (s *Session) awaitUnlocks(ctx context.Context) {
	timer := time.NewTimer(closeBound / 2)
	defer timer.Stop()
	select {
	case <-s.unlocked:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *Session) leftNow() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.lease.left(s.node.clock.Now()), 0)
}
