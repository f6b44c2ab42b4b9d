//go:build unix

package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// talker is a worker without a lock: a test says when it reads and writes.
type talker struct {
	t    *testing.T
	url  string
	last stamped
	v    values
}

func talk(t *testing.T, r *room, worker string, token fence.Token) *talker {
	t.Helper()
	w := &talker{t: t, url: r.url}
	m := grantedMessage{Worker: worker}
	if token > 0 {
		m.Grant = &fence.Grant{Cluster: "c", Lock: lockName, Token: token}
	}
	w.post("/granted", m, &w.last)
	return w
}

func (w *talker) post(path string, q, a any) {
	w.t.Helper()
	if err := post(w.t.Context(), w.url+path, q, a); err != nil {
		w.t.Fatal(err)
	}
}

func (w *talker) read() {
	w.t.Helper()
	w.v = values{}
	w.post("/read", readMessage{ID: w.last.ID, Held: w.last.At}, &w.v)
}

func (w *talker) write() {
	w.t.Helper()
	w.v.Plain++
	w.v.Fenced++
	w.post("/write", writeMessage{ID: w.last.ID, values: w.v}, &w.last)
}

func testRoom(t *testing.T) *room {
	t.Helper()
	r, err := openRoom()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.close(); http.DefaultClient.CloseIdleConnections() })
	return r
}

func TestLateWrite(t *testing.T) {
	for name, c := range map[string]struct {
		tokens                [2]fence.Token
		plain, fenced, refuse int // lost, lost, refused
	}{
		"rising tokens":      {[2]fence.Token{7, 8}, 2, 0, 1},
		"equal tokens":       {[2]fence.Token{7, 7}, 2, 2, 0}, // a counter that was lost in a fail-over
		"no tokens, no copy": {[2]fence.Token{}, 2, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := testRoom(t)
			a := talk(t, r, "a", c.tokens[0])
			a.read()
			b := talk(t, r, "b", c.tokens[1])
			for range 2 {
				b.read()
				b.write()
			}
			a.write()
			got := r.tally()
			if got.plain.lost() != c.plain || got.fenced.lost() != c.fenced || got.refused != c.refuse {
				t.Errorf("lost %d and %d, refused %d: %+v", got.plain.lost(), got.fenced.lost(), got.refused, got)
			}
			if want := c.tokens != [2]fence.Token{}; got.tokens != want || got.grants != 2 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A reader that comes too late is told so, and writes nothing behind the fence.
func TestLateRead(t *testing.T) {
	r := testRoom(t)
	a, b := talk(t, r, "a", 7), talk(t, r, "b", 8)
	b.read()
	a.read()
	if !a.v.Refused {
		t.Fatal("a stale reader may claim")
	}
	a.write()
	if got := r.tally(); got.fenced.acknowledged != 0 || got.refused != 0 || got.plain.acknowledged != 1 {
		t.Errorf("%+v", got)
	}
}

// A stamp counts only when the worker has asked its lock after it.
func TestBeliefEndsWithTheLastConfirmation(t *testing.T) {
	r := testRoom(t)
	a := talk(t, r, "a", 0)
	if b := r.view().beliefs[0]; b.confirmed {
		t.Fatalf("confirmed by the grant alone: %+v", b)
	}
	a.read()
	first := a.last.At
	a.write()
	if b := r.view().beliefs[0]; !b.confirmed || b.end != first || a.last.At <= first {
		t.Fatalf("%+v, first stamp %v, last %v", b, first, a.last.At)
	}
	b := talk(t, r, "b", 0)
	b.read()
	if n := r.tally().overlaps; n != 0 {
		t.Fatalf("%d overlaps before a confirms a later stamp", n)
	}
	a.write() // its stamp lies within b's belief
	b.write()
	b.read()
	a.read()
	if n := r.tally().overlaps; n != 1 {
		t.Errorf("%d overlaps, want 1", n)
	}
}

func TestTrap(t *testing.T) {
	r := testRoom(t)
	a := talk(t, r, "a", 7)
	sprung := 0
	r.trap("b", func() { t.Error("the trap of another worker was sprung") })
	r.trap("a", func() { sprung++ })
	a.read()
	a.read()
	if sprung != 1 {
		t.Errorf("sprung %d times", sprung)
	}
}

func TestAwait(t *testing.T) {
	r := testRoom(t)
	never := func(view) bool { return false }
	ctx, cancel := demokit.Within(t.Context(), time.Millisecond, "nothing came")
	defer cancel()
	if err := r.await(ctx, never); err == nil || !strings.Contains(err.Error(), "nothing came") {
		t.Errorf("ended with %v", err)
	}
	failed := make(chan error)
	go func() { failed <- r.await(context.Background(), never) }()
	if err := post(t.Context(), r.url+"/failed", failedMessage{"a", "no lock"}, &struct{}{}); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "a: no lock") {
		t.Errorf("a worker failed, await says %v", err)
	}
}

func TestUnknownGrant(t *testing.T) {
	r := testRoom(t)
	for path, m := range map[string]any{
		"/read": readMessage{ID: 1}, "/write": writeMessage{ID: -1}, "/ended": endedMessage{ID: 0}, "/granted": "?",
	} {
		if err := post(t.Context(), r.url+path, m, &struct{}{}); err == nil {
			t.Errorf("%s was taken", path)
		}
	}
	if got := r.tally(); got != (tally{}) {
		t.Errorf("%+v", got)
	}
}

// repeat must not go on after a failure, nor forget an earlier round.
func TestRepeat(t *testing.T) {
	n := 0
	sum, err := repeat(t.Context(), 3, func(_ context.Context, r *room) error {
		n++
		r.granted(grantedMessage{Worker: "a"})
		return nil
	})
	if err != nil || sum.grants != 3 {
		t.Errorf("%+v, %v", sum, err)
	}
	broken := errors.New("broken")
	n = 0
	_, err = repeat(t.Context(), 3, func(context.Context, *room) error { n++; return broken })
	if !errors.Is(err, broken) || n != 1 {
		t.Errorf("%d rounds, %v", n, err)
	}
}
