package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// call is a blocking call of the API. Each row of calls meets each of the endings in endings_test.go.
type call struct {
	name string
	// rival takes what the call asks for, for somebody on another node, so that the call waits; nil if the call waits for nobody's hold.
	rival func(o quorumlock.Owner, name string) (*quorumlock.Hold, error)
	// prepare does what must come before the call, and gives the call.
	prepare func(t *testing.T, a *actors) attempt

	detached bool // belongs to no session, so the end of one does not end it
	shared   bool // is of the node's own session, which nobody can close
	holds    bool // is about a hold of its own, which prepare takes, or about the hold of another's that prepare offers
	unbound  bool // takes no context
}

// attempt is one call. It returns what the call gave, nil if that is nothing, and its error.
type attempt func(ctx context.Context) (gave any, err error)

// actors are those around one call.
type actors struct {
	node  *quorumlock.Node    // of the call
	owner *quorumlock.Session // of the call, on that node
	giver *quorumlock.Session // somebody on another node
	lock  string
}

const rivalNote = "the rival"

func exclusiveRival(o quorumlock.Owner, name string) (*quorumlock.Hold, error) {
	return quorumlock.NewMutex(o, name, quorumlock.Note(rivalNote)).Lock(context.Background())
}

// permits is the limit of every semaphore here, all of which its rival takes.
const permits = 5

func greedyRival(o quorumlock.Owner, name string) (*quorumlock.Hold, error) {
	return quorumlock.NewSemaphore(o, name, permits, quorumlock.Note(rivalNote)).Acquire(context.Background(), permits)
}

// second is the other name of the sets of names here. The rival holds the first.
func second(name string) string { return name + "/second" }

func gaveHold(h *quorumlock.Hold, err error) (any, error) {
	if h == nil {
		return nil, err
	}
	return h, err
}

// gaveOK is for calls that give nothing but success.
func gaveOK(err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return true, nil
}

// worked tells whether the callback of a Do ran.
func worked(do func(work func()) error) (any, error) {
	ran := false
	err := do(func() { ran = true })
	if !ran {
		return nil, err
	}
	return ran, err
}

func lockCall(f func(m *quorumlock.Mutex, ctx context.Context) (*quorumlock.Hold, error)) func(*testing.T, *actors) attempt {
	return func(_ *testing.T, a *actors) attempt {
		return func(ctx context.Context) (any, error) { return gaveHold(f(quorumlock.NewMutex(a.owner, a.lock), ctx)) }
	}
}

func rwCall(f func(m *quorumlock.RWMutex, ctx context.Context) (*quorumlock.Hold, error)) func(*testing.T, *actors) attempt {
	return func(_ *testing.T, a *actors) attempt {
		return func(ctx context.Context) (any, error) {
			return gaveHold(f(quorumlock.NewRWMutex(a.owner, a.lock), ctx))
		}
	}
}

func multiCall(f func(m *quorumlock.MultiMutex, ctx context.Context) (*quorumlock.Hold, error)) func(*testing.T, *actors) attempt {
	return func(_ *testing.T, a *actors) attempt {
		m := quorumlock.NewMultiMutex(a.owner, a.lock, second(a.lock))
		return func(ctx context.Context) (any, error) { return gaveHold(f(m, ctx)) }
	}
}

type doing = func(ctx context.Context, fn func(context.Context, quorumlock.Token) error) error

func doCall(of func(a *actors) doing) func(*testing.T, *actors) attempt {
	return func(_ *testing.T, a *actors) attempt {
		do := of(a)
		return func(ctx context.Context) (any, error) {
			return worked(func(work func()) error {
				return do(ctx, func(context.Context, quorumlock.Token) error { work(); return nil })
			})
		}
	}
}

// mustLock takes a lock for what comes before a call.
func mustLock(t *testing.T, o quorumlock.Owner, name string) *quorumlock.Hold {
	t.Helper()
	h, err := quorumlock.NewMutex(o, name).Lock(context.Background())
	if err != nil {
		t.Fatalf("lock %q: %v", name, err)
	}
	return h
}

