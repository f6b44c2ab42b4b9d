//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/httpfence"
)

// clientBackend is the service as its clients see it, as the conformance suite asks for it.
type clientBackend struct{ *documents }

func (b clientBackend) Write(ctx context.Context, resource, value string) error {
	return b.put(ctx, fenced, resource, []byte(value))
}
func (b clientBackend) Claim(ctx context.Context, resource string) error {
	return b.claim(ctx, resource)
}
func (b clientBackend) Read(ctx context.Context, resource string) (string, error) {
	content, err := b.get(ctx, fenced, resource)
	return string(content), err
}
func (b clientBackend) WriteUnfenced(ctx context.Context, resource, value string) error {
	return b.put(ctx, unfenced, resource, []byte(value))
}
func (b clientBackend) ReadUnfenced(ctx context.Context, resource string) (string, error) {
	content, err := b.get(ctx, unfenced, resource)
	return string(content), err
}

// newService serves a store on a port.
func newService(t testing.TB, s store) *documents {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	web, err := serve((&service{store: s, log: log}).routes(), log)
	must(t, err)
	d := newDocuments(web.url)
	t.Cleanup(func() {
		d.close()
		must(t, web.stop())
	})
	return d
}

// brokenStore accepts every grant and can keep nothing.
type brokenStore struct{ fence.Guard }

var errBroken = errors.New("connection to ledger@db-7 lost")

func (s *brokenStore) put(context.Context, section, string, []byte) error { return errBroken }
func (s *brokenStore) get(context.Context, section, string) ([]byte, error) {
	return nil, errBroken
}
func (s *brokenStore) close() error { return nil }

// What is refused for other reasons than the fence's has the status that says so, changes nothing, and tells nothing of
// the inside.
func TestServiceStatuses(t *testing.T) {
	long := strings.Repeat("x", maxDocument+1)
	for name, c := range map[string]struct {
		broken             bool
		method, path, body string
		status             int
	}{
		"no name":             {false, "GET", "/documents", "", http.StatusBadRequest},
		"two names":           {false, "PUT", "/documents?name=a&name=b", "", http.StatusBadRequest},
		"bad query":           {false, "PUT", "/documents?name=%zz", "", http.StatusBadRequest},
		"unfenced, no name":   {false, "PUT", "/unfenced?name=", "", http.StatusBadRequest},
		"absent":              {false, "GET", "/documents?name=a", "", http.StatusNotFound},
		"method":              {false, "DELETE", "/documents?name=a", "", http.StatusMethodNotAllowed},
		"claim by GET":        {false, "GET", "/claims?name=a", "", http.StatusMethodNotAllowed},
		"too long":            {false, "PUT", "/documents?name=a", long, http.StatusRequestEntityTooLarge},
		"unfenced, too long":  {false, "PUT", "/unfenced?name=a", long, http.StatusRequestEntityTooLarge},
		"store broken":        {true, "PUT", "/documents?name=a", "", http.StatusInternalServerError},
		"store broken, open":  {true, "PUT", "/unfenced?name=a", "", http.StatusInternalServerError},
		"store broken, reads": {true, "GET", "/documents?name=a", "", http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			var s store = newBolt(t)
			if c.broken {
				s = new(brokenStore)
			}
			req := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
			must(t, httpfence.Inject(req.Header, fence.Grant{Cluster: "cluster-1", Lock: lockName, Token: 42}))
			rw := httptest.NewRecorder()
			(&service{store: s, log: slog.New(slog.DiscardHandler)}).routes().ServeHTTP(rw, req)
			text, err := io.ReadAll(rw.Result().Body)
			must(t, err)
			if rw.Code != c.status {
				t.Errorf("status %d, want %d: %s", rw.Code, c.status, text)
			}
			if strings.Contains(string(text), "db-7") {
				t.Errorf("the client is told what failed within: %s", text)
			}
			if b, ok := s.(*boltStore); ok {
				must(t, fence.Claim(holder(t.Context(), 1), b, "a")) // nothing was kept of it
			}
		})
	}
}

// The client tells what the service answers apart: a refusal is an error of package fence, anything else a status.
func TestDocumentsErrors(t *testing.T) {
	d := newService(t, new(brokenStore))
	var status *statusError
	if err := d.put(holder(t.Context(), 1), fenced, "a", nil); !errors.As(err, &status) || status.status != http.StatusInternalServerError {
		t.Errorf("put: %v", err)
	}
	if err := d.put(t.Context(), fenced, "a", nil); !errors.Is(err, fence.ErrNoGrant) {
		t.Errorf("put without a grant: %v", err)
	}
}
