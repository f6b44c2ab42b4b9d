package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/httpfence"
)

// write is one call of append and what it must come to.
type write struct {
	token    quorumlock.Token
	instance string
	seq      int
	want     error // nil: accepted
}

func TestLedgerAppend(t *testing.T) {
	stale, disorder := quorumlock.ErrStaleToken, errOutOfOrder
	for name, writes := range map[string][]write{
		"one term":                {{5, "a", 1, nil}, {5, "a", 2, nil}},
		"successor":               {{5, "a", 1, nil}, {7, "b", 1, nil}, {7, "b", 2, nil}},
		"late write":              {{5, "a", 1, nil}, {7, "b", 1, nil}, {5, "a", 2, stale}, {7, "b", 2, nil}},
		"late by two terms":       {{5, "a", 1, nil}, {7, "b", 1, nil}, {9, "a", 1, nil}, {7, "b", 2, stale}, {5, "a", 2, stale}},
		"same instance again":     {{5, "a", 1, nil}, {7, "a", 1, nil}, {5, "a", 2, stale}},
		"gap":                     {{5, "a", 1, nil}, {5, "a", 3, disorder}, {5, "a", 2, nil}},
		"begins late":             {{5, "a", 2, disorder}, {5, "a", 1, nil}},
		"twice":                   {{5, "a", 1, nil}, {5, "a", 1, disorder}},
		"token of somebody else":  {{5, "a", 1, nil}, {5, "b", 2, disorder}},
		"refused write counts":    {{7, "b", 9, disorder}, {5, "a", 1, stale}}, // the guard has seen 7 all the same
		"zero is no token":        {{0, "a", 1, quorumlock.ErrInvalid}},
		"negative is no token":    {{-3, "a", 1, quorumlock.ErrInvalid}},
		"a stale one comes twice": {{7, "b", 1, nil}, {5, "a", 1, stale}, {5, "a", 1, stale}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			for i, w := range writes {
				before := l.view()
				index, err := l.append(w.token, w.instance, w.seq)
				if w.want == nil && err != nil || w.want != nil && !errors.Is(err, w.want) {
					t.Fatalf("write %d %+v: %v", i, w, err)
				}
				checkRecorded(t, before, l.view(), w, index)
			}
		})
	}
}

// checkRecorded demands that a write has left exactly the trace that its outcome asks for.
func checkRecorded(t *testing.T, before, after ledgerView, w write, index int) {
	t.Helper()
	type trace struct{ entries, refused, faults int }
	got := trace{len(after.entries) - len(before.entries), len(after.refused) - len(before.refused), len(after.faults) - len(before.faults)}
	var want trace
	switch {
	case w.want == nil:
		want.entries = 1
		if e := (entry{Index: len(after.entries), Token: w.token, Instance: w.instance, Seq: w.seq}); after.last() != e || index != e.Index {
			t.Errorf("recorded %+v at %d, want %+v", after.last(), index, e)
		}
	case errors.Is(w.want, quorumlock.ErrStaleToken):
		want.refused = 1
		if r := after.refused[len(after.refused)-1]; r.Token != w.token || r.Instance != w.instance || r.Seq != w.seq || r.Highest <= r.Token {
			t.Errorf("refusal %+v of %+v", r, w)
		}
	case errors.Is(w.want, errOutOfOrder):
		want.faults = 1
	}
	if got != want {
		t.Errorf("write %+v left %+v, want %+v", w, got, want)
	}
}

func TestLedgerTerms(t *testing.T) {
	l := newLedger()
	for _, w := range []write{{5, "a", 1, nil}, {5, "a", 2, nil}, {7, "b", 1, nil}, {5, "a", 3, nil}, {9, "a", 1, nil}} {
		_, _ = l.append(w.token, w.instance, w.seq)
	}
	v := l.view()
	want := []term{{5, "a", 2}, {7, "b", 1}, {9, "a", 1}}
	if got := v.terms(); len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("terms %+v, want %+v", got, want)
	}
	if v.accepted(5) != 2 || v.refusals(5) != 1 || v.accepted(6) != 0 || v.refusals(9) != 0 {
		t.Errorf("counts of %+v", v)
	}
}

func TestLedgerAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		go func() {
			for seq := 1; seq <= 3; seq++ {
				time.Sleep(time.Second)
				_, _ = l.append(5, "a", seq)
			}
		}()
		start := time.Now()
		if err := l.await(t.Context(), func(v ledgerView) bool { return len(v.entries) == 2 }); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("woken after %v", took)
		}
		late := errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, late)
		defer cancel()
		if err := l.await(ctx, func(v ledgerView) bool { return len(v.refused) > 0 }); !errors.Is(err, late) {
			t.Errorf("await ended with %v", err)
		}
	})
}

// A view is of one moment: what comes later must not show in it, nor may a reader race with writers.
func TestLedgerViewStands(t *testing.T) {
	l := newLedger()
	_, _ = l.append(5, "a", 1)
	v := l.view()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for seq := 2; seq < 200; seq++ {
			_, _ = l.append(5, "a", seq)
		}
	}()
	for range 200 {
		if v.accepted(5) != 1 || v.last().Seq != 1 {
			t.Fatal("a view changed")
		}
	}
	<-done
}

func TestLedgerClient(t *testing.T) {
	l := newLedger()
	server := httptest.NewServer(l)
	defer server.Close()
	a, b := newLedgerClient(server.URL+"/", "web 1&x=y"), newLedgerClient(server.URL, "b")
	held := func(token quorumlock.Token) context.Context {
		return fence.NewContext(t.Context(), fence.Grant{Cluster: "leader-example", Lock: electionName, Token: token})
	}
	if err := a.append(held(5), 1); err != nil {
		t.Fatal(err)
	}
	if got := l.view().last().Instance; got != "web 1&x=y" {
		t.Errorf("instance arrived as %q", got)
	}
	if err := b.append(held(7), 1); err != nil {
		t.Fatal(err)
	}
	var stale *quorumlock.StaleTokenError
	if err := a.append(held(5), 2); !errors.As(err, &stale) || stale.Token != 5 || stale.Highest != 7 {
		t.Errorf("late write: %v", err)
	}
	if err := b.append(held(7), 3); err == nil || errors.Is(err, quorumlock.ErrStaleToken) || !strings.Contains(err.Error(), errOutOfOrder.Error()) {
		t.Errorf("gap: %v", err)
	}
	server.Close()
	if err := b.append(held(7), 2); err == nil || errors.Is(err, quorumlock.ErrStaleToken) {
		t.Errorf("ledger gone: %v", err)
	}
}

func TestLedgerServesOnlyWhatItKnows(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		method, path, token, body string
		want                      int
	}{
		"append":           {"POST", "/append", "5", "instance=a&seq=1", http.StatusOK},
		"no token":         {"POST", "/append", "", "instance=a&seq=1", http.StatusBadRequest},
		"zero token":       {"POST", "/append", "0", "instance=a&seq=1", http.StatusBadRequest},
		"words for token":  {"POST", "/append", "high", "instance=a&seq=1", http.StatusBadRequest},
		"no instance":      {"POST", "/append", "5", "seq=1", http.StatusBadRequest},
		"no sequence":      {"POST", "/append", "5", "instance=a", http.StatusBadRequest},
		"a gap":            {"POST", "/append", "5", "instance=a&seq=2", http.StatusConflict},
		"too long":         {"POST", "/append", "5", "instance=a&seq=1&pad=" + strings.Repeat("x", 1<<20), http.StatusBadRequest},
		"append by GET":    {"GET", "/append", "5", "", http.StatusNotFound},
		"list":             {"GET", "/", "", "", http.StatusOK},
		"somewhere else":   {"GET", "/admin", "", "", http.StatusNotFound},
		"POST to the list": {"POST", "/", "5", "instance=a&seq=1", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
			r.Header.Set("Content-Type", form)
			r.Header.Set(httpfence.Header, "cluster=leader-example;lock="+electionName+";token="+c.token)
			rw := httptest.NewRecorder()
			l.ServeHTTP(rw, r)
			if rw.Code != c.want {
				t.Errorf("status %d %s, want %d", rw.Code, rw.Body, c.want)
			}
			if appended := len(l.view().entries) == 1; appended != (name == "append") {
				t.Errorf("appended: %v", appended)
			}
		})
	}
}