var calls = []call{
	{name: "Mutex.Lock", rival: exclusiveRival, prepare: lockCall((*quorumlock.Mutex).Lock)},
	{name: "Mutex.TryLock", prepare: lockCall((*quorumlock.Mutex).TryLock)},
	{name: "Mutex.Lock of a node", rival: exclusiveRival, shared: true, prepare: func(_ *testing.T, a *actors) attempt {
		return func(ctx context.Context) (any, error) { return gaveHold(quorumlock.NewMutex(a.node, a.lock).Lock(ctx)) }
	}},
	{name: "Mutex.Do", rival: exclusiveRival, prepare: doCall(func(a *actors) doing { return quorumlock.NewMutex(a.owner, a.lock).Do })},

	{name: "RWMutex.Lock", rival: exclusiveRival, prepare: rwCall((*quorumlock.RWMutex).Lock)},
	{name: "RWMutex.TryLock", prepare: rwCall((*quorumlock.RWMutex).TryLock)},
	{name: "RWMutex.RLock", rival: exclusiveRival, prepare: rwCall((*quorumlock.RWMutex).RLock)},
	{name: "RWMutex.TryRLock", prepare: rwCall((*quorumlock.RWMutex).TryRLock)},
	{name: "RWMutex.Do", rival: exclusiveRival, prepare: doCall(func(a *actors) doing { return quorumlock.NewRWMutex(a.owner, a.lock).Do })},
	{name: "RWMutex.RDo", rival: exclusiveRival, prepare: doCall(func(a *actors) doing { return quorumlock.NewRWMutex(a.owner, a.lock).RDo })},
	{name: "RWMutex.Downgrade", holds: true, prepare: func(t *testing.T, a *actors) attempt {
		h := mustLock(t, a.owner, a.lock)
		return func(ctx context.Context) (any, error) {
			return gaveHold(quorumlock.NewRWMutex(a.owner, a.lock).Downgrade(ctx, h))
		}
	}},

	{name: "Semaphore.Acquire", rival: greedyRival, prepare: func(_ *testing.T, a *actors) attempt {
		return func(ctx context.Context) (any, error) {
			return gaveHold(quorumlock.NewSemaphore(a.owner, a.lock, permits).Acquire(ctx, 2))
		}
	}},
	{name: "Semaphore.TryAcquire", prepare: func(_ *testing.T, a *actors) attempt {
		return func(ctx context.Context) (any, error) {
			return gaveHold(quorumlock.NewSemaphore(a.owner, a.lock, permits).TryAcquire(ctx, 2))
		}
	}},
	{name: "Semaphore.Do", rival: greedyRival, prepare: func(_ *testing.T, a *actors) attempt {
		return func(ctx context.Context) (any, error) {
			return worked(func(work func()) error {
				return quorumlock.NewSemaphore(a.owner, a.lock, permits).Do(ctx, 1, func(context.Context) error { work(); return nil })
			})
		}
	}},
	{name: "Semaphore.Resize", prepare: func(_ *testing.T, a *actors) attempt {
		return func(ctx context.Context) (any, error) {
			return gaveOK(quorumlock.NewSemaphore(a.owner, a.lock, permits).Resize(ctx, permits+1))
		}
	}},

	{name: "MultiMutex.Lock", rival: exclusiveRival, prepare: multiCall((*quorumlock.MultiMutex).Lock)},
	{name: "MultiMutex.TryLock", prepare: multiCall((*quorumlock.MultiMutex).TryLock)},
	{name: "MultiMutex.Do", rival: exclusiveRival, prepare: doCall(func(a *actors) doing {
		return quorumlock.NewMultiMutex(a.owner, a.lock, second(a.lock)).Do
	})},

	{name: "Hold.Transfer", holds: true, prepare: func(t *testing.T, a *actors) attempt {
		h := mustLock(t, a.owner, a.lock)
		return func(ctx context.Context) (any, error) {
			ticket, err := h.Transfer(ctx)
			if ticket == "" {
				return nil, err
			}
			return ticket, err
		}
	}},
	{name: "Receive", holds: true, prepare: func(t *testing.T, a *actors) attempt {
		ticket, err := mustLock(t, a.giver, a.lock).Transfer(context.Background())
		if err != nil {
			t.Fatalf("transfer: %v", err)
		}
		return func(ctx context.Context) (any, error) { return gaveHold(quorumlock.Receive(ctx, a.owner, ticket)) }
	}},
	{name: "Hold.Unlock", holds: true, unbound: true, prepare: func(t *testing.T, a *actors) attempt {
		h := mustLock(t, a.owner, a.lock)
		return func(context.Context) (any, error) { return gaveOK(h.Unlock()) }
	}},

	{name: "Node.NewSession", detached: true, prepare: func(_ *testing.T, a *actors) attempt {
		return func(ctx context.Context) (any, error) {
			s, err := a.node.NewSession(ctx, 0)
			if s == nil {
				return nil, err
			}
			return s, err
		}
	}},
	{name: "Node.Inspect", detached: true, prepare: func(_ *testing.T, a *actors) attempt {
		return func(ctx context.Context) (any, error) {
			info, err := a.node.Inspect(ctx, a.lock)
			if info.Name == "" {
				return nil, err
			}
			return info, err
		}
	}},
	{name: "Node.ForceRelease", detached: true, prepare: func(t *testing.T, a *actors) attempt {
		h := mustLock(t, a.giver, a.lock)
		return func(ctx context.Context) (any, error) {
			opt := quorumlock.ForceOptions{Actor: "ops", Reason: "test", Now: true}
			return gaveOK(a.node.ForceRelease(ctx, a.lock, h.Token(), opt))
		}
	}},
	{name: "Node.Ready", detached: true, prepare: func(_ *testing.T, a *actors) attempt {
		return func(ctx context.Context) (any, error) { return gaveOK(a.node.Ready(ctx)) }
	}},
}

