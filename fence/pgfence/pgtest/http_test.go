package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/httpfence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
)

// repeating is a checker of one's own over pgfence: unlike a Store it runs a write again that failed for others' sake, which is
// right for those that can be repeated, as the requests of a Handler can.
type repeating struct{ *world }

func (r repeating) Do(ctx context.Context, resource string, write func(ctx context.Context) error) error {
	return pgfence.Tx(ctx, r.DB, resource, func(ctx context.Context, _ *sql.Tx) error { return write(ctx) }, r.opts...)
}

// tally is an HTTP service. All its resources share the balance of account a, so that writers of different ones, which no fence
// orders, conflict: each request adds the number in its body, in two statements, and of two at once one would be lost if the
// database let both commit.
type tally struct {
	url    string
	client *http.Client
	// between, if set, is called between the two statements of a request, with its id and the number of the run.
	between func(id string, run int)

	mu        sync.Mutex
	runs      map[string][]fence.Grant // of each request, by its id: the grant that each run was under
	conflicts int                      // statements that failed with 40001
}

const idHeader = "Request-Id"

func newTally(t *testing.T, c fence.Checker) *tally {
	s := &tally{runs: map[string][]fence.Grant{}}
	resource := func(r *http.Request) (string, error) { return strings.TrimPrefix(r.URL.Path, "/"), nil }
	server := httptest.NewServer(httpfence.Handler(c, resource, s))
	base := http.DefaultTransport.(*http.Transport).Clone()
	s.url, s.client = server.URL, &http.Client{Transport: &httpfence.Transport{Base: base, Required: true}}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		server.Close()
	})
	return s
}

func (s *tally) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	total, err := s.serve(r)
	if err != nil {
		s.failed(err)
		httpfence.Fail(r, err)
		return
	}
	fmt.Fprint(rw, total)
}

func (s *tally) serve(r *http.Request) (total int, err error) {
	ctx := r.Context()
	g, err := fence.FromContext(ctx, "")
	if err != nil {
		return 0, err
	}
	id := r.Header.Get(idHeader)
	run := s.began(id, g)
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return 0, err
	}
	tx, ok := pgfence.TxFrom(ctx)
	if !ok {
		return 0, errors.New("no transaction in the context")
	}
	if err := tx.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = 'a'").Scan(&total); err != nil {
		return 0, err
	}
	if s.between != nil {
		s.between(id, run)
	}
	return total + n, set(total+n)(ctx, tx)
}

func (s *tally) began(id string, g fence.Grant) (run int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[id] = append(s.runs[id], g)
	return len(s.runs[id])
}

func (s *tally) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stateOf(err) == "40001" {
		s.conflicts++
	}
}

// add is a request as a client makes it. The error is that of httpfence.Error, which takes no other status than 412 for that of
// a stale token.
func (s *tally) add(ctx context.Context, resource, id string, n int) (total int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/"+resource, strings.NewReader(strconv.Itoa(n)))
	if err != nil {
		return 0, err
	}
	req.Header.Set(idHeader, id)
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if err := httpfence.Error(resp); err != nil {
		return 0, err
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %q, %w", resp.Status, text, err)
	}
	return strconv.Atoi(string(text))
}

// ran checks how often a request was run, each time under one token.
func (s *tally) ran(t *testing.T, id string, want int, token fence.Token) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := len(s.runs[id]); got != want {
		t.Errorf("%s was run %d times, want %d", id, got, want)
	}
	s.under(t, id, token)
}

func (s *tally) under(t *testing.T, id string, token fence.Token) {
	t.Helper()
	for _, g := range s.runs[id] {
		if g.Token != token || g.Lock != "job-x" || g.Cluster != "cluster-1" {
			t.Errorf("%s was run under %v", id, g)
		}
	}
}

// serializable is a world of that level in which the holder of 42 has claimed the resources. Without that its predecessor would
// be let in between two runs of its first write: what is rolled back takes the claim along.
func serializable(t *testing.T, w *world, resources ...string) *pgfence.Store {
	t.Helper()
	w.opts = []pgfence.Option{pgfence.Isolation(sql.LevelSerializable)}
	w.SetMaxOpenConns(32)
	w.SetMaxIdleConns(32)
	store, err := pgfence.New(w.DB, w.opts...)
	must(t, err)
	for _, r := range resources {
		must(t, fence.Claim(w.holder(42), store, r))
	}
	return store
}

