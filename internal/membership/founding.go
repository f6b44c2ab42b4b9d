package membership

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	tick         = 100 * time.Millisecond // between two looks at the view
	askTimeout   = 2 * time.Second        // of one call to one peer
	joinTimeout  = 5 * time.Second        // of one attempt to join
	queryEvery   = 500 * time.Millisecond // between two questions to the proposer promised to
	joinEvery    = 500 * time.Millisecond // between two attempts to join
	abandonEvery = 500 * time.Millisecond // between two attempts to clear a promise
)

// ErrHasState is returned by Reset for an instance that belongs to a cluster.
var ErrHasState = errors.New("instance belongs to a cluster")

// Founding is one instance's part in founding a cluster, or in joining the one that exists. Run drives it; Handle answers the
// peers, also before and after Run.
type Founding struct {
	cfg Config
	env Env
	log hclog.Logger

	// turn is held by whoever reads or changes the machine and over each durable step, so that an answer never contradicts what is
	// on disk. It is a channel and not a mutex because a caller whose ctx ends must get away from a disk that hangs.
	turn   chan struct{}
	m      *machine
	loaded bool // the machine knows what was promised before this start

	wake   chan struct{} // one slot: the machine has changed, Run should look again
	status atomic.Pointer[string]
}

// New prepares founding. Nothing is read or written before Run or Handle.
func New(cfg Config, env Env) *Founding {
	cfg = cfg.normalize()
	if env.Logger == nil {
		env.Logger = hclog.NewNullLogger()
	}
	f := &Founding{
		cfg:  cfg,
		env:  env,
		log:  env.Logger.Named("founding"),
		turn: make(chan struct{}, 1),
		m:    &machine{cfg: cfg},
		wake: make(chan struct{}, 1),
	}
	starting := "starting"
	f.status.Store(&starting)
	return f
}

// Status says in one line what founding waits for.
func (f *Founding) Status() string { return *f.status.Load() }

// say has the log tell, too: whoever looks at a service that does not start looks there first.
func (f *Founding) say(s string) {
	if old := f.status.Swap(&s); *old != s {
		f.log.Info(s)
	}
}

// Run founds or joins a cluster and returns nil once this instance belongs to one. It returns the cause of ctx when that ends, and
// an error when a promise can not be stored or the bootstrap fails: then the store is not to be trusted and the node has failed.
// It starts no goroutine that outlives it. One call only.
func (f *Founding) Run(ctx context.Context) error {
	for {
		act, err := f.advance(ctx)
		if err != nil {
			return err
		}
		if act.kind == actSettle {
			f.say("member of a cluster")
			return nil
		}
		pause, err := f.perform(ctx, act)
		if err != nil {
			return err
		}
		if err := f.pause(ctx, pause); err != nil {
			return err
		}
	}
}

// pause waits until the time is over or the machine has changed.
func (f *Founding) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
	case <-f.wake:
	}
	return nil
}

// lock takes the turn, having loaded the promise of the former process first: an instance that does not remember yet what it
// promised must not answer.
func (f *Founding) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if f.loaded {
		return nil
	}
	if err := f.load(); err != nil {
		f.unlock()
		return err
	}
	f.loaded = true
	return nil
}

func (f *Founding) unlock() { <-f.turn }

func (f *Founding) load() error {
	p, ok, err := f.env.Load()
	if err != nil {
		return fmt.Errorf("load promise: %w", err)
	}
	if !ok {
		return nil
	}
	if p.Proposer.ID == f.cfg.Self {
		// The process died between its proposal and the bootstrap, or has state by now. The proposal goes on under the address of
		// today; nothing is lost by storing that only with the next save, since the address is no part of what was promised.
		p.Proposer.Addr, p.Founders[0].Addr, p.Boot = f.cfg.Addr, f.cfg.Addr, f.cfg.Boot
	}
	f.m.hold(p, time.Now())
	if !f.env.HasState() {
		f.env.Adopt(p.ID)
	}
	f.log.Info("promise of the former process loaded", "cluster_id", p.ID, "proposer", p.Proposer.ID)
	return nil
}