// trial is one call in one test.
type trial struct {
	t *testing.T
	call
	actors
	attempt attempt
	rival   *quorumlock.Hold // what the call waits for, if anything
	cancel  context.CancelFunc
	began   time.Time
	done    chan struct{}

	// Written before done is closed.
	gave any
	err  error
	took time.Duration
}

// stage is a cluster of three in which the calls of one node are tried.
type stage struct {
	t      *testing.T
	c      *quorumlocktest.Cluster
	leader int
	caller int // whose calls are tried
	other  int // where the rivals are
	trials []*trial
}

func newStage(t *testing.T) *stage {
	c := quorumlocktest.New(t, 3)
	l, f := roles(c)
	return &stage{t: t, c: c, leader: l, caller: f[0], other: f[1]}
}

// newTrials prepares a trial of each call that fits, each for a session of its own; those with a rival wait for it if blocked.
func (s *stage) newTrials(blocked bool, fits func(*call) bool) {
	s.t.Helper()
	for i := range calls {
		if fits(&calls[i]) {
			a := actors{
				node: s.c.Node(s.caller), owner: openSession(s.t, s.c.Node(s.caller)), giver: openSession(s.t, s.c.Node(s.other)), lock: calls[i].name,
			}
			s.trials = append(s.trials, s.newTrial(&calls[i], a, blocked))
		}
	}
}

func (s *stage) newTrial(c *call, a actors, blocked bool) *trial {
	s.t.Helper()
	x := &trial{t: s.t, call: *c, actors: a, done: make(chan struct{})}
	x.attempt = c.prepare(s.t, &x.actors)
	if !blocked || c.rival == nil {
		return x
	}
	h, err := c.rival(a.giver, a.lock)
	if err != nil {
		s.t.Fatalf("%s: the rival: %v", c.name, err)
	}
	x.rival = h
	return x
}

// begin starts the call in the background.
func (x *trial) begin(ctx context.Context) {
	ctx, x.cancel = context.WithCancel(ctx)
	x.began = time.Now()
	go func() {
		defer close(x.done)
		x.gave, x.err = x.attempt(ctx)
		x.took = time.Since(x.began)
		if x.gave == nil == (x.err == nil) {
			x.t.Errorf("%s returned (%v, %v)", x.name, x.gave, x.err)
		}
	}()
}

// beginAll starts the calls that wait for a rival, lets them get into their queues, calls cut, and starts the others, so that cut meets each of them on its way.
func (s *stage) beginAll(ctx func(*trial) context.Context, cut func()) {
	for _, x := range s.trials {
		if x.rival != nil {
			x.begin(ctx(x))
		}
	}
	time.Sleep(100 * time.Millisecond)
	cut()
	for _, x := range s.trials {
		if x.rival == nil {
			x.begin(ctx(x))
		}
	}
	synctest.Wait()
}

// holdNews keeps the leader's answers and the caller's own log back, or lets them go: what is asked is done, and the caller is not told in either way.
func (s *stage) holdNews(hold bool) {
	s.c.Network().HoldReplies(s.c.Host(s.leader), hold)
	s.c.Disk(s.caller).Hang(hold)
}

