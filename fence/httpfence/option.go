package httpfence

import (
	"net/http"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/arg"
)

// Option is an option of Handler.
type Option func(*handler)

const (
	defaultResponse  = 1 << 20
	defaultReadAhead = 1 << 20
)

// MaxResponse is the most bytes of a response's body, which is held back until the step is committed. A response that has more
// is not sent: the step fails, and the answer is status 500. Default 1 MiB.
func MaxResponse(bytes int) Option { return func(h *handler) { h.maxResponse = bytes } }

// ReadAhead is how many bytes of a request's body are read before the step begins, so that a slow sender keeps nobody waiting
// for the resource. What follows is read within the step; a step of which that has been read cannot be repeated by a checker
// that retries, and is given up with status 503. Default 1 MiB.
func ReadAhead(bytes int) Option { return func(h *handler) { h.readAhead = bytes } }

// SafeMethodsPass lets GET, HEAD, OPTIONS and TRACE pass unfenced: they go to next as they are, with no grant in their context
// and nothing held back. Default: every request is fenced.
func SafeMethodsPass() Option { return func(h *handler) { h.safePass = true } }

// OnError has report called with each error that a request was answered with a problem for: the refusals of the checker, and
// what failed, which the answer does not tell the client. A panic of next is reported as a *PanicError, before it goes on.
// Calls come from the goroutines of the requests, many at once.
func OnError(report func(r *http.Request, err error)) Option {
	return func(h *handler) { h.onError = report }
}

// check is nil if the handler can work.
func (h *handler) check() error {
	missing := func(field string) error {
		return &fence.FieldError{Field: "Handler." + field, Problem: "must not be nil"}
	}
	switch {
	case arg.IsNil(h.checker):
		return missing("c")
	case h.resource == nil:
		return missing("resource")
	case arg.IsNil(h.next):
		return missing("next")
	case h.nilOption:
		return missing("opts")
	case h.maxResponse < 0:
		return &fence.FieldError{Field: "MaxResponse", Value: h.maxResponse, Problem: "must not be negative"}
	case h.readAhead < 0:
		return &fence.FieldError{Field: "ReadAhead", Value: h.readAhead, Problem: "must not be negative"}
	}
	return nil
}
