//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

const (
	usualTTL = 10 * time.Second
	guarding = 500 * time.Millisecond // between two looks at the memory
)

// bed is what one row runs on: processes, each with one instance of each group.
type bed struct {
	ctx      context.Context
	dir      string
	profile  string
	sizes    sizes
	launcher *demokit.Launcher
	over     atomic.Bool // the processes took more memory than they may

	mu    sync.Mutex
	procs []*process
	names int
}

// process is this program started again.
type process struct {
	cmd    *exec.Cmd
	rpc    *rpc.Client
	log    *demokit.Tail
	places []Place
}

func (b *bed) start(places []Place) (*process, error) {
	if b.launcher == nil {
		b.launcher = demokit.NewLauncher()
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{log: &demokit.Tail{}, places: places}
	p.cmd = exec.Command(self, "worker")
	p.cmd.Stderr = p.log
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.launcher.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	p.rpc = rpc.NewClientWithCodec(jsonrpc.NewClientCodec(line{pipe{stdout, stdin}, stdin.Close}))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.procs = append(b.procs, p)
	return p, nil
}

// line is a pipe that is closed with the client.
type line struct {
	pipe
	shut func() error
}

func (l line) Close() error { return l.shut() }

// ask has a worker do something until the row's time is over.
func (b *bed) ask(p *process, method string, args, reply any) error {
	call := p.rpc.Go("Worker."+method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		if call.Error != nil {
			return fmt.Errorf("%s: %w%s", method, call.Error, p.told())
		}
		return nil
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
}

func (p *process) told() string {
	if text := p.log.String(); text != "" {
		return ": " + text
	}
	return ""
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.rpc.Close()
	_ = p.cmd.Wait() // how it ended is known
}

// dismiss kills one before the row ends.
func (b *bed) dismiss(p *process) {
	p.kill()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.procs = slices.DeleteFunc(b.procs, func(q *process) bool { return q == p })
}

// end kills what is left.
func (b *bed) end() {
	for _, p := range b.running() {
		p.kill()
	}
	if b.launcher != nil {
		b.launcher.Close()
	}
}

func (b *bed) running() []*process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.procs)
}

