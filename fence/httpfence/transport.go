package httpfence

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/quorumlock/quorumlock/fence"
)

// Transport is an http.RoundTripper that adds the grants of a request's context to its header: that of a Mutex, or all those of
// a MultiMutex, among which the server finds the one that guards its resource (see fence.FromContext; fence.For narrows them
// here). They replace a Header that was set by hand.
//
// Grants go to the host that the request was made for, scheme and port included, and to no other that it is redirected to; the
// server there then refuses it if its resource is fenced. A grant that is not valid fails the request with a *fence.FieldError.
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
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper owes it, on errors too
		}
		return nil, err
	}
	return t.base().RoundTrip(out)
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
	grants := fence.Grants(req.Context())
	atHome := sameOrigin(req)
	if !atHome {
		grants = nil
	}
	byHand := len(req.Header.Values(Header)) > 0
	switch {
	case len(grants) > 0:
		out := req.Clone(req.Context())
		if out.Header == nil {
			out.Header = make(http.Header)
		}
		return out, Inject(out.Header, grants...)
	case t.Required && !atHome:
		return nil, fmt.Errorf("redirected to another host, where the grant does not go: %w", fence.ErrNoGrant)
	case t.Required && !byHand:
		return nil, fence.ErrNoGrant // http.Client adds method and URL
	case byHand && !atHome:
		out := req.Clone(req.Context())
		out.Header.Del(Header)
		return out, nil
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