// collide has a request, "mine", that adds 1 under token 42, overtaken between its read and its write by "rival", which adds 10
// by way of another resource. A stale client of the first one, "late", waits for it meanwhile, and is refused.
func (s *tally) collide(t *testing.T, w *world) (total int, err error) {
	t.Helper()
	reached, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	s.between = func(id string, run int) {
		if id == "mine" && run == 1 {
			close(reached)
			<-goOn
		}
	}
	mine := start(func() (err error) { total, err = s.add(w.holder(42), "a", "mine", 1); return err })
	select {
	case <-reached:
	case err := <-mine.err:
		t.Fatalf("never got to its write: %v", err)
	}
	if got, err := s.add(w.holder(42), "b", "rival", 10); got != 110 || err != nil {
		t.Fatalf("rival: %d, %v", got, err)
	}
	late := start(func() error { _, err := s.add(w.holder(41), "a", "late", 1000); return err })
	w.blocked(t, 1)
	release()
	err = <-mine.err
	late.end(t, fence.ErrStaleToken)
	s.ran(t, "late", 0, 41)
	s.ran(t, "rival", 1, 42)
	if s.conflicts != 1 {
		t.Errorf("%d conflicts in the handler: the fault did not bite as it should", s.conflicts)
	}
	return total, err
}

// A serialization failure within a handler, told by Fail: the checker runs the request again, with its body and under its token,
// and the client has one answer, that of the run which was committed.
func TestHandlerIsRepeated(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		serializable(t, w, "a", "b")
		s := newTally(t, repeating{w})
		if total, err := s.collide(t, w); total != 111 || err != nil {
			t.Errorf("answered %d, %v", total, err)
		}
		s.ran(t, "mine", 2, 42)
		w.has(t, 111)
	})
}

// A Store runs a request once, so the client is told that nothing was written, and repeats it by itself.
func TestHandlerOnStoreIsNotRepeated(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		s := newTally(t, serializable(t, w, "a", "b"))
		if total, err := s.collide(t, w); !errors.Is(err, httpfence.ErrNotWritten) {
			t.Errorf("answered %d, %v", total, err)
		}
		s.ran(t, "mine", 1, 42)
		w.has(t, 110)
		if total, err := s.add(w.holder(42), "a", "again", 1); total != 111 || err != nil {
			t.Errorf("again: %d, %v", total, err)
		}
	})
}

// Many clients at once, beside stale ones: every acknowledged request has counted once.
func TestHandlersCountExactly(t *testing.T) {
	const each = 40
	names := []string{"r0", "r1", "r2", "r3"}
	eachDriver(t, func(t *testing.T, w *world) {
		serializable(t, w, names...)
		s := newTally(t, repeating{w})
		var clients sync.WaitGroup
		for _, name := range names {
			clients.Go(func() {
				for n := range each {
					if _, err := s.add(w.holder(42), name, fmt.Sprint(name, n), 1); err != nil {
						t.Errorf("%s, %d: %v", name, n, err)
					}
				}
			})
			clients.Go(func() {
				for n := range each {
					if _, err := s.add(w.holder(41), name, "late", 1000); !errors.Is(err, fence.ErrStaleToken) {
						t.Errorf("%s, late, %d: %v", name, n, err)
					}
				}
			})
		}
		clients.Wait()
		w.has(t, 100+len(names)*each)
		s.ran(t, "late", 0, 41)
		runs := 0
		for id, list := range s.runs {
			s.under(t, id, 42)
			runs += len(list)
		}
		repeated := runs - len(names)*each
		if repeated == 0 || s.conflicts == 0 {
			t.Errorf("%d requests repeated, %d conflicts in handlers: the fault did not bite", repeated, s.conflicts)
		}
		t.Logf("%d requests, %d more runs, %d conflicts in handlers", len(names)*each, repeated, s.conflicts)
	})
}
