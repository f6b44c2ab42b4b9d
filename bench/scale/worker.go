//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
)

// Worker is a process with nodes, one of each group. Its methods are what the driver asks for, over its standard input and output; they may run side by side.
type Worker struct {
	mu       sync.Mutex
	nodes    []*quorumlock.Node
	sessions []*quorumlock.Session // of all groups, in turn
	blockers map[string]*quorumlock.Hold
	profile  *os.File
}

// None is for methods that ask or tell nothing.
type None struct{}

// workBound ends what a driver that is gone, or gave up, had asked for.
const workBound = 10 * time.Minute

// serve answers until in ends, as it does when the driver is gone.
func serve(in io.Reader, out io.Writer) {
	w := &Worker{blockers: make(map[string]*quorumlock.Hold)}
	s := rpc.NewServer()
	if err := s.Register(w); err != nil {
		panic(err) // the methods above
	}
	s.ServeCodec(jsonrpc.NewServerCodec(pipe{in, out}))
	w.close()
}

type pipe struct {
	io.Reader
	io.Writer
}

func (pipe) Close() error { return nil }

func (w *Worker) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		_ = n.Close()
	}
}

// Place is one node of a worker.
type Place struct {
	Group, Name, Dir, Addr string
	Join                   []string
	Expect, Voters         int
	Client                 bool
}

// Open starts nodes and waits until each has been ready. The answer is how long that took.
func (w *Worker) Open(places []Place, took *time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), workBound)
	defer cancel()
	began := time.Now()
	for _, p := range places {
		cfg := quorumlock.Config{
			Cluster: p.Group, Name: p.Name, Dir: p.Dir, Addr: p.Addr, Join: p.Join, Expect: p.Expect, Voters: p.Voters,
		}
		if p.Client {
			cfg.Role = quorumlock.RoleClient
		}
		n, err := quorumlock.Open(ctx, cfg)
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.nodes = append(w.nodes, n)
		w.mu.Unlock()
	}
	for _, n := range w.all() {
		if err := n.Ready(ctx); err != nil {
			return err
		}
	}
	*took = time.Since(began)
	return nil
}

func (w *Worker) all() []*quorumlock.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.nodes)
}

// State is how a worker's first node sees its group.
type State struct {
	Leads   int // of the nodes
	Voters  int
	Applied uint64
}

// State asks only this node.
func (w *Worker) State(None, of *State) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for i, n := range w.all() {
		s, err := n.Status(ctx)
		if err != nil {
			return err
		}
		if s.Leads && s.Self {
			of.Leads++
		}
		if i > 0 {
			continue
		}
		of.Applied = s.Applied
		members, err := n.Members(ctx, quorumlock.Local())
		if err != nil {
			return err
		}
		for _, m := range members {
			if m.Voter {
				of.Voters++
			}
		}
	}
	return nil
}

// Want is so many sessions, or locks.
type Want struct {
	N    int
	TTL  time.Duration
	Name string // prefix of locks, or the one lock that all wait for
}

// Sessions opens sessions, in turn on the nodes of each group. They are added to those of before.
func (w *Worker) Sessions(want Want, _ *None) error {
	nodes := w.all()
	opened := make([]*quorumlock.Session, want.N)
	err := parallel(want.N, 64, func(ctx context.Context, i int) (err error) {
		opened[i], err = nodes[i%len(nodes)].NewSession(ctx, want.TTL)
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions = append(w.sessions, opened...)
	return err
}

// parallel runs f for 0 to n-1, some at a time, until one fails.
func parallel(n, atOnce int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), workBound)
	defer cancel()
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make(chan error, atOnce)
	for range min(atOnce, n) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := f(ctx, i); err != nil {
					errs <- err
					cancel()
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs // nil of a closed channel
}

func (w *Worker) owners() ([]*quorumlock.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sessions) == 0 {
		return nil, errors.New("no session was opened")
	}
	return slices.Clone(w.sessions), nil
}

// Hold takes that many locks, spread over the sessions, and keeps them.
func (w *Worker) Hold(want Want, _ *None) error {
	owners, err := w.owners()
	if err != nil {
		return err
	}
	return parallel(want.N, 512, func(ctx context.Context, i int) error {
		_, err := quorumlock.NewMutex(owners[i%len(owners)], fmt.Sprintf("%s/%07d", want.Name, i)).Lock(ctx)
		return err
	})
}

