package httpfence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/quorumlock/quorumlock/fence"
)

var (
	// ErrNotWritten is fence.ErrNotWritten: the request was not sent, or the server failed, and the step was not committed, so
	// nothing was written in it. With status 503 the same request may be sent again.
	ErrNotWritten = fence.ErrNotWritten
	// ErrMalformed: the answer may be one of Handler, and cannot be read: it was cut off, or read before. Whether anything was
	// written is not known, so it comes with fence.ErrUnknownOutcome.
	ErrMalformed = errors.New("malformed answer of a fence")
)

// maxProblem is the most bytes read of a problem: twice what Handler writes for the longest names, each byte escaped.
const maxProblem = 32 << 10

// Error gives the error by which a server's Handler has refused a request or failed: a *fence.StaleTokenError, a
// *fence.WrongLockError, fence.ErrNoGrant, a *fence.FieldError, ErrNotWritten, fence.ErrUnknownOutcome, or ErrMalformed. It is
// nil for every other response, whatever its status, and for none: those of the handler that is fenced, and of proxies on the
// way, are for the caller to judge, so look at the status too. (A proxy's 502 or 504 may stand for a write that took effect.) So
// are those to HEAD, which have no body.
//
// Call it before anything else reads the body. Error reads at most 32 KiB of it, and only if its media type is that of a
// problem; what it read can be read again. Closing the body remains the caller's.
func Error(resp *http.Response) error {
	if resp == nil || resp.StatusCode < 400 || resp.Body == nil || isHead(resp) {
		return nil
	}
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media != problemMedia {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	resp.Body = &reread{io.MultiReader(bytes.NewReader(text), &ending{resp.Body, err}), resp.Body}
	switch {
	case err != nil:
		return malformed(resp.StatusCode, err)
	case len(text) == 0:
		return malformed(resp.StatusCode, errors.New("the body has been read, or is empty"))
	}
	return refusedBy(resp.StatusCode, text)
}

// refusedBy gives the error of a body, nil for that of somebody else.
func refusedBy(status int, text []byte) error {
	var kind struct{ Type string }
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&kind); err != nil {
		// One that is longer than any of Handler was not cut off by the network, and is Handler's only if it says so.
		if errors.Is(err, io.ErrUnexpectedEOF) && (len(text) < maxProblem || bytes.Contains(text, []byte(typeBase))) {
			return malformed(status, err)
		}
		return nil
	}
	if !strings.HasPrefix(kind.Type, typeBase) {
		return nil
	}
	var p problem
	if err := json.Unmarshal(text, &p); err != nil {
		return malformed(status, err)
	}
	return p.refused(status)
}

func malformed(status int, err error) error {
	return fmt.Errorf("%w: status %d: %w: %w", ErrMalformed, status, err, fence.ErrUnknownOutcome)
}

func isHead(resp *http.Response) bool {
	return resp.Request != nil && resp.Request.Method == http.MethodHead
}

type reread struct {
	io.Reader
	io.Closer
}

// ending is what follows the part that was read: the error that ended it, if one did.
type ending struct {
	io.Reader
	err error
}

func (e *ending) Read(b []byte) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	return e.Reader.Read(b)
}

// refused gives the error that a problem tells of.
func (p *problem) refused(status int) error {
	if !p.plausible(status) {
		return malformed(status, fmt.Errorf("type %.100q", p.Type))
	}
	switch p.code() {
	case codeStale:
		return &fence.StaleTokenError{Resource: p.Resource, Token: p.Token, Highest: p.Highest}
	case codeWrong:
		return &fence.WrongLockError{Resource: p.Resource, Lock: p.Lock, Guard: p.Guard}
	case codeNoGrant:
		return fence.ErrNoGrant
	case codeInvalid:
		return &fence.FieldError{Field: p.Field, Problem: p.Problem}
	case codeUnknown:
		return fence.ErrUnknownOutcome
	}
	return fmt.Errorf("%w: %.200q", ErrNotWritten, p.Detail)
}

// plausible says whether Handler can have written it, so that nothing else is taken for a refusal.
func (p *problem) plausible(status int) bool {
	switch p.code() {
	case codeStale:
		return status == http.StatusPreconditionFailed && fence.CheckResource(p.Resource) == nil && p.Token > 0 && p.Highest >= p.Token
	case codeWrong:
		return status == http.StatusConflict && fence.CheckResource(p.Resource) == nil && p.Lock != p.Guard
	case codeNoGrant:
		return status == http.StatusPreconditionRequired
	case codeInvalid:
		return status == http.StatusBadRequest && p.Problem != ""
	case codeNot, codeUnknown:
		return status >= 500
	}
	return false
}
