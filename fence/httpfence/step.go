package httpfence

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime/debug"

	"github.com/quorumlock/quorumlock/fence"
)

// What makes a step roll back, beside a panic.
var (
	errStatus        = errors.New("the response is an error")
	errNotRepeatable = errors.New("the step cannot be repeated: more of the request has been read than was read ahead")
)

type causeKey struct{}

// Fail tells the checker why a request fails that a Handler has passed on: the step is rolled back, and a checker that repeats
// steps, as after a serialization failure, repeats this one. If it does not, the answer is that of an unknown outcome if err
// matches fence.ErrUnknownOutcome; else the response goes out if its status is 400 or more; without one the answer is that to a
// refusal if err is one, and status 500 otherwise. Outside a Handler, and with a nil r or err, Fail does nothing.
func Fail(r *http.Request, err error) {
	if r == nil || err == nil {
		return
	}
	if cause, ok := r.Context().Value(causeKey{}).(*error); ok {
		*cause = err
	}
}

// step is one request as the write of a checker. A checker may run it several times, one after the other; what counts is the
// last run.
type step struct {
	h        *handler
	request  *http.Request
	header   http.Header // of the response as next finds it
	control  *http.ResponseController
	body     *body
	ran      bool
	response *response   // of the last run
	failed   error       // why the last run is to be rolled back
	panicked *PanicError // of the last run
	doubt    error       // of any run, that matches fence.ErrUnknownOutcome
}

// runError is what the checker is told of a run that failed. It is a type of this package, so that it is known again in whatever
// the checker makes of it: an error of next may have no equality, and be found where next has nothing to do with it.
type runError struct{ error }

func (e *runError) Unwrap() error { return e.error }

func isOfRun(err error) bool {
	var run *runError
	return errors.As(err, &run)
}

func (h *handler) newStep(rw http.ResponseWriter, r *http.Request) *step {
	s := &step{h: h, request: r, header: rw.Header().Clone(), control: http.NewResponseController(rw)}
	if r.Body != nil && r.Body != http.NoBody {
		s.body = readAhead(r.Body, h.readAhead)
	}
	return s
}

// run is the write that the checker is given. An error rolls it back.
func (s *step) run(ctx context.Context) error {
	s.ran, s.panicked = true, nil
	s.response = newResponse(s.header, s.control, s.request.Method, s.h.maxResponse)
	if s.failed = s.serve(ctx); s.failed == nil {
		return nil
	}
	if errors.Is(s.failed, fence.ErrUnknownOutcome) {
		s.doubt = s.failed
	}
	return &runError{s.failed}
}

// serve catches a panic only to tell the checker, so that no step is committed that was broken off half way.
func (s *step) serve(ctx context.Context) (err error) {
	cause := new(error)
	r, err := s.fresh(context.WithValue(ctx, causeKey{}, cause))
	if err != nil {
		return err
	}
	defer func() {
		if r.MultipartForm != nil {
			_ = r.MultipartForm.RemoveAll() // the server removes only those of the request that it has made
		}
	}()
	defer func() {
		if v := recover(); v != nil {
			s.panicked = &PanicError{Value: v, Stack: debug.Stack()}
			err = s.panicked
		}
	}()
	s.h.next.ServeHTTP(s.response, r)
	return s.response.end(*cause)
}

// fresh is the request as it came, whatever an earlier run has done to it.
func (s *step) fresh(ctx context.Context) (*http.Request, error) {
	r := s.request.Clone(ctx)
	r.Trailer = s.request.Trailer // filled in when the body has been read
	if s.body == nil {
		return r, nil
	}
	if s.body.restRead {
		return nil, errNotRepeatable
	}
	r.Body = s.body.open()
	return r, nil
}

// body is a request's body of which the first part has been read already.
type body struct {
	ahead    []byte
	failed   error // why no more could be read; nil if there is more
	rest     io.Reader
	restRead bool
}

func readAhead(src io.Reader, most int) *body {
	var ahead bytes.Buffer
	_, err := io.CopyN(&ahead, src, int64(most))
	return &body{ahead: ahead.Bytes(), failed: err, rest: src}
}

// open gives the body from its beginning. Closing it has no effect: the server closes its own.
func (b *body) open() io.ReadCloser {
	return io.NopCloser(io.MultiReader(bytes.NewReader(b.ahead), (*rest)(b)))
}

// rest is what has not been read ahead.
type rest body

func (r *rest) Read(p []byte) (int, error) {
	if r.failed != nil {
		return 0, r.failed
	}
	n, err := r.rest.Read(p)
	r.restRead = r.restRead || n > 0
	return n, err
}