// Block takes one lock for others to wait for.
func (w *Worker) Block(name string, _ *None) error {
	owners, err := w.owners()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), workBound)
	defer cancel()
	h, err := quorumlock.NewMutex(owners[0], name).Lock(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blockers[name] = h
	return nil
}

// Unblock gives it back.
func (w *Worker) Unblock(name string, _ *None) error {
	w.mu.Lock()
	h := w.blockers[name]
	delete(w.blockers, name)
	w.mu.Unlock()
	if h == nil {
		return fmt.Errorf("%s is not held", name)
	}
	return h.Unlock()
}

// Queue has that many wait for one lock and give it back as soon as they have it. It answers when the last one has.
func (w *Worker) Queue(want Want, had *int) error {
	owners, err := w.owners()
	if err != nil {
		return err
	}
	var granted atomic.Int64
	err = parallel(want.N, want.N, func(ctx context.Context, i int) error {
		h, err := quorumlock.NewMutex(owners[i%len(owners)], want.Name).Lock(ctx)
		if err != nil {
			return err
		}
		granted.Add(1)
		return h.Unlock()
	})
	*had = int(granted.Load())
	return err
}

// Waiting is how many wait for a lock.
func (w *Worker) Waiting(name string, n *int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	info, err := w.all()[0].Inspect(ctx, name)
	*n = info.Waiting
	return err
}

// Held is how many locks the first node's state has held.
func (w *Worker) Held(_ None, n *int) error {
	ctx, cancel := context.WithTimeout(context.Background(), workBound)
	defer cancel()
	for info, err := range w.all()[0].Locks(ctx, "", quorumlock.Local()) {
		if err != nil {
			return err
		}
		*n += info.Holding
	}
	return nil
}

// Cycle is locking and unlocking without pause, each client its own lock.
type Cycle struct {
	Clients int
	For     time.Duration
	Name    string
}

// Cycled is what they did; of Waits only the figures that are told.
type Cycled struct {
	N                 int
	Median, P99, Most time.Duration // of Lock
}

// Cycle runs clients on the sessions for a while, after a fifth of it to warm up.
func (w *Worker) Cycle(c Cycle, out *Cycled) error {
	owners, err := w.owners()
	if err != nil {
		return err
	}
	begin := time.Now().Add(c.For / 5)
	end := begin.Add(c.For)
	waits := make([][]time.Duration, c.Clients)
	err = parallel(c.Clients, c.Clients, func(ctx context.Context, i int) error {
		m := quorumlock.NewMutex(owners[i%len(owners)], fmt.Sprintf("%s/%d", c.Name, i))
		for {
			asked := time.Now()
			if asked.After(end) {
				return nil
			}
			h, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			took := time.Since(asked)
			if err := h.Unlock(); err != nil {
				return err
			}
			if now := time.Now(); now.After(begin) && now.Before(end) {
				waits[i] = append(waits[i], took)
			}
		}
	})
	all := slices.Concat(waits...)
	slices.Sort(all)
	if n := len(all); n > 0 {
		*out = Cycled{n, all[n/2], all[n-1-n/100], all[n-1]}
	}
	return err
}

// Taken is how many snapshots were taken, and what the longest took until it was on the disk.
type Taken struct {
	N       int
	Longest time.Duration
}

// Snapshots has the first node take snapshots as raft does, a second apart, until the time is over; at least one.
func (w *Worker) Snapshots(during time.Duration, t *Taken) error {
	ctx, cancel := context.WithTimeout(context.Background(), workBound)
	defer cancel()
	node := w.all()[0]
	for end := time.Now().Add(during); t.N == 0 || time.Now().Before(end); time.Sleep(time.Second) {
		began := time.Now()
		if err := sim.Snapshot(ctx, node); err != nil {
			return err
		}
		t.N, t.Longest = t.N+1, max(t.Longest, time.Since(began))
	}
	return nil
}

// Memory is what the heap holds after a collection, and how many goroutines there are.
type Memory struct {
	Heap       uint64
	Goroutines int
}

// Memory collects garbage first.
func (w *Worker) Memory(None, m *Memory) error {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	*m = Memory{s.HeapAlloc, runtime.NumGoroutine()}
	return nil
}

// Profile begins a profile of the processor in a file; "" ends it.
func (w *Worker) Profile(file string, _ *None) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if file != "" {
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		w.profile = f
		return pprof.StartCPUProfile(f)
	}
	pprof.StopCPUProfile()
	if w.profile == nil {
		return nil
	}
	err := w.profile.Close()
	w.profile = nil
	return err
}
