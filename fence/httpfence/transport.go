package httpfence

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/ended"
)

// Transport is an http.RoundTripper that adds the grants of a request's context to its header: that of a Mutex, or all those of
// a MultiMutex, among which the server finds the one that guards its resource (see fence.FromContext; fence.For narrows them
// here). They replace a Header that was set by hand.
//
// Grants go to the host that the request was made for, scheme and port included, and to no other that it is redirected to; the
// server there then refuses it if its resource is fenced. A grant that is not valid fails the request with a *fence.FieldError.
//
// The error of a request with a grant tells whether anything may have been written. It matches ErrNotWritten if nothing was sent:
// the context, such as that of a hold, had ended before, which is found in it with its cause, or no connection could be made. Any
// other error once Base was called matches fence.ErrUnknownOutcome, besides the error and the end of the context, if it has
// ended: a connection that was cut, or a hold that was lost while the answer was under way, says nothing of the write.
// http.Client.Timeout replaces an error by one of its own that tells none of this, so bound requests by their contexts.
//
// net/http sends a request again by itself, after it may have taken effect, if its method is safe or it has an Idempotency-Key or
// X-Idempotency-Key. Those of requests with a grant go out under their lower-case names, which are the same to servers, and do
// not have that effect.
//
// A handler that was fenced and calls other services with its request's context passes the grant on to them, as a trace would be.
//
// The zero value is ready. Its fields must not be changed while it is used.
type Transport struct {
	// Base sends the requests. Default: http.DefaultTransport.
	Base http.RoundTripper
	// Required fails a request that would go out without a grant, with fence.ErrNoGrant. Default: it goes out as it is, so that
	// one client serves fenced and other hosts; Handler answers it with status 428.
	Required bool
}

// RoundTrip is http.RoundTripper.RoundTrip.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	out, err := t.fenced(req)
	if err == nil && shows(out) {
		err = notSent(ended.Err(req.Context()))
	}
	if err != nil {
		if req != nil && req.Body != nil {
			_ = req.Body.Close() // a RoundTripper owes it, on errors too
		}
		return nil, err
	}
	if !shows(out) {
		return t.base().RoundTrip(out)
	}
	return roundTrip(t.base(), out)
}

// CloseIdleConnections is for http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// fenced gives the request to send, req itself if nothing is to be changed: a RoundTripper must not change what is the caller's.
func (t *Transport) fenced(req *http.Request) (*http.Request, error) {
	if req == nil || req.URL == nil {
		return nil, &fence.FieldError{Field: "Request.URL", Problem: "must not be nil"}
	}
	grants, atHome := fence.Grants(req.Context()), sameOrigin(req)
	switch {
	case len(grants) > 0 && atHome:
		out := outgoing(req)
		return out, Inject(out.Header, grants...)
	case t.Required && !atHome:
		return nil, fmt.Errorf("redirected to another host, where the grant does not go: %w", fence.ErrNoGrant)
	case t.Required && !shows(req):
		return nil, fence.ErrNoGrant // http.Client adds method and URL
	case shows(req) && !atHome:
		out := outgoing(req)
		remove(out.Header)
		return out, nil
	case shows(req):
		return outgoing(req), nil
	}
	return req, nil
}

// sameOrigin reports whether req, and each request that a redirect has led here from, goes to the same place. Once led
// elsewhere a request stays without grants even if it is led back: what it says has gone through other hands.
func sameOrigin(req *http.Request) bool {
	place := origin(req.URL)
	for from := req.Response; from != nil; from = from.Request.Response {
		if from.Request == nil || origin(from.Request.URL) != place {
			return false
		}
	}
	return true
}

func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}
