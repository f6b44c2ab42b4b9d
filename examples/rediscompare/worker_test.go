//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
)

// fakeLocker grants at once; its holds are lost after a number of looks.
type fakeLocker struct {
	looks  int
	grants fence.Token
	err    error
}

func (l *fakeLocker) acquire(ctx context.Context, _ string, _ bool) (hold, error) {
	if l.err != nil {
		return nil, l.err
	}
	l.grants++
	return &fakeHold{token: l.grants, left: l.looks}, nil
}
func (l *fakeLocker) ready(context.Context) (status, error) { return status{Voters: 3}, nil }
func (l *fakeLocker) close() error                          { return nil }

type fakeHold struct {
	token fence.Token
	left  int
}

func (h *fakeHold) held(context.Context) bool     { h.left--; return h.left >= 0 }
func (h *fakeHold) value() string                 { return []string{"b", "a", "c"}[h.token%3] }
func (h *fakeHold) release(context.Context) error { return nil }
func (h *fakeHold) grant() fence.Grant {
	return fence.Grant{Cluster: "c", Lock: lockName, Token: h.token}
}

// A worker writes exactly as often as its lock said yes, and contends again after a loss.
func TestWork(t *testing.T) {
	r := testRoom(t)
	w := &worker{name: "a", locker: &fakeLocker{looks: 2}}
	w.beginWork(t.Context(), r.url)
	third := func(v view) bool { return len(v.beliefs) >= 3 }
	if err := r.await(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	if err := w.endWork(); err != nil {
		t.Fatal(err)
	}
	for i, b := range r.view().beliefs[:2] {
		if b.writes != 2 || !b.ended || !b.confirmed {
			t.Errorf("grant %d: %+v", i+1, b)
		}
	}
	if got := r.tally(); got.plain.lost() != 0 || got.fenced.lost() != 0 || got.fenced.acknowledged < 4 || got.overlaps != 0 {
		t.Errorf("%+v", got)
	}
	if err := w.endWork(); err != nil {
		t.Errorf("a second rest: %v", err)
	}
}

// Whoever waits for a worker hears that it cannot go on.
func TestWorkFails(t *testing.T) {
	r := testRoom(t)
	w := &worker{name: "a", locker: &fakeLocker{err: errors.New("no lock")}}
	w.beginWork(t.Context(), r.url)
	err := r.await(t.Context(), func(view) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "a: no lock") {
		t.Errorf("await: %v", err)
	}
	if err := w.endWork(); err == nil || !strings.Contains(err.Error(), "no lock") {
		t.Errorf("rest: %v", err)
	}
}

func TestMeasure(t *testing.T) {
	m, err := measure(t.Context(), &fakeLocker{}, 1, 20*time.Millisecond)
	if err != nil || m.Cycles == 0 || m.Took < 20*time.Millisecond || m.Values != m.Cycles {
		t.Fatalf("%+v, %v", m, err)
	}
	// One of three values is the highest; of the other two one comes before it, at most once.
	if want := m.Cycles / 3; m.Ascending < want || m.Ascending > want+2 {
		t.Errorf("%d of %d in ascending order", m.Ascending, m.Values)
	}
	broken := errors.New("broken")
	if _, err := measure(t.Context(), &fakeLocker{err: broken}, 1, time.Millisecond); !errors.Is(err, broken) {
		t.Errorf("measured a lock that is broken: %v", err)
	}
	if _, err := gather(make([]callerLog, 2), time.Second); err == nil {
		t.Error("no cycle is a measurement")
	}
}

func TestMedian(t *testing.T) {
	m, err := gather([]callerLog{{waits: []time.Duration{9, 1}}, {waits: []time.Duration{5}}}, 2*time.Second)
	if err != nil || m.Median != 5 || m.Cycles != 3 || m.perSecond() != 1.5 {
		t.Errorf("%+v, %v", m, err)
	}
}

// A worker answers each command in its turn, and ends with its input.
func TestRunWorker(t *testing.T) {
	in := strings.NewReader(`{"Verb":"dance"} {"Verb":"rest"}`)
	var out bytes.Buffer
	o := workerOptions{kind: kindRedlock, servers: []string{"127.0.0.1:1"}, ttl: time.Second}
	err := runWorker(t.Context(), o, in, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var replies [2]reply
	answers := json.NewDecoder(&out)
	for i := range replies {
		if err := answers.Decode(&replies[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(replies[0].Error, "dance") || replies[1].Error != "" {
		t.Errorf("%+v", replies)
	}
	if err := runWorker(t.Context(), workerOptions{kind: "paper"}, in, &out, io.Discard); err == nil {
		t.Error("a worker of no kind started")
	}
}