func (f *Founding) facts() facts {
	return facts{now: time.Now(), wall: f.env.Clock.Now().Wall, members: f.env.Members(), hasState: f.env.HasState()}
}

// advance decides on the next action and does its durable part under the turn.
func (f *Founding) advance(ctx context.Context) (action, error) {
	if err := f.lock(ctx); err != nil {
		return action{}, err
	}
	defer f.unlock()
	now := f.facts()
	act := f.m.next(now)
	if act.reason != "" {
		f.say(act.reason)
	}
	var err error
	switch act.kind {
	case actSettle:
		f.m.settle(f.m.ownCluster(now))
	case actPropose:
		act, err = f.propose(act)
	case actBootstrap:
		act, err = f.bootstrap(act)
	case actAbandon:
		act = f.abandon(act)
	case actDrop:
		f.drop(act.reason)
	}
	return act, err
}

// propose makes the promise to itself durable before any peer hears of it: so a proposal that its proposer does not know was
// abandoned.
func (f *Founding) propose(act action) (action, error) {
	act.promise.ID = f.env.NewID()
	if err := f.env.Save(act.promise); err != nil {
		return act, fmt.Errorf("save proposal: %w", err)
	}
	f.m.hold(act.promise, time.Now())
	f.env.Adopt(act.promise.ID)
	f.log.Info("proposing a cluster", "cluster_id", act.promise.ID, "founders", act.promise.names())
	return act, nil
}

func (f *Founding) bootstrap(act action) (action, error) {
	if err := f.env.Bootstrap(act.promise.ID, act.promise.voters()); err != nil {
		return act, fmt.Errorf("bootstrap cluster %s: %w", act.promise.ID, err)
	}
	f.log.Info("cluster founded", "cluster_id", act.promise.ID, "voters", len(act.promise.voters()))
	f.m.settle(act.promise.ID)
	act.kind = actSettle
	return act, nil
}

// abandon clears the proposal first and tells afterwards: what was told must never become untrue by a crash. While it can not be
// cleared the proposal stays, and is abandoned again.
func (f *Founding) abandon(act action) action {
	if f.m.round != nil {
		f.m.round.refusal = act.reason // decided for good, even if the reason goes away while the store fails
	}
	if !f.clear() {
		act.targets = nil
		return act
	}
	f.m.abandoned(time.Now(), act.reason, f.env.Rand.Float64())
	f.log.Info("proposal abandoned", "cluster_id", act.promise.ID, "reason", act.reason)
	return act
}

// drop frees the instance from a promise to another that is proven useless.
func (f *Founding) drop(reason string) {
	id := f.m.promise.ID
	if f.clear() {
		f.log.Info("promise dropped", "cluster_id", id, "reason", reason)
	}
}

// clear ends the promise held. The streams of its cluster are shut first and only then is state looked for, so that none can arrive
// behind the look; an instance with state stays what it is.
func (f *Founding) clear() bool {
	id := f.m.promise.ID
	f.env.Adopt("")
	if f.env.HasState() {
		f.env.Adopt(id)
		return false
	}
	if err := f.env.Clear(); err != nil {
		f.env.Adopt(id)
		f.log.Warn("promise not cleared", "cluster_id", id, "error", err)
		return false
	}
	f.m.release()
	return true
}

// Handle answers one founding message of a peer; from is the server id that its stream's handshake told. ctx bounds the wait for
// a durable step in progress. A promise is durable before the answer leaves. An error means that there is no answer.
func (f *Founding) Handle(ctx context.Context, from string, msg []byte) ([]byte, error) {
	q, err := decodeRequest(msg)
	if err != nil {
		return nil, err
	}
	if err := f.lock(ctx); err != nil {
		return nil, fmt.Errorf("answer founding message: %w", err)
	}
	defer f.unlock()
	a, save, drop := f.m.respond(f.facts(), from, q)
	if drop {
		f.drop("abandoned by its proposer")
	}
	if save != nil {
		if err := f.promise(*save); err != nil {
			return nil, err
		}
	}
	if drop || save != nil || a.verdict == verdictLater {
		f.nudge()
	}
	return a.encode(), nil
}

