//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/demokit"
)

const (
	// ttl is the shortest that is accepted without measuring first, so that a takeover is soon.
	ttl        = quorumlock.MinSessionTTL
	instances  = 3
	startBound = 30 * time.Second
	calmJobs   = 10 // of each worker, before anything is done to them
)

// place is where the service keeps its documents.
type place struct {
	file        string // bbolt
	dsn, schema string // PostgreSQL
}

// demo is the parent: it starts the service and the workers, stops and continues them, and judges by what they were told and
// what the service has in the end.
type demo struct {
	line      *demokit.Timeline
	launcher  *demokit.Launcher
	dir       string
	rounds    int
	service   *process
	workers   [2]*process
	documents *documents

	mu    sync.Mutex
	tally tally
}

func (d *demo) run(ctx context.Context, at place) (_ verdict, err error) {
	defer func() { d.end() }()
	if err := d.start(ctx, at); err != nil {
		return verdict{}, err
	}
	if err := d.calm(ctx); err != nil {
		return verdict{}, err
	}
	for i := range d.rounds {
		r := &round{demo: d, holder: d.workers[i%2], successor: d.workers[(i+1)%2]}
		d.line.Say(demokit.Plain, "", "round", "%d of %d", i+1, d.rounds)
		if err := r.run(ctx, variants[i/2%len(variants)]); err != nil {
			return verdict{}, fmt.Errorf("round %d: %w", i+1, err)
		}
	}
	return d.judge(ctx)
}

// start starts the service and the workers at once: none is ready before the others are there.
func (d *demo) start(ctx context.Context, at place) error {
	addrs, err := demokit.FreeAddrs(instances)
	if err != nil {
		return err
	}
	ctx, cancel := demokit.Within(ctx, startBound, "the processes did not start")
	defer cancel()
	options := func(i int, name string) childOptions {
		return childOptions{Name: name, Addr: addrs[i], Join: addrs, Dir: filepath.Join(d.dir, name), TTL: ttl}
	}
	o := options(0, "service")
	o.File, o.DSN, o.Schema = at.file, at.dsn, at.schema
	var hello reply
	if d.service, hello, err = startChild(ctx, d.launcher, o); err != nil {
		return err
	}
	d.documents = newDocuments(hello.URL)
	for i, name := range []string{"worker-a", "worker-b"} {
		o := options(i+1, name)
		o.Service = hello.URL
		if d.workers[i], _, err = startChild(ctx, d.launcher, o); err != nil {
			return err
		}
	}
	d.line.Say(demokit.Plain, "", "started", "the service and two workers, each an instance of the lock service; session TTL %v", ttl)
	return d.whole(ctx)
}

// end ends what has been started, all at once.
func (d *demo) end() {
	var ending sync.WaitGroup
	for _, p := range append(d.workers[:], d.service) {
		if p != nil {
			ending.Go(p.end)
		}
	}
	ending.Wait()
	if d.documents != nil {
		d.documents.close()
	}
}

// whole waits until all three instances vote, by the word of each.
func (d *demo) whole(ctx context.Context) error {
	ctx, cancel := demokit.Within(ctx, startBound, "the instances are not all in the quorum")
	defer cancel()
	return demokit.Poll(ctx, func() error {
		for _, p := range append(d.workers[:], d.service) {
			r, err := p.ask(ctx, command{Verb: verbReady})
			if err != nil {
				return err
			}
			if r.Voters != instances {
				return fmt.Errorf("%s sees %d voters", p.name, r.Voters)
			}
		}
		return nil
	})
}

func (d *demo) ask(ctx context.Context, p *process, bound time.Duration, c command) (reply, error) {
	ctx, cancel := demokit.Within(ctx, bound, "no answer")
	defer cancel()
	return p.ask(ctx, c)
}

// jobs asks for jobs, and keeps what became of them.
func (d *demo) jobs(ctx context.Context, p *process, bound time.Duration, c command) ([]jobResult, error) {
	r, err := d.ask(ctx, p, bound, c)
	d.mu.Lock()
	d.tally.add(r.Jobs)
	d.mu.Unlock()
	if err == nil && len(r.Jobs) == 0 {
		err = fmt.Errorf("%s %s: the answer tells of no job", p.name, c.Verb)
	}
	return r.Jobs, err
}

// calm has both workers contend while nothing is done to them. The lock alone is enough then, for the unfenced ledger too; if
// it was not, what is lost later would say nothing of fences.
func (d *demo) calm(ctx context.Context) error {
	var working sync.WaitGroup
	var errs [2]error
	for i, p := range d.workers {
		working.Go(func() {
			_, errs[i] = d.jobs(ctx, p, takeoverBound, command{Verb: verbWork, Jobs: calmJobs})
		})
	}
	working.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	v, err := d.compare(ctx)
	if err == nil && v != (verdict{}) {
		err = fmt.Errorf("before anything was done: %d refused, %d lost, %d lost without the fence", v.refused, v.lostFenced, v.lostUnfenced)
	}
	if err == nil {
		d.line.Say(demokit.Good, "both workers", "contended", "%d jobs; none lost in either ledger, without a fence either", 2*calmJobs)
	}
	return err
}

// compare reads both ledgers and compares them with what was acknowledged.
func (d *demo) compare(ctx context.Context) (verdict, error) {
	var content [2][]byte
	for i, in := range sections {
		var err error
		if content[i], err = d.documents.get(ctx, in, ledger); err != nil {
			return verdict{}, fmt.Errorf("read the %s ledger: %w", in, err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tally.compare(content[0], content[1])
}

func (d *demo) judge(ctx context.Context) (verdict, error) {
	v, err := d.compare(ctx)
	if err != nil {
		return v, err
	}
	d.line.Say(demokit.Plain, "fenced", "ledger", "%d jobs acknowledged, %d lost", len(d.tally.fenced), v.lostFenced)
	d.line.Say(demokit.Plain, "unfenced", "ledger", "%d jobs acknowledged, %d lost", len(d.tally.unfenced), v.lostUnfenced)
	return v, v.check()
}
