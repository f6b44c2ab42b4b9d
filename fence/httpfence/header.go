package httpfence

import (
	"context"
	"net/http"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/grantlist"
)

// Header is the header field that carries grants:
//
//	Quorumlock-Grant: token=1796157310875344;cluster=5f0c9d;lock=job-x
//
// The token is a decimal number; cluster and lock are percent-encoded, since names are any UTF-8. The parts may come in any
// order. The grants of a MultiMutex are a list, separated by commas or on lines of their own: at most 64 grants, and 16 KiB.
const Header = "Quorumlock-Grant"

// Inject sets Header to the grants, in place of what is there. Without any the error is fence.ErrNoGrant, and a
// *fence.FieldError if one is not valid, two are of one lock, or they are too long together, or h is nil; h is left as it is then.
//
// A header set by hand follows a redirect to any host, since net/http copies it; Transport takes it off.
func Inject(h http.Header, grants ...fence.Grant) error {
	list, err := grantlist.Encode(grants)
	switch {
	case err != nil:
		return err
	case h == nil:
		return &fence.FieldError{Field: "h", Problem: "must not be nil"}
	}
	remove(h)
	h.Set(Header, list)
	return nil
}

// Extract gives the request's context with the grants of its Header. The error is fence.ErrNoGrant if there is no such header,
// and a *fence.FieldError if it is not exactly what Header says; the context carries no grant then, so that checkers refuse it.
func Extract(r *http.Request) (context.Context, error) {
	if r == nil {
		return context.Background(), &fence.FieldError{Field: "r", Problem: "must not be nil"}
	}
	lines := r.Header.Values(Header)
	if len(lines) == 0 {
		return fence.NewContext(r.Context()), fence.ErrNoGrant
	}
	grants, err := grantlist.Decode(Header, lines)
	if err != nil {
		return fence.NewContext(r.Context()), err
	}
	return fence.NewContext(r.Context(), grants...), nil
}