// within checks that the call ends within bound of its beginning; what tells what came of it.
func (x *trial) within(bound time.Duration) *trial {
	x.t.Helper()
	select {
	case <-x.done:
	case <-time.After(time.Until(x.began.Add(bound)) + time.Nanosecond):
	}
	select {
	case <-x.done:
		if x.took > bound {
			x.t.Errorf("%s: took %v, bound %v", x.name, x.took, bound)
		}
	default:
		x.t.Fatalf("%s: not ended after %v", x.name, bound)
	}
	return x
}

// succeeded checks that the call gave what it is for.
func (x *trial) succeeded() {
	x.t.Helper()
	if x.err != nil {
		x.t.Errorf("%s: %v", x.name, x.err)
	}
}

// failed checks that the call gave nothing, and that its error matches all of want.
func (x *trial) failed(want ...error) {
	x.t.Helper()
	if x.gave != nil {
		x.t.Errorf("%s: gave %v", x.name, x.gave)
	}
	for _, w := range want {
		if !errors.Is(x.err, w) {
			x.t.Errorf("%s: error %v, want %v", x.name, x.err, w)
		}
	}
}

// lost checks that the call failed because its session or its hold was lost, to that cause.
func (x *trial) lost(causes ...quorumlock.Cause) {
	x.t.Helper()
	x.failed(quorumlock.ErrLost)
	var lost *quorumlock.LostError
	if !errors.As(x.err, &lost) {
		return
	}
	for _, c := range causes {
		if lost.Cause == c {
			return
		}
	}
	x.t.Errorf("%s: cause %v (%v), want %v", x.name, lost.Cause, lost, causes)
}

// waited checks that the call ended while it waited, and says in its error what it is.
func (x *trial) waited(want ...error) *quorumlock.WaitError {
	x.t.Helper()
	x.failed(want...)
	var wait *quorumlock.WaitError
	if !errors.As(x.err, &wait) {
		x.t.Errorf("%s: error %v, want a WaitError", x.name, x.err)
		return &quorumlock.WaitError{}
	}
	if wait.Op == "" || errors.Is(x.err, quorumlock.ErrLost) {
		x.t.Errorf("%s: error %+v", x.name, wait)
	}
	return wait
}

// nothingLeft waits until I4's time is over, and checks that the cluster knows no claim of a call that failed, and of one that did not only what it gave. Then it
// takes everything back, and checks that nothing at all is left.
func (s *stage) nothingLeft() {
	s.t.Helper()
	time.Sleep(ghostBound)
	for _, x := range s.trials {
		for _, name := range []string{x.lock, second(x.lock)} {
			x.onlyItsOwn(lockShown(s.t, s.c, name))
		}
	}
	for _, x := range s.trials {
		x.takeBack()
	}
	for _, x := range s.trials {
		for _, name := range []string{x.lock, second(x.lock)} {
			becomesFree(s.t, s.c, name, time.Second)
		}
	}
	s.c.CheckState()
}

// onlyItsOwn checks that nobody has a claim on a name but the rival or the giver, and the call if it gave a hold or a ticket.
func (x *trial) onlyItsOwn(info quorumlock.LockInfo) {
	x.t.Helper()
	gave := false
	switch x.gave.(type) {
	case *quorumlock.Hold, quorumlock.Ticket:
		gave = true
	}
	if info.Waiting > 0 {
		x.t.Errorf("%s: %d claims wait for %q: %+v", x.name, info.Waiting, info.Name, info.Queue)
	}
	for _, h := range info.Holders {
		if h.Session != x.giver.ID() && !gave {
			x.t.Errorf("%s: %q is %v, session %v; the call returned %v", x.name, info.Name, h, h.Session, x.err)
		}
	}
}

// takeBack releases what the call gave, and whatever its surroundings hold.
func (x *trial) takeBack() {
	x.t.Helper()
	switch gave := x.gave.(type) {
	case *quorumlock.Hold:
		if err := gave.Unlock(); err != nil {
			x.t.Errorf("%s: unlock of what it gave: %v", x.name, err)
		}
	case *quorumlock.Session:
		if err := gave.Close(); err != nil {
			x.t.Errorf("%s: close of what it gave: %v", x.name, err)
		}
	}
	for _, s := range []*quorumlock.Session{x.owner, x.giver} {
		if err := s.Close(); err != nil {
			x.t.Errorf("%s: close: %v", x.name, err)
		}
	}
}

// String names the trial in messages.
func (x *trial) String() string { return fmt.Sprintf("%s on %q", x.name, x.lock) }
