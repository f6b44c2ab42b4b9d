package httpfence

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/quorumlock/quorumlock/fence"
)

// Handler runs next as a fenced write: as one step of c, with the grant of the request's Header and, as the checker gives it,
// its transaction in the context of the request. resource names what a request writes to; it must not read the request's body.
//
// The response of next is held back until the step is committed, so that no commit that fails looks like success. Statuses of 400
// and more roll the step back, and the response goes out all the same. So does a panic, http.ErrAbortHandler among them, which
// then goes on as if there were no Handler. A client that goes away cancels the context, and with it the step. What next did to
// anything else, and to what is behind a fence.Guard or any checker that cannot take it back (see fence.Rollbacker), stands:
// there next answers with 400 or more before it writes, and what fails otherwise is an unknown outcome.
//
// What next leaves running when it returns writes past the fence. So http.TimeoutHandler, which leaves its handler running, must
// not be in next; a deadline of the request's context bounds a step, the wait for its turn included.
//
// A checker that repeats a step, as after a serialization failure, runs next once more with the request as it came; so what
// next does outside the transaction may be done twice.
//
// Refusals and failures are answered by a problem (RFC 9457, application/problem+json), which Error turns into a Go error again:
//
//	412  the token is stale
//	409  another lock guards the resource
//	428  no Header
//	400  a Header or a resource that is not valid; or none of several grants is of a lock named like the resource
//	503  the checker failed before next ran, or the step cannot be repeated: nothing was written, Retry-After says when to try again
//	500  the response was too long, its Content-Length not that of the body, or its status not one that can be held back; or the
//	     Handler is not set up right: nothing was written
//	500  next ran, and then the checker failed: the outcome is unknown. So it is if next says so by Fail
//
// As to the details of a response: 1xx statuses are not passed on, and 101 is refused, since a connection cannot be taken over
// while its answer is held back. Flush and Hijack are not supported and say so (http.ErrNotSupported); deadlines can be set by
// http.ResponseController. Trailers are sent. HEAD works as with net/http. With an argument or option that is nil, or one that is
// bad, every request is answered with status 500, and OnError is told the *fence.FieldError.
func Handler(c fence.Checker, resource func(*http.Request) (string, error), next http.Handler, opts ...Option) http.Handler {
	h := &handler{checker: c, resource: resource, next: next, maxResponse: defaultResponse, readAhead: defaultReadAhead}
	for _, opt := range opts {
		if opt == nil {
			h.nilOption = true
			continue
		}
		opt(h)
	}
	h.invalid = h.check()
	return h
}

type handler struct {
	checker                fence.Checker
	resource               func(*http.Request) (string, error)
	next                   http.Handler
	maxResponse, readAhead int
	safePass, nilOption    bool
	onError                func(*http.Request, error)
	invalid                error
}

func (h *handler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if h.invalid != nil {
		h.fail(rw, r, notWritten(http.StatusInternalServerError, "the fence is not set up"), h.invalid)
		return
	}
	if h.safePass && safe(r.Method) {
		h.next.ServeHTTP(rw, withoutGrants(r))
		return
	}
	ctx, err := Extract(r)
	if err != nil {
		h.fail(rw, r, refusal(err), err)
		return
	}
	resource, err := h.resource(r)
	if err != nil {
		h.fail(rw, r, failure(err), err)
		return
	}
	s := h.newStep(rw, r)
	h.end(rw, r, s, h.checker.Do(ctx, resource, s.run))
}

// end answers a request whose step has ended. Doubt comes first: the checker's, or that of a run about what it wrote past the
// step. If the last run of next failed the step was rolled back, whatever else the checker says; only a refusal that is not of a
// run's making, but came when the checker was to repeat it, says more.
func (h *handler) end(rw http.ResponseWriter, r *http.Request, s *step, err error) {
	switch refused := refusal(err); {
	case s.panicked != nil:
		h.goOn(r, s.panicked)
	case errors.Is(err, fence.ErrUnknownOutcome):
		h.fail(rw, r, unknownOutcome(), err)
	case s.doubt != nil:
		h.fail(rw, r, unknownOutcome(), s.doubt)
	case s.ran && s.failed == nil && err == nil:
		s.response.send(rw)
	case refused != nil && s.failed != nil && !isOfRun(err):
		h.fail(rw, r, h.rolledBack(refused), err)
	case s.failed != nil:
		h.endFailed(rw, r, s)
	case err == nil:
		h.fail(rw, r, notWritten(http.StatusInternalServerError, "the fence is not set up"), errNotRun)
	case refused != nil:
		h.fail(rw, r, refused, err)
	case !s.ran:
		h.fail(rw, r, notWritten(http.StatusServiceUnavailable, "the fence could not be asked"), err)
	case errors.Is(err, fence.ErrNotWritten) && !isOfRun(err):
		h.fail(rw, r, notWritten(http.StatusServiceUnavailable, "the step was taken back"), err)
	default:
		h.fail(rw, r, unknownOutcome(), err)
	}
}

// endFailed answers for the last run, which failed. What next answered with is its own to say.
func (h *handler) endFailed(rw http.ResponseWriter, r *http.Request, s *step) {
	switch {
	case errors.Is(s.failed, errStatus):
		s.response.send(rw)
	case errors.Is(s.failed, errNotRepeatable):
		p := notWritten(http.StatusServiceUnavailable, "the step was to be repeated, and the request is too long for that")
		h.fail(rw, r, h.rolledBack(p), s.failed)
	default:
		p := failure(s.failed)
		if p.Type == codeNot {
			p = h.rolledBack(p)
		}
		h.fail(rw, r, p, s.failed)
	}
}

// rolledBack is p, which says that nothing was written, if that can be said of a run that has failed.
func (h *handler) rolledBack(p *problem) *problem {
	if fence.RollsBack(h.checker) {
		return p
	}
	return unknownOutcome()
}

// goOn lets a panic of next go on as if there were no Handler.
func (h *handler) goOn(r *http.Request, p *PanicError) {
	if p.Value != http.ErrAbortHandler {
		h.report(r, p)
	}
	panic(p.Value)
}

// failure is the problem of a request of which resource makes nothing, or that next has made fail without an answer of its own.
func failure(err error) *problem {
	if errors.Is(err, fence.ErrUnknownOutcome) { // of a write past the step; it may match a refusal too
		return unknownOutcome()
	}
	if p := refusal(err); p != nil {
		return p
	}
	return notWritten(http.StatusInternalServerError, "the request failed on the server")
}

var errNotRun = errors.New("the checker returned nil and did not run the write")

func (h *handler) fail(rw http.ResponseWriter, r *http.Request, p *problem, err error) {
	h.report(r, err)
	p.write(rw)
}

func (h *handler) report(r *http.Request, err error) {
	if h.onError != nil {
		h.onError(r, err)
	}
}

func withoutGrants(r *http.Request) *http.Request {
	if len(fence.Grants(r.Context())) == 0 {
		return r
	}
	return r.WithContext(fence.NewContext(r.Context()))
}

// safe says which methods ask for no change (RFC 9110, 9.2.1).
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// PanicError is a panic of the handler that was fenced, for OnError.
type PanicError struct {
	Value any
	Stack []byte // of the panic; when it goes on, net/http logs that of Handler
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