func (f *Founding) promise(p Promise) error {
	if err := f.env.Save(p); err != nil {
		return fmt.Errorf("save promise: %w", err)
	}
	f.m.hold(p, time.Now())
	f.env.Adopt(p.ID)
	f.log.Info("promised", "cluster_id", p.ID, "proposer", p.Proposer.ID)
	return nil
}

func (f *Founding) nudge() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Reset drops a promise without proof, for the operator of a deployment whose proposer is gone for good together with its name or
// address. Only call it when the proposer that Status names can not come back, and nothing has been locked: two clusters are possible
// otherwise. ErrHasState refuses it where a cluster exists.
func (f *Founding) Reset(ctx context.Context) error {
	if err := f.lock(ctx); err != nil {
		return fmt.Errorf("reset founding: %w", err)
	}
	defer f.unlock()
	if f.m.settled || f.env.HasState() {
		return fmt.Errorf("reset founding: %w", ErrHasState)
	}
	if f.m.promise == nil {
		return nil
	}
	if !f.clear() {
		return errors.New("reset founding: promise not cleared")
	}
	f.nudge()
	return nil
}

// perform does the part of an action that talks to peers, without the turn, and says how long to wait before the next look.
func (f *Founding) perform(ctx context.Context, act action) (time.Duration, error) {
	switch act.kind {
	case actPropose, actDrop:
		return 0, nil
	case actAsk:
		return f.ask(ctx, act)
	case actAbandon:
		return f.tell(ctx, act), nil
	case actQuery:
		return queryEvery, f.query(ctx, act)
	case actJoin:
		return f.join(ctx, act.member)
	default:
		return tick, nil
	}
}

// ask sends the proposal to all that have not promised, at once, and waits for all of them: a silent one delays the next look by
// askTimeout and nothing else, while no call is left behind.
func (f *Founding) ask(ctx context.Context, act action) (time.Duration, error) {
	msg := f.m.proposal(act.promise, f.env.Clock.Now().Wall).encode()
	answers, errs := f.callAll(ctx, act.targets, msg)
	if err := f.lock(ctx); err != nil {
		return 0, err
	}
	defer f.unlock()
	for i, s := range act.targets {
		f.m.asked(act.promise.ID, s, answers[i], errs[i], time.Now())
	}
	if f.m.round != nil && (f.m.round.refusal != "" || len(f.m.round.granted) == len(f.m.promise.Founders)) {
		return 0, nil
	}
	return tick, nil
}

// tell spreads an abandonment. A peer that does not hear of it will ask.
func (f *Founding) tell(ctx context.Context, act action) time.Duration {
	msg := request{kind: kindAbandon, promise: Promise{ID: act.promise.ID}}.encode()
	f.callAll(ctx, act.targets, msg)
	if act.targets == nil {
		return abandonEvery
	}
	return tick
}

// query asks whoever is at the proposer's address, whatever its id: a successor's answer is what may free us.
func (f *Founding) query(ctx context.Context, act action) error {
	msg := request{kind: kindQuery, promise: Promise{ID: act.promise.ID}}.encode()
	a, err := f.call(ctx, act.targets[0].Addr, "", msg)
	if err := f.lock(ctx); err != nil {
		return err
	}
	defer f.unlock()
	f.m.queried(act.promise.ID, a, err, time.Now())
	if f.m.proof != "" {
		f.nudge()
	}
	return nil
}

func (f *Founding) callAll(ctx context.Context, targets []Server, msg []byte) ([]answer, []error) {
	answers, errs := make([]answer, len(targets)), make([]error, len(targets))
	addrs := make(map[string]string)
	for _, g := range f.env.Members() {
		addrs[g.ServerID] = g.Addr
	}
	var wg sync.WaitGroup
	for i, s := range targets {
		if addr, ok := addrs[s.ID]; ok {
			s.Addr = addr
		}
		wg.Go(func() { answers[i], errs[i] = f.call(ctx, s.Addr, s.ID, msg) })
	}
	wg.Wait()
	return answers, errs
}

func (f *Founding) call(ctx context.Context, addr, target string, msg []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	b, err := f.env.Ask(ctx, addr, target, msg)
	if err != nil {
		return answer{}, err
	}
	return decodeAnswer(b)
}
