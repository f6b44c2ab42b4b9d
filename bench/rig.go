//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

const (
	workers    = 3
	startBound = time.Minute // of servers, and of workers
	orderBound = 2 * time.Minute
	leadTime   = 50 * time.Millisecond // from an order to the instant at which all workers begin
)

// rig is one system at work: its servers, and three workers.
type rig struct {
	system  *system
	service *service
	procs   []*process
	dir     string
	leads   int // embedded: the worker that leads
	runs    int // names of locks are used once
	profile string
}

// raise starts a system in directories of its own below dir.
func raise(ctx context.Context, l *demokit.Launcher, s *system, dir string) (_ *rig, err error) {
	r := &rig{system: s}
	if r.dir, err = os.MkdirTemp(dir, s.key+"-"); err != nil {
		return nil, err
	}
	// A server may run as a user of its own.
	if err := os.Chmod(r.dir, 0o755); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.end())
		}
	}()
	if s.serve != nil {
		dir, err := subdirectory(r.dir, "servers")
		if err != nil {
			return r, err
		}
		if r.service, err = s.serve(ctx, l, dir); err != nil {
			return r, err
		}
	}
	for i := range workers {
		p, err := startSelf(l, fmt.Sprintf("%s worker %d", s.key, i), "worker")
		if err != nil {
			return r, err
		}
		r.procs = append(r.procs, p)
	}
	if s.open == nil {
		return r, nil
	}
	ctx, cancel := demokit.Within(ctx, startBound, s.name+" does not start")
	defer cancel()
	if err := r.open(ctx); err != nil {
		return r, err
	}
	if s.embedded {
		return r, r.settle(ctx)
	}
	return r, nil
}

func (r *rig) open(ctx context.Context) error {
	places := make([]placing, workers)
	if !r.system.embedded {
		for i := range places {
			places[i] = placing{System: r.system.key, Servers: r.service.addrs}
		}
	} else if err := r.embed(places); err != nil {
		return err
	}
	_, err := r.all(ctx, func(i int) order { return order{Verb: verbOpen, Place: &places[i]} })
	return err
}

// embed makes the workers themselves the service.
func (r *rig) embed(places []placing) error {
	addrs, err := demokit.FreeAddrs(workers)
	if err != nil {
		return err
	}
	r.service = &service{stop: func() {}, leader: func(context.Context) (int, error) { return r.leads, nil }}
	for i := range places {
		places[i] = placing{System: r.system.key, Servers: addrs, Name: fmt.Sprint("node-", i), Addr: addrs[i], LogStore: r.system.logStore}
		if !r.system.inMemory {
			if places[i].Dir, err = subdirectory(r.dir, places[i].Name); err != nil {
				return err
			}
		}
		r.service.pids = append(r.service.pids, r.procs[i].pid())
	}
	return nil
}

// settle waits until all nodes vote and one leads.
func (r *rig) settle(ctx context.Context) error {
	return demokit.Poll(ctx, func() error {
		answers, err := r.all(ctx, func(int) order { return order{Verb: verbStatus} })
		if err != nil {
			return err
		}
		leaders := 0
		for i, a := range answers {
			if a.Voters != workers {
				return fmt.Errorf("%d of %d vote", a.Voters, workers)
			}
			if a.Leads {
				r.leads = i
				leaders++
			}
		}
		if leaders != 1 {
			return fmt.Errorf("%d lead", leaders)
		}
		return nil
	})
}

// all asks each worker at the same time.
func (r *rig) all(ctx context.Context, what func(i int) order) ([]answer, error) {
	answers, errs := r.asked(ctx, what)
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// asked is all, with the errors of each.
func (r *rig) asked(ctx context.Context, what func(i int) order) ([]answer, []error) {
	ctx, cancel := demokit.Within(ctx, orderBound, "no answer")
	defer cancel()
	answers, errs := make([]answer, len(r.procs)), make([]error, len(r.procs))
	var each sync.WaitGroup
	for i, p := range r.procs {
		each.Go(func() {
			o := what(i)
			o.Part = i
			answers[i], errs[i] = p.ask(ctx, o)
		})
	}
	each.Wait()
	return answers, errs
}

// clients has n clients spread over the workers, and none of before.
func (r *rig) clients(ctx context.Context, n int, ttl time.Duration) error {
	_, err := r.all(ctx, func(i int) order {
		return order{Verb: verbClients, Clients: shareOf(n, i), TTL: ttl}
	})
	return err
}

// clientAt has one client, at one worker.
func (r *rig) clientAt(ctx context.Context, at int) error {
	_, err := r.all(ctx, func(i int) order {
		o := order{Verb: verbClients, TTL: usualTTL}
		if i == at {
			o.Clients = 1
		}
		return o
	})
	return err
}

// shareOf is the part of n that worker i has.
func shareOf(n, i int) int {
	share := n / workers
	if i < n%workers {
		share++
	}
	return share
}

// lockName is a name that was not used before.
func (r *rig) lockName() string {
	r.runs++
	return fmt.Sprint("job-", r.runs)
}

// counted is what all clients together did in a window.
type counted struct {
	cycles int
	failed int
	waits  histogram
	grants []grant
}

// cycle has all clients lock and unlock for a window, after a fifth of it, or what the system needs, to warm up.
func (r *rig) cycle(ctx context.Context, window time.Duration, o order) (counted, error) {
	o.Verb, o.Name = verbCycle, r.lockName()
	o.Start = now().add(leadTime)
	o.Count = o.Start.add(max(window/5, r.system.warm))
	o.End = o.Count.add(window)
	answers, err := r.all(ctx, func(int) order { return o })
	if err != nil {
		return counted{}, err
	}
	return joined(answers)
}

func joined(answers []answer) (counted, error) {
	c := counted{waits: newHistogram()}
	for _, a := range answers {
		c.cycles += a.Cycles
		c.failed += a.Failed
		c.grants = append(c.grants, a.Grants...)
		if err := c.waits.merge(a.Waits); err != nil {
			return counted{}, err
		}
	}
	return c, nil
}

// warmClients is how many warm a system up.
const warmClients = 16

func (r *rig) warm(ctx context.Context) error {
	if r.system.warm == 0 {
		return nil
	}
	if err := r.clients(ctx, warmClients, usualTTL); err != nil {
		return err
	}
	_, err := r.cycle(ctx, r.system.warm, order{Own: true})
	return err
}

// end kills what is left, and removes the directories.
func (r *rig) end() error {
	for _, p := range r.procs {
		p.kill()
	}
	if r.service != nil {
		r.service.stop()
	}
	return os.RemoveAll(r.dir)
}
