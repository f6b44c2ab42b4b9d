package httpfence_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/httpfence"
)

// server serves next behind a handler of an in-memory guard, or of c, over a real connection.
func server(t *testing.T, c fence.Checker, next http.HandlerFunc, opts ...httpfence.Option) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(httpfence.Handler(c, resourceOf, next, opts...))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // panics that are meant
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func send(t *testing.T, method, url string, body io.Reader) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(fence.NewContext(t.Context(), grant), bound)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url+"/?name=r", body)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: &httpfence.Transport{Base: transport}}).Do(req)
	if err == nil {
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	return resp, err
}

// A response arrives as without a handler between, but for what cannot be held back.
func TestResponseOverTheWire(t *testing.T) {
	next := func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Trailer", "X-Sum, x-more")
		rw.Header().Set("X-Before", "1")
		rw.WriteHeader(201)
		rw.Header().Set("X-Late", "must not appear")
		fmt.Fprint(rw, "<html>body")
		rw.WriteHeader(500)
		rw.Header().Set("X-Sum", "42")
		rw.Header().Set("X-More", "43")
		rw.Header().Set(http.TrailerPrefix+"X-Free", "44")
	}
	for _, method := range []string{"PUT", "HEAD"} {
		plain := httptest.NewUnstartedServer(http.HandlerFunc(next))
		plain.Config.ErrorLog = log.New(io.Discard, "", 0) // the second status that is meant
		plain.Start()
		t.Cleanup(plain.Close)
		want, err := send(t, method, plain.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := send(t, method, server(t, new(fence.Guard), next).URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if have, wanted := describe(t, got), describe(t, want); have != wanted {
			t.Errorf("%s: fenced\n%s\nplain\n%s", method, have, wanted)
		}
	}
}

func describe(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Header.Del("Date")
	return fmt.Sprint(resp.Status, resp.Header, string(body), resp.Trailer, resp.ContentLength)
}

// What would send before the commit is not there, and says so.
func TestNothingIsSentBeforeTheCommit(t *testing.T) {
	s := server(t, new(fence.Guard), func(rw http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(rw)
		_, _, err := control.Hijack()
		_, flusher := rw.(http.Flusher)
		_, hijacker := rw.(http.Hijacker)
		fmt.Fprintln(rw, errors.Is(control.Flush(), http.ErrNotSupported), errors.Is(err, http.ErrNotSupported), flusher, hijacker,
			control.SetReadDeadline(time.Now().Add(bound)), control.SetWriteDeadline(time.Now().Add(bound)))
	})
	resp, err := send(t, "PUT", s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := checkStatus(t, resp, 200); got != "true true false false <nil> <nil>\n" {
		t.Error(got)
	}
}

// The answer is held back until the commit has come to an end, however long that takes.
func TestAnswerWaitsForTheCommit(t *testing.T) {
	ran, commit := make(chan struct{}), make(chan error)
	s := server(t, checkerFunc(func(ctx context.Context, _ string, write func(context.Context) error) error {
		if err := write(ctx); err != nil {
			return err
		}
		close(ran)
		return <-commit
	}), func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "written") })
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /?name=r HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s: token=1;cluster=c;lock=l\r\n\r\n", httpfence.Header)
	<-ran
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes before the commit, %v", n, err)
	}
	commit <- errStore
	if err := conn.SetReadDeadline(time.Now().Add(bound)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := httpfence.Error(resp); !errors.Is(err, fence.ErrUnknownOutcome) {
		t.Error(err)
	}
	checkStatus(t, resp, 500)
}

func TestPanicOverTheWire(t *testing.T) {
	var store commits
	s := server(t, &store, breaksOff(&store, http.ErrAbortHandler))
	if resp, err := send(t, "PUT", s.URL, nil); err == nil {
		t.Errorf("answered with %s", resp.Status)
	}
	if store.committed != "" {
		t.Error("committed")
	}
}

// A client that goes away cancels the step, also while it waits for its turn.
func TestClientGoingAwayCancels(t *testing.T) {
	var guard fence.Guard
	began, ended := make(chan struct{}), make(chan error, 2)
	s := server(t, &guard, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		httpfence.Fail(r, r.Context().Err())
	}, httpfence.OnError(func(_ *http.Request, err error) { ended <- err }))
	ctx, leave := context.WithCancel(fence.NewContext(t.Context(), grant))
	answers := make(chan error, 2)
	call := func() {
		req, err := http.NewRequestWithContext(ctx, "PUT", s.URL+"/?name=r", strings.NewReader("a body"))
		if err == nil {
			_, err = (&http.Client{Transport: &httpfence.Transport{Base: &http.Transport{DisableKeepAlives: true}}}).Do(req)
		}
		answers <- err
	}
	go call()
	<-began
	go call() // waits for its turn, or has not come that far
	leave()
	for range 2 {
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(bound):
		t.Fatal("the step goes on")
	}
}

// A sender that is slow, or sends nothing at all, keeps nobody else waiting for the resource.
func TestSlowSenderHoldsNothingUp(t *testing.T) {
	var guard fence.Guard
	s := server(t, &guard, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /?name=r HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n%s: token=1;cluster=c;lock=job-x\r\n\r\n", httpfence.Header)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the body is not asked for: %q, %v", line, err)
	}
	resp, err := send(t, "PUT", s.URL, strings.NewReader("quick"))
	if err != nil {
		t.Fatal(err)
	}
	checkStatus(t, resp, 200)
}

// Trailers of a request are there when its body has been read, whether that was ahead or within the step.
func TestRequestTrailers(t *testing.T) {
	for _, ahead := range []int{0, 2, 100} {
		s := server(t, new(fence.Guard), func(rw http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprint(rw, string(body), err, r.Trailer.Get("X-Sum"))
		}, httpfence.ReadAhead(ahead))
		ctx := fence.NewContext(t.Context(), grant)
		req, err := http.NewRequestWithContext(ctx, "PUT", s.URL+"/?name=r", io.NopCloser(strings.NewReader("body")))
		if err != nil {
			t.Fatal(err)
		}
		req.Trailer = http.Header{"X-Sum": {"42"}}
		resp, err := (&http.Client{Transport: &httpfence.Transport{Base: &http.Transport{DisableKeepAlives: true}}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := checkStatus(t, resp, 200); got != "body<nil>42" {
			t.Errorf("with %d read ahead: %q", ahead, got)
		}
	}
}

// A header that something around the handler has set is next's to change and to take away, as without a fence.
func TestHeadersOfMiddleware(t *testing.T) {
	h := httpfence.Handler(new(fence.Guard), resourceOf, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Del("X-Gone")
		rw.Header().Set("X-Changed", "after")
	}))
	rw := httptest.NewRecorder()
	for _, key := range []string{"X-Gone", "X-Changed", "X-Kept"} {
		rw.Header().Set(key, "before")
	}
	h.ServeHTTP(rw, granted(t, httptest.NewRequest("PUT", "/?name=r", nil)))
	if got := rw.Result().Header; got.Get("X-Gone") != "" || got.Get("X-Changed") != "after" || got.Get("X-Kept") != "before" {
		t.Errorf("header %v", got)
	}
}
