package httpfence_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/fencetest"
	"github.com/quorumlock/quorumlock/fence/httpfence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// values is a storage service: values in memory, at /fenced behind a Handler and at /open without one.
type values struct {
	guard fence.Guard

	mu    sync.Mutex
	fence map[string]string
	open  map[string]string
}

func resourceOf(r *http.Request) (string, error) { return r.URL.Query().Get("name"), nil }

func (v *values) routes(opts ...httpfence.Option) http.Handler {
	v.fence, v.open = make(map[string]string), make(map[string]string)
	mux := http.NewServeMux()
	mux.Handle("/fenced", httpfence.Handler(&v.guard, resourceOf, v.serve(v.fence), append(opts, httpfence.SafeMethodsPass())...))
	mux.Handle("/open", v.serve(v.open))
	return mux
}

func (v *values) serve(m map[string]string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("name")
		text, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		switch r.Method {
		case http.MethodPut:
			m[name] = string(text)
			rw.WriteHeader(http.StatusNoContent)
		case http.MethodPost: // a claim
			rw.WriteHeader(http.StatusNoContent)
		case http.MethodGet:
			_, _ = io.WriteString(rw, m[name])
		}
	}
}

// client is the service as its users see it.
type client struct {
	base string
	http *http.Client
}

func newClient(t testing.TB, h http.Handler) *client {
	server := httptest.NewServer(h)
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = 16
	c := &client{server.URL, &http.Client{Transport: &httpfence.Transport{Base: base}}}
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		server.Close()
	})
	return c
}

func (c *client) call(ctx context.Context, method, path, resource, body string) (string, error) {
	u := c.base + path + "?name=" + url.QueryEscape(resource)
	req, err := http.NewRequestWithContext(ctx, method, u, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if err := httpfence.Error(resp); err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode >= 300 {
		return "", fmt.Errorf("%s: %s", resp.Status, text)
	}
	return string(text), err
}

func (c *client) Write(ctx context.Context, resource, value string) error {
	_, err := c.call(ctx, http.MethodPut, "/fenced", resource, value)
	return err
}

func (c *client) Claim(ctx context.Context, resource string) error {
	_, err := c.call(ctx, http.MethodPost, "/fenced", resource, "")
	return err
}

func (c *client) Read(ctx context.Context, resource string) (string, error) {
	return c.call(ctx, http.MethodGet, "/fenced", resource, "")
}

func (c *client) WriteUnfenced(ctx context.Context, resource, value string) error {
	_, err := c.call(ctx, http.MethodPut, "/open", resource, value)
	return err
}

func (c *client) ReadUnfenced(ctx context.Context, resource string) (string, error) {
	return c.call(ctx, http.MethodGet, "/open", resource, "")
}

func TestConforms(t *testing.T) {
	c := newClient(t, new(values).routes())
	fencetest.Run(t, func(*testing.T) fencetest.Backend { return c })
}

func TestRefusesStaleHolders(t *testing.T) {
	fencetest.Stale(t, newClient(t, new(values).routes()), fencetest.Successions(t))
}

// checkerFunc is a checker that the tests make up.
type checkerFunc func(ctx context.Context, resource string, write func(context.Context) error) error

func (f checkerFunc) Do(ctx context.Context, resource string, write func(context.Context) error) error {
	return f(ctx, resource, write)
}

var grant = fence.Grant{Cluster: "cluster-1", Lock: "job-x", Token: 1796157310875344}

// serve has a handler answer a request with a grant, without a network.
func serve(t testing.TB, c fence.Checker, next http.HandlerFunc, opts ...httpfence.Option) *http.Response {
	t.Helper()
	return serveRequest(t, c, next, granted(t, httptest.NewRequest("PUT", "/?name=r", nil)), opts...)
}

func serveRequest(t testing.TB, c fence.Checker, next http.HandlerFunc, r *http.Request, opts ...httpfence.Option) *http.Response {
	rw := httptest.NewRecorder()
	httpfence.Handler(c, resourceOf, next, opts...).ServeHTTP(rw, r)
	return rw.Result()
}

func granted(t testing.TB, r *http.Request) *http.Request {
	t.Helper()
	if err := httpfence.Inject(r.Header, grant); err != nil {
		t.Fatal(err)
	}
	return r
}

// errStore is what goes wrong in a store, with words that are no client's business.
var errStore = errors.New("pq: password authentication failed for user ledger")

func checkStatus(t testing.TB, resp *http.Response, want int) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body)) // for who reads it next
	if resp.StatusCode != want {
		t.Errorf("status %s, want %d: %s", resp.Status, want, body)
	}
	if strings.Contains(string(body), "password") {
		t.Errorf("the client is told what failed within: %s", body)
	}
	return string(body)
}

const bound = 20 * time.Second
