package conformance

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// proxy stands between a client and a server, and can do to writes what networks and proxies do. It counts what it did, so that
// a test can tell whether its fault bit.
type proxy struct {
	addr string
	next string // address of the server
	http *http.Client

	loseAnswer atomic.Int64                                // of this many writes the server's answer is lost
	twice      atomic.Bool                                 // each write is sent twice, and the second answer returned
	strip      atomic.Value                                // name of a header that is taken off
	hold       atomic.Bool                                 // writes arrive nowhere, and get no answer
	cutRead    func(w io.Writer, etag string, body []byte) // answers each read of an object, and the connection ends; nil if the server does

	bitten atomic.Int64 // requests that a fault befell
}

func newProxy(t testing.TB, next string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	p := &proxy{addr: l.Addr().String(), next: next, http: &http.Client{Transport: transport}}
	p.strip.Store("")
	server := &http.Server{Handler: p, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
		transport.CloseIdleConnections()
	})
	return p
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	answer, err := p.forward(r, body)
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection without a word
	}
	defer answer.Body.Close()
	if p.cutRead != nil && r.Method == http.MethodGet {
		p.cut(w, answer)
		return
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

func (p *proxy) cut(w http.ResponseWriter, answer *http.Response) {
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return
	}
	conn, out, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	p.bitten.Add(1)
	p.cutRead(out, answer.Header.Get("ETag"), body)
	_ = out.Flush()
}

func (p *proxy) forward(r *http.Request, body []byte) (*http.Response, error) {
	if r.Method != http.MethodPut {
		return p.send(r, body)
	}
	if p.hold.Load() {
		p.bitten.Add(1)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if name := p.strip.Load().(string); r.Header.Get(name) != "" {
		p.bitten.Add(1)
		r.Header.Del(name)
	}
	answer, err := p.send(r, body)
	if err != nil {
		return nil, err
	}
	switch {
	case p.loseAnswer.Add(-1) >= 0:
		p.bitten.Add(1)
		answer.Body.Close()
		return nil, io.ErrUnexpectedEOF
	case p.twice.Load():
		p.bitten.Add(1)
		answer.Body.Close()
		return p.send(r, body)
	}
	return answer, nil
}

func (p *proxy) send(r *http.Request, body []byte) (*http.Response, error) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+p.next+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = r.Header.Clone()
	out.Host = r.Host
	return p.http.Do(out)
}
