//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// paper is a place whose locks are mutexes of the process.
type paper struct {
	mu    sync.Mutex
	locks map[string]chan struct{}
	open  int
}

func (p *paper) client(context.Context, time.Duration) (client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open++
	return &paperClient{p}, nil
}

func (p *paper) Close() error { return nil }

type paperClient struct{ p *paper }

func (c *paperClient) lock(ctx context.Context, name string) (func(context.Context) error, error) {
	c.p.mu.Lock()
	l := c.p.locks[name]
	if l == nil {
		l = make(chan struct{}, 1)
		c.p.locks[name] = l
	}
	c.p.mu.Unlock()
	select {
	case l <- struct{}{}:
		return func(context.Context) error { <-l; return nil }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *paperClient) Close() error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.open--
	return nil
}

func TestWorkerCycles(t *testing.T) {
	p := &paper{locks: map[string]chan struct{}{}}
	w := &worker{place: p, held: map[int]func(context.Context) error{}}
	ctx := t.Context()
	if _, err := w.act(ctx, order{Verb: verbClients, Clients: 4}); err != nil {
		t.Fatal(err)
	}
	start := now()
	o := order{Verb: verbCycle, Name: "x", Log: true, Part: 2, Start: start, Count: start.add(20 * time.Millisecond), End: start.add(60 * time.Millisecond)}
	a, err := w.act(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if a.Cycles == 0 || len(a.Grants) <= a.Cycles { // those before the window are told, not counted
		t.Errorf("%d cycles, %d grants", a.Cycles, len(a.Grants))
	}
	if _, err := inTurn(a.Grants); err != nil {
		t.Error(err)
	}
	if c := a.Grants[0].Client; c < 2*clientsPerWorker || c >= 2*clientsPerWorker+4 {
		t.Errorf("client %d of worker 2", c)
	}
	c, err := joined([]answer{a, {}, a})
	if err != nil || c.cycles != 2*a.Cycles || c.waits.count() != int64(2*a.Cycles) || len(c.grants) != 2*len(a.Grants) {
		t.Errorf("joined: %d cycles, %d waits, %d grants, %v", c.cycles, c.waits.count(), len(c.grants), err)
	}
	if err := w.close(); err != nil || p.open != 0 {
		t.Errorf("%d clients are open, %v", p.open, err)
	}
}

// Who holds the lock does not queue for it, and the others have it once each.
func TestWorkerQueue(t *testing.T) {
	w := &worker{place: &paper{locks: map[string]chan struct{}{}}, held: map[int]func(context.Context) error{}}
	ctx := t.Context()
	for _, o := range []order{{Verb: verbClients, Clients: 5}, {Verb: verbLock, Name: "x"}} {
		if _, err := w.act(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan answer)
	go func() { done <- w.obey(ctx, order{Verb: verbQueue, Name: "x"}) }()
	freed, err := w.act(ctx, order{Verb: verbUnlock})
	if err != nil {
		t.Fatal(err)
	}
	a := <-done
	if a.Error != "" || len(a.Grants) == 0 {
		t.Fatalf("%+v", a)
	}
	list, err := inTurn(a.Grants)
	if err != nil || list[0].Granted < freed.At {
		t.Errorf("%v, first %v after the release", err, list[0].Granted.sub(freed.At))
	}
	if _, err := w.act(ctx, order{Verb: verbUnlock}); err == nil {
		t.Error("what is not held was given back")
	}
}

// Orders are answered out of order, each under its own number; a worker ends with its input.
func TestProtocol(t *testing.T) {
	in, orders := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- runWorker(t.Context(), in, out); _ = out.Close() }()
	for _, line := range []string{`{"id":1,"verb":"paint"}`, `{"id":2,"verb":"cycle"}`, `{"id":3,"verb":"open","place":{"system":"paper"}}`,
		`{"id":4,"verb":"clients","clients":1}`, `{"id":5,"verb":"floor","name":"roof"}`} {
		if _, err := io.WriteString(orders, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	wants := map[int]string{1: `no such order: "paint"`, 2: "", 3: `no such system: "paper"`, 4: "nothing was opened", 5: `no such limit: "roof"`}
	for dec := json.NewDecoder(answers); len(wants) > 0; {
		var a answer
		if err := dec.Decode(&a); err != nil {
			t.Fatal(err)
		}
		if want, ok := wants[a.ID]; !ok || a.Error != want {
			t.Errorf("answer %d: %q, want %q", a.ID, a.Error, want)
		}
		delete(wants, a.ID)
	}
	_ = orders.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestProtocolBroken(t *testing.T) {
	if err := runWorker(t.Context(), strings.NewReader("{no order}"), io.Discard); err == nil || !strings.Contains(err.Error(), "read order") {
		t.Errorf("%v", err)
	}
}

// The driver's end: an answer reaches who asked, an error is one, and neither a dead worker nor an impatient caller blocks.
func TestProcess(t *testing.T) {
	l := demokit.NewLauncher()
	defer l.Close()
	p, err := startSelf(l, "worker 0", "worker")
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	ctx := t.Context()
	if a, err := p.ask(ctx, order{Verb: verbFollow}); err != nil || a.Addr == "" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := p.ask(ctx, order{Verb: "paint"}); err == nil || err.Error() != `worker 0 paint: no such order: "paint"` {
		t.Errorf("%v", err)
	}
	waiting := order{Verb: verbCycle, Start: now().add(time.Hour)}
	short, cancel := demokit.Within(ctx, 20*time.Millisecond, "no patience")
	defer cancel()
	if _, err := p.ask(short, waiting); err == nil || !strings.Contains(err.Error(), "no patience within 20ms") {
		t.Errorf("%v", err)
	}
	asked := make(chan error, 1)
	go func() { _, err := p.ask(ctx, waiting); asked <- err }()
	p.kill()
	if err := <-asked; !errors.Is(err, errGone) && !errors.Is(err, io.ErrClosedPipe) {
		// The order may have met a pipe that nobody reads any more.
		if !strings.Contains(err.Error(), "broken pipe") && !strings.Contains(err.Error(), "file already closed") {
			t.Errorf("%v", err)
		}
	}
	if !p.gone() {
		t.Error("it is still there")
	}
}
