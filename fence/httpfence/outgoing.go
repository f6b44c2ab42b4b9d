package httpfence

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/ended"
)

// idempotent are the headers by which net/http takes any request for one that it may send twice. It looks for these very spellings.
var idempotent = [...]string{"Idempotency-Key", "X-Idempotency-Key"}

// outgoing is a copy of req which net/http sends once. An idempotency key that is there without a value is not sent at all: who
// sets it asks net/http for the repetition and nothing else, and has it.
func outgoing(req *http.Request) *http.Request {
	out := req.Clone(req.Context())
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	for _, key := range idempotent {
		if values := out.Header[key]; len(values) > 0 {
			delete(out.Header, key)
			out.Header[strings.ToLower(key)] = values
		}
	}
	return out
}

// roundTrip sends a request that shows a grant.
func roundTrip(base http.RoundTripper, req *http.Request) (*http.Response, error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	traced := req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
	resp, err := base.RoundTrip(traced)
	if err == nil {
		if resp != nil && resp.Request == traced {
			resp.Request = req
		}
		return resp, nil
	}
	if !connected.Load() && undialled(err) {
		return nil, notSent(err)
	}
	return nil, unknown(req.Context(), err)
}

// undialled reports whether err is of a connection that could not be made. By itself it proves nothing: a Base that repeats
// requests may have sent an earlier copy, but on a connection that it got.
func undialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func notSent(err error) error {
	if err == nil {
		return nil
	}
	return ended.Join(ErrNotWritten, err)
}

func unknown(ctx context.Context, err error) error {
	return ended.Join(fence.ErrUnknownOutcome, err, ended.Err(ctx))
}

// shows reports whether a request goes out with a grant, under any spelling of Header: net/http sends, and copies to where a
// redirect leads, what was put into the map by hand.
func shows(req *http.Request) bool {
	for key := range req.Header {
		if strings.EqualFold(key, Header) {
			return true
		}
	}
	return false
}

func remove(h http.Header) {
	for key := range h {
		if strings.EqualFold(key, Header) {
			delete(h, key)
		}
	}
}
