//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// workerOptions is what one worker process is started with.
type workerOptions struct {
	kind    string
	name    string
	ttl     time.Duration
	servers []string // redlock: addresses of the servers; quorumlock: of the nodes
	primary string   // single: URL that tells the primary's address
	addr    string   // quorumlock: address of the node
	dir     string   // quorumlock: data directory, "" for none
}

// The commands that a worker takes from its standard input, one JSON value each. Each is answered on standard output before
// the next one is read.
const (
	verbReady   = "ready"   // wait until locks are granted; the answer has the status
	verbWork    = "work"    // begin to contend for the lock and to work under it; answered at once
	verbRest    = "rest"    // stop that; answered when the lock is given back
	verbMeasure = "measure" // lock and unlock for a while
)

type command struct {
	Verb    string
	Store   string        `json:",omitempty"` // work: URL of the store
	Callers int           `json:",omitempty"` // measure
	For     time.Duration `json:",omitempty"` // measure
}

type reply struct {
	Error       string `json:",omitempty"`
	Status      status
	Measurement measurement
}

// lockName is the lock of the workers. Measuring uses names of its own.
const lockName = "job-x"

// worker is one of the processes that contend.
type worker struct {
	name   string
	locker locker

	// While it works.
	rest   context.CancelFunc
	worked chan error
}

// runWorker obeys until in ends, as it does when the parent is gone.
func runWorker(ctx context.Context, o workerOptions, in io.Reader, out, stderr io.Writer) (err error) {
	logging.Disable() // the client tells of each connection that breaks, which is what happens here
	l, err := openLocker(ctx, o, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	w := &worker{name: o.name, locker: l}
	defer w.endWork()
	commands, replies := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var c command
		if err := commands.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read command: %w", err)
		}
		r, err := w.obey(ctx, c)
		if err != nil {
			r.Error = err.Error()
		}
		if err := replies.Encode(r); err != nil {
			return fmt.Errorf("write reply: %w", err)
		}
	}
}

func openLocker(ctx context.Context, o workerOptions, stderr io.Writer) (locker, error) {
	switch o.kind {
	case kindSingle:
		return &singleLocker{client: redisClient("primary", toPrimary(o.primary)), ttl: o.ttl}, nil
	case kindRedlock:
		return newRedlock(o.servers, o.ttl), nil
	case kindQuorum:
		log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		node, err := quorumlock.Open(ctx, quorumlock.Config{
			Cluster: "rediscompare", Name: o.name, Addr: o.addr, Join: o.servers, Expect: len(o.servers), Dir: o.dir,
			SessionTTL: o.ttl, Logger: quorumlock.SlogLogger(log),
		})
		if err != nil {
			return nil, err
		}
		return &quorumLocker{node: node}, nil
	}
	return nil, fmt.Errorf("no such kind of worker: %q", o.kind)
}

func (w *worker) obey(ctx context.Context, c command) (r reply, err error) {
	switch c.Verb {
	case verbReady:
		ctx, cancel := demokit.Within(ctx, startBound, "not ready")
		defer cancel()
		r.Status, err = w.locker.ready(ctx)
	case verbWork:
		w.beginWork(ctx, c.Store)
	case verbRest:
		err = w.endWork()
	case verbMeasure:
		r.Measurement, err = measure(ctx, w.locker, c.Callers, c.For)
	default:
		err = fmt.Errorf("no such command: %q", c.Verb)
	}
	return r, err
}

func (w *worker) beginWork(ctx context.Context, storeURL string) {
	ctx, w.rest = context.WithCancel(ctx)
	w.worked = make(chan error, 1)
	go func() {
		err := w.work(ctx, storeURL)
		if err != nil { // somebody may wait for what will not come
			message := failedMessage{Worker: w.name, Error: err.Error()}
			err = errors.Join(err, post(context.WithoutCancel(ctx), storeURL+"/failed", message, &struct{}{}))
		}
		w.worked <- err
	}()
}

func (w *worker) endWork() error {
	if w.rest == nil {
		return nil
	}
	w.rest()
	w.rest = nil
	return <-w.worked
}

// work contends for the lock, works while it is held, and contends again after a loss, until ctx ends.
func (w *worker) work(ctx context.Context, storeURL string) error {
	for ctx.Err() == nil {
		h, err := w.locker.acquire(ctx, lockName, true)
		if ctx.Err() != nil && err != nil {
			return nil
		}
		if err != nil {
			return err
		}
		err = w.workUnder(ctx, h, storeURL)
		releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseBound)
		_ = h.release(releasing) // one that was lost is no news; one that the system does not hear of expires
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	releaseBound = 5 * time.Second
	// preparation stands for the work proper, between reading and writing.
	preparation = 20 * time.Millisecond
)

// workUnder increments the counter while the lock is held. It asks before each increment whether it is. The process may be
// stopped after that question, for any time, and so it may after a second question right before the write; so there is one.
//
// Messages outlive ctx: a write that is broken off half way leaves nobody knowing whether it took place.
func (w *worker) workUnder(ctx context.Context, h hold, url string) error {
	send := context.WithoutCancel(ctx)
	var last stamped
	granted := grantedMessage{Worker: w.name}
	if g := h.grant(); g != (fence.Grant{}) {
		granted.Grant = &g
	}
	if err := post(send, url+"/granted", granted, &last); err != nil {
		return err
	}
	id := last.ID
	for ctx.Err() == nil && h.held(send) {
		var v values
		if err := post(send, url+"/read", readMessage{ID: id, Held: last.At}, &v); err != nil {
			return err
		}
		time.Sleep(preparation)
		v.Plain++
		v.Fenced++
		if err := post(send, url+"/write", writeMessage{ID: id, values: v}, &last); err != nil {
			return err
		}
	}
	return post(send, url+"/ended", endedMessage{ID: id}, &struct{}{})
}