// guard ends the row when its processes take more memory than they may, until stop is called.
func (b *bed) guard(cancel context.CancelFunc, most int64) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(guarding)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-quit:
				return
			}
			if u, err := used(b.running()...); err == nil && u.resident > most {
				b.over.Store(true)
				cancel()
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// each asks several workers at the same time, and returns the first error.
func each(procs []*process, f func(i int, p *process) error) error {
	errs := make([]error, len(procs))
	var all sync.WaitGroup
	for i, p := range procs {
		all.Go(func() { errs[i] = f(i, p) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// cluster starts instances of c.groups groups, one process for each instance, and waits until all are ready and the wanted number votes. Whoever does not found comes after the founders.
func (b *bed) cluster(c setting) ([]*process, error) {
	groups := max(c.groups, 1)
	founders := min(c.instances, max(c.voters, 1))
	addrs := make([][]string, groups)
	var err error
	for g := range addrs {
		if addrs[g], err = demokit.FreeAddrs(c.instances); err != nil {
			return nil, err
		}
	}
	var procs []*process
	for i := range c.instances {
		var places []Place
		for g := range groups {
			p := Place{
				Group: fmt.Sprint("group-", g), Name: fmt.Sprint("node-", i), Addr: addrs[g][i], Join: addrs[g][:founders], Voters: c.voters,
			}
			if i < founders {
				p.Expect = founders
			}
			if !c.inMemory {
				p.Dir = filepath.Join(b.dir, p.Group+"-"+p.Name)
			}
			places = append(places, p)
		}
		p, err := b.start(places)
		if err != nil {
			return nil, err
		}
		procs = append(procs, p)
	}
	for _, part := range [][]*process{procs[:founders], procs[founders:]} {
		if err := each(part, func(_ int, p *process) error { return b.ask(p, "Open", p.places, new(time.Duration)) }); err != nil {
			return nil, err
		}
	}
	return procs, b.settled(procs, min(c.voters, c.instances))
}

// settled waits until that many vote in the first group.
func (b *bed) settled(procs []*process, voters int) error {
	return demokit.Poll(b.ctx, func() error {
		var s State
		if err := b.ask(procs[0], "State", None{}, &s); err != nil {
			return err
		}
		if s.Voters != voters {
			return fmt.Errorf("%d of %d vote", s.Voters, voters)
		}
		_, err := b.leadsNow(procs)
		return err
	})
}

// leader is the process that leads most groups, once anybody leads: on a starved machine there may be an election at any moment.
func (b *bed) leader(procs []*process) (*process, error) {
	for {
		leader, err := b.leadsNow(procs)
		if !errors.Is(err, errLeaderless) || b.idle(demokit.PollPause) != nil {
			return leader, err
		}
	}
}

var errLeaderless = errors.New("nobody leads")

func (b *bed) leadsNow(procs []*process) (*process, error) {
	states := make([]State, len(procs))
	if err := each(procs, func(i int, p *process) error { return b.ask(p, "State", None{}, &states[i]) }); err != nil {
		return nil, err
	}
	most := 0
	for i, s := range states {
		if s.Leads > states[most].Leads {
			most = i
		}
	}
	if states[most].Leads == 0 {
		return nil, errLeaderless
	}
	return procs[most], nil
}

func others(procs []*process, but *process) (list []*process) {
	for _, p := range procs {
		if p != but {
			list = append(list, p)
		}
	}
	return list
}

// clusterWithCallers starts a cluster, and two processes that are clients of it.
func (b *bed) clusterWithCallers(c setting) (procs, callers []*process, err error) {
	if procs, err = b.cluster(c); err != nil {
		return nil, nil, err
	}
	callers, err = b.callers(procs, 2)
	return procs, callers, err
}

// callers starts processes that are clients of a cluster and nothing else, so that what the members use is the servers' alone.
func (b *bed) callers(of []*process, n int) ([]*process, error) {
	var procs []*process
	for i := range n {
		var places []Place
		for _, p := range of[0].places {
			places = append(places, Place{Group: p.Group, Name: fmt.Sprint("caller-", i), Join: p.Join, Client: true})
		}
		p, err := b.start(places)
		if err != nil {
			return nil, err
		}
		procs = append(procs, p)
	}
	return procs, each(procs, func(_ int, p *process) error { return b.ask(p, "Open", p.places, new(time.Duration)) })
}

// spread gives each process its part of n.
func spread(n, i, of int) int {
	part := n / of
	if i < n%of {
		part++
	}
	return part
}

func (b *bed) sessions(on []*process, n int) error {
	return each(on, func(i int, p *process) error {
		return b.ask(p, "Sessions", Want{N: spread(n, i, len(on)), TTL: usualTTL}, &None{})
	})
}

func (b *bed) hold(on []*process, n int) error {
	return each(on, func(i int, p *process) error {
		return b.ask(p, "Hold", Want{N: spread(n, i, len(on)), Name: fmt.Sprintf("%s/%d", b.name(), i)}, &None{})
	})
}

// name is one that was not used before in this row.
func (b *bed) name() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names++
	return fmt.Sprint("tenant-", b.names)
}

// cycled is what all clients together did.
type cycled struct {
	perSecond         float64
	median, p99, most time.Duration // the worst of the processes
}

func (b *bed) cycle(on []*process, clients int, window time.Duration) (c cycled, err error) {
	parts := make([]Cycled, len(on))
	name := b.name()
	err = each(on, func(i int, p *process) error {
		n := spread(clients, i, len(on))
		if n == 0 {
			return nil
		}
		return b.ask(p, "Cycle", Cycle{Clients: n, For: window, Name: fmt.Sprintf("%s/%d", name, i)}, &parts[i])
	})
	for _, part := range parts {
		c.perSecond += float64(part.N) / window.Seconds()
		c.median, c.p99, c.most = max(c.median, part.Median), max(c.p99, part.P99), max(c.most, part.Most)
	}
	if err == nil && c.perSecond == 0 {
		err = errors.New("nobody finished a cycle")
	}
	return c, err
}

// used is what processes have used together.
func used(procs ...*process) (sum usage, err error) {
	for _, p := range procs {
		u, err := usageOf(p.pid())
		if err != nil {
			return usage{}, err
		}
		sum = sum.plus(u)
	}
	return sum, nil
}

// while gives what processes use, each group of them by itself, while f runs, and how long it ran.
func while(f func() error, of ...[]*process) (uses []usage, took time.Duration, err error) {
	before := make([]usage, len(of))
	for i, procs := range of {
		if before[i], err = used(procs...); err != nil {
			return nil, 0, err
		}
	}
	began := time.Now()
	if err := f(); err != nil {
		return nil, 0, err
	}
	took = time.Since(began)
	for i, procs := range of {
		after, err := used(procs...)
		if err != nil {
			return nil, 0, err
		}
		uses = append(uses, after.minus(before[i]))
	}
	return uses, took, nil
}

// percent of one core.
func percent(cpu, of time.Duration) float64 { return 100 * cpu.Seconds() / of.Seconds() }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (b *bed) applied(p *process) (uint64, error) {
	var s State
	err := b.ask(p, "State", None{}, &s)
	return s.Applied, err
}

func (b *bed) idle(d time.Duration) error { return demokit.Sleep(b.ctx, d) }
