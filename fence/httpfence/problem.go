package httpfence

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/fence"
)

const problemMedia = "application/problem+json"

// typeBase begins the types of problems. With a code it is a name, never looked up by a program.
const typeBase = "https://github.com/quorumlock/quorumlock/blob/main/docs/design/httpfence.md#"

// The codes of problems; they are part of the interface, so the list only grows.
const (
	codeStale   = "stale-token"
	codeWrong   = "wrong-lock"
	codeNoGrant = "no-grant"
	codeInvalid = "invalid"
	codeNot     = "not-written"
	codeUnknown = "unknown-outcome"
)

// maxText is the most bytes of a text that a checker or next made up. With it, and names of fence.MaxName, a problem fits into
// maxProblem, each byte escaped.
const maxText = 1 << 10

func clipped(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "")
}

// problem is the body of a refusal or failure (RFC 9457). Tokens are decimal strings.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	Resource string      `json:"resource,omitempty"`
	Token    fence.Token `json:"token,omitempty"`
	Highest  fence.Token `json:"highest,omitempty"`
	Lock     string      `json:"lock,omitempty"`
	Guard    string      `json:"guard,omitempty"`
	Field    string      `json:"field,omitempty"`
	Problem  string      `json:"problem,omitempty"`
}

// refusal is the problem of an error by which a checker refuses; nil for other errors.
func refusal(err error) *problem {
	var stale *fence.StaleTokenError
	var wrong *fence.WrongLockError
	var field *fence.FieldError
	switch {
	case errors.As(err, &stale):
		return &problem{
			Type: codeStale, Title: "The fencing token is stale", Status: http.StatusPreconditionFailed, Detail: stale.Error(),
			Resource: stale.Resource, Token: stale.Token, Highest: stale.Highest,
		}
	case errors.As(err, &wrong):
		return &problem{
			Type: codeWrong, Title: "The resource is guarded by another lock", Status: http.StatusConflict, Detail: wrong.Error(),
			Resource: wrong.Resource, Lock: wrong.Lock, Guard: wrong.Guard,
		}
	case errors.Is(err, fence.ErrNoGrant):
		return &problem{
			Type: codeNoGrant, Title: "A fencing token is required", Status: http.StatusPreconditionRequired,
			Detail: "the request has no header " + Header,
		}
	case errors.As(err, &field):
		return &problem{
			Type: codeInvalid, Title: "The grant or the resource is not valid", Status: http.StatusBadRequest, Detail: field.Error(),
			Field: clipped(field.Field), Problem: clipped(cmp.Or(field.Problem, "is not valid")),
		}
	}
	return nil
}

// notWritten is for what failed without a trace. The detail is for the client; what failed within is for OnError.
func notWritten(status int, detail string) *problem {
	return &problem{Type: codeNot, Title: "Nothing was written", Status: status, Detail: detail}
}

func unknownOutcome() *problem {
	return &problem{
		Type: codeUnknown, Title: "The outcome of the write is unknown", Status: http.StatusInternalServerError,
		Detail: "the write was under way when its answer was lost: it may have taken effect",
	}
}

// retryAfter is what clients are asked to wait for, in seconds: the shortest time that Retry-After can say.
const retryAfter = 1

func (p *problem) write(rw http.ResponseWriter) {
	whole := *p
	whole.Type, whole.Detail = typeBase+p.Type, clipped(p.Detail)
	text, err := json.Marshal(whole)
	if err != nil {
		text = nil // cannot be: strings and tokens; the status says enough
	}
	h := rw.Header()
	h.Set("Content-Type", problemMedia)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Del("Content-Encoding")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	rw.WriteHeader(p.Status)
	_, _ = rw.Write(text) // the client that has gone is nobody to tell
}

func (p *problem) code() string {
	code, _ := strings.CutPrefix(p.Type, typeBase)
	return code
}
