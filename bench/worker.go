//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// place is where a worker's clients come from: a connection to servers, or a node of an embedded system.
type place interface {
	// client has a session of its own, in the way that is usual with the system. ctx bounds the opening.
	client(ctx context.Context, ttl time.Duration) (client, error)
	io.Closer
}

// member is a place that is itself a part of the system.
type member interface {
	status(ctx context.Context) (leads bool, voters int, err error)
}

// client is one owner of locks. It is used by one goroutine at a time.
type client interface {
	// lock waits for a lock until ctx ends. What it returns gives the lock back.
	lock(ctx context.Context, name string) (release func(ctx context.Context) error, err error)
	io.Closer // ends the session
}

// worker carries out orders.
type worker struct {
	mu      sync.Mutex
	place   place
	clients []client
	held    map[int]func(context.Context) error
	profile *os.File
	follows []io.Closer
}

// runWorker serves until in ends, as it does when the driver is gone.
func runWorker(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	w := &worker{held: map[int]func(context.Context) error{}}
	var serving sync.WaitGroup
	answers := make(chan answer)
	written := make(chan error, 1)
	go func() { written <- writeAnswers(out, answers) }()
	var err error
	for orders := json.NewDecoder(in); ; {
		var o order
		if err = orders.Decode(&o); err != nil {
			break
		}
		serving.Go(func() { answers <- w.obey(ctx, o) })
	}
	cancel()
	serving.Wait()
	close(answers)
	if errors.Is(err, io.EOF) {
		err = nil
	} else {
		err = fmt.Errorf("read order: %w", err)
	}
	return errors.Join(err, <-written, w.close())
}

// writeAnswers goes on taking them after an error, so that nobody waits for it.
func writeAnswers(out io.Writer, answers <-chan answer) (err error) {
	enc := json.NewEncoder(out)
	for a := range answers {
		if err == nil {
			err = enc.Encode(a)
		}
	}
	return err
}

func (w *worker) obey(ctx context.Context, o order) answer {
	a, err := w.act(ctx, o)
	if err != nil {
		a.Error = err.Error()
	}
	a.ID = o.ID
	return a
}

func (w *worker) act(ctx context.Context, o order) (answer, error) {
	switch o.Verb {
	case verbOpen:
		return answer{}, w.open(ctx, o)
	case verbStatus:
		return w.status(ctx)
	case verbClients:
		return answer{}, w.have(ctx, o.Clients, o.TTL)
	case verbCycle:
		return w.cycle(ctx, o)
	case verbLock:
		return w.lock(ctx, o)
	case verbUnlock:
		return w.unlock(ctx, o)
	case verbQueue:
		return w.queue(ctx, o)
	case verbProfile:
		return answer{}, w.profiling(o.File)
	case verbFollow:
		return w.follow(o)
	case verbFloor:
		return floor(ctx, o)
	}
	return answer{}, fmt.Errorf("no such order: %q", o.Verb)
}

func (w *worker) open(ctx context.Context, o order) error {
	if o.Place == nil {
		return errors.New("open: no place is named")
	}
	for _, s := range systems {
		if s.key != o.Place.System {
			continue
		}
		p, err := s.open(ctx, *o.Place)
		if err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.place = p
		return nil
	}
	return fmt.Errorf("no such system: %q", o.Place.System)
}

func (w *worker) opened() (place, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.place == nil {
		return nil, errors.New("nothing was opened")
	}
	return w.place, nil
}

func (w *worker) status(ctx context.Context) (answer, error) {
	p, err := w.opened()
	if err != nil {
		return answer{}, err
	}
	m, ok := p.(member)
	if !ok {
		return answer{}, errors.New("this system is not embedded")
	}
	leads, voters, err := m.status(ctx)
	return answer{Leads: leads, Voters: voters}, err
}

// have makes as many clients as wanted; those of before are closed.
func (w *worker) have(ctx context.Context, n int, ttl time.Duration) error {
	p, err := w.opened()
	if err != nil {
		return err
	}
	w.mu.Lock()
	former := w.clients
	w.clients, w.held = nil, map[int]func(context.Context) error{}
	w.mu.Unlock()
	if err := each(former, func(_ int, c client) error { return c.Close() }); err != nil {
		return fmt.Errorf("close client: %w", err)
	}
	clients := make([]client, n)
	err = each(clients, func(i int, _ client) (err error) {
		clients[i], err = p.client(ctx, ttl)
		return err
	})
	if err != nil {
		return fmt.Errorf("open client: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients = clients
	return nil
}

// atOnce bounds how many sessions are opened or closed together.
const atOnce = 64

// each runs f for all of a list, some at a time, and returns the first error.
func each[T any](list []T, f func(i int, of T) error) error {
	var all sync.WaitGroup
	errs := make([]error, len(list))
	free := make(chan struct{}, atOnce)
	for i, of := range list {
		free <- struct{}{}
		all.Go(func() {
			errs[i] = f(i, of)
			<-free
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) present() []client {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clients
}

func (w *worker) idle() (list []client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, c := range w.clients {
		if w.held[i] == nil {
			list = append(list, c)
		}
	}
	return list
}

func (w *worker) lock(ctx context.Context, o order) (answer, error) {
	if o.Own {
		return w.lockOwn(ctx, o.Name)
	}
	clients := w.present()
	if o.Clients >= len(clients) {
		return answer{}, fmt.Errorf("there is no client %d", o.Clients)
	}
	release, err := clients[o.Clients].lock(ctx, o.Name)
	if err != nil {
		return answer{}, err
	}
	at := now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[o.Clients] = release
	return answer{At: at}, nil
}

// lockOwn has each client take a lock of its own and keep it until its session ends.
func (w *worker) lockOwn(ctx context.Context, prefix string) (answer, error) {
	err := each(w.present(), func(i int, c client) error {
		_, err := c.lock(ctx, fmt.Sprint(prefix, i))
		return err
	})
	return answer{At: now()}, err
}

func (w *worker) unlock(ctx context.Context, o order) (answer, error) {
	w.mu.Lock()
	release := w.held[o.Clients]
	delete(w.held, o.Clients)
	w.mu.Unlock()
	if release == nil {
		return answer{}, fmt.Errorf("client %d holds nothing", o.Clients)
	}
	at := now()
	return answer{At: at}, release(ctx)
}

func (w *worker) close() error {
	w.mu.Lock()
	clients, p, follows := w.clients, w.place, w.follows
	w.mu.Unlock()
	err := each(clients, func(_ int, c client) error { return c.Close() })
	for _, f := range follows {
		err = errors.Join(err, f.Close())
	}
	if p != nil {
		err = errors.Join(err, p.Close())
	}
	return err
}
