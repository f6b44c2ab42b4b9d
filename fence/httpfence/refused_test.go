package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/httpfence"
)

const problemType = "https://github.com/quorumlock/quorumlock/blob/main/docs/design/httpfence.md#"

func answer(status int, media, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body))}
}

// A server that lies, is broken, or is no fence at all is not taken for one that refused, and what it said remains to be read.
func TestErrorOfHostileAnswers(t *testing.T) {
	const media = "application/problem+json"
	stale := func(members string) string { return `{"type":"` + problemType + `stale-token",` + members + `}` }
	good := stale(`"resource":"r","token":"41","highest":"42"`)
	broken := httpfence.ErrMalformed
	for name, c := range map[string]struct {
		status      int
		media, body string
		want        error // nil: not a fence's
	}{
		"good":                     {412, media, good, fence.ErrStaleToken},
		"good, with a charset":     {412, media + "; charset=utf-8", good, fence.ErrStaleToken},
		"good, with more members":  {412, media, stale(`"resource":"r","token":"41","highest":"42","instance":"/x","more":[1]`), fence.ErrStaleToken},
		"precondition of the app":  {412, "text/plain", "If-Match", nil},
		"problem of the app":       {412, media, `{"type":"https://example.com/out-of-credit","token":"41"}`, nil},
		"problem without a type":   {412, media, `{}`, nil},
		"type is no string":        {412, media, `{"type":7}`, nil},
		"not JSON":                 {412, media, `<html>`, nil},
		"no body":                  {412, media, ``, broken},
		"another media type":       {412, "application/json", good, nil},
		"two media types":          {412, media + ", text/html", good, nil},
		"success":                  {200, media, good, nil},
		"redirect":                 {302, media, good, nil},
		"status of another":        {409, media, good, broken},
		"unknown type of ours":     {412, media, `{"type":"` + problemType + `out-of-cheese"}`, broken},
		"empty type of ours":       {412, media, `{"type":"` + problemType + `"}`, broken},
		"no token":                 {412, media, stale(`"resource":"r","highest":"42"`), broken},
		"zero token":               {412, media, stale(`"resource":"r","token":"0","highest":"42"`), broken},
		"token as a number":        {412, media, stale(`"resource":"r","token":41,"highest":"42"`), broken},
		"token over 64 bits":       {412, media, stale(`"resource":"r","token":"99999999999999999999","highest":"42"`), broken},
		"not stale":                {412, media, stale(`"resource":"r","token":"43","highest":"42"`), broken},
		"no resource":              {412, media, stale(`"token":"41","highest":"42"`), broken},
		"control character":        {412, media, stale(`"resource":"r\u001b[2J","token":"41","highest":"42"`), broken},
		"resource too long":        {412, media, stale(`"resource":"` + strings.Repeat("r", 513) + `","token":"41","highest":"42"`), broken},
		"wrong lock that is right": {409, media, `{"type":"` + problemType + `wrong-lock","resource":"r","lock":"l","guard":"l"}`, broken},
		"invalid what":             {400, media, `{"type":"` + problemType + `invalid"}`, broken},
		"no grant, yet 200":        {200, media, `{"type":"` + problemType + `no-grant"}`, nil},
		"endless":                  {412, media, stale(`"resource":"r","token":"41","highest":"42","pad":"` + strings.Repeat("x", 1<<20) + `"`), broken},
		"endless, of the app":      {412, media, `{"type":"https://example.com","pad":"` + strings.Repeat("x", 1<<20) + `"}`, nil},
		"cut off":                  {500, media, `{"type":"` + problemType + `unknown-out`, broken},
		"cut off at once":          {500, media, `{"ty`, broken},
		"more than one":            {412, media, good + "{}", broken},
		"deep":                     {412, media, strings.Repeat("[", 30_000), nil},
	} {
		t.Run(name, func(t *testing.T) {
			resp := answer(c.status, c.media, c.body)
			err := httpfence.Error(resp)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if errors.Is(err, broken) != errors.Is(err, fence.ErrUnknownOutcome) {
				t.Errorf("%v: whether anything was written", err)
			}
			if err != nil && strings.ContainsRune(err.Error(), '\x1b') {
				t.Errorf("control characters in %q", err)
			}
			if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != c.body {
				t.Errorf("%d bytes of %d can be read, %v", len(rest), len(c.body), err)
			}
			var stale *fence.StaleTokenError
			if errors.As(err, &stale) && *stale != (fence.StaleTokenError{Resource: "r", Token: 41, Highest: 42}) {
				t.Errorf("%#v", stale)
			}
		})
	}
	if err := httpfence.Error(nil); err != nil {
		t.Errorf("no response: %v", err)
	}
	if err := httpfence.Error(&http.Response{StatusCode: 412, Header: http.Header{"Content-Type": {media}}}); err != nil {
		t.Errorf("no body: %v", err)
	}
}

// counted is a body without an end.
type counted struct{ n int }

func (c *counted) Read(p []byte) (int, error) {
	c.n += len(p)
	return copy(p, strings.Repeat(" ", len(p))), nil
}
func (c *counted) Close() error { return nil }

func TestErrorReadsABoundedPart(t *testing.T) {
	body := &counted{}
	resp := answer(412, "application/problem+json", "")
	resp.Body = body
	if err := httpfence.Error(resp); err != nil || body.n > 64<<10 {
		t.Errorf("%v after %d bytes", err, body.n)
	}
}

// What has been read before cannot be judged any more, and is not taken for good. An answer to HEAD never had a body.
func TestErrorAfterTheBodyWasRead(t *testing.T) {
	for method, want := range map[string]error{http.MethodPut: httpfence.ErrMalformed, http.MethodHead: nil} {
		resp := answer(412, "application/problem+json", "{}")
		resp.Request = httptest.NewRequest(method, "/", nil)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		if err := httpfence.Error(resp); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", method, err, want)
		}
	}
}

// A connection that breaks within the body may have cut off a refusal, and is not hidden from who reads on.
func TestErrorKeepsTheEndOfABrokenBody(t *testing.T) {
	resp := answer(412, "application/problem+json", "")
	resp.Body = io.NopCloser(&brokenBody{strings.NewReader(`{"type"`)})
	if err := httpfence.Error(resp); !errors.Is(err, httpfence.ErrMalformed) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if text, err := io.ReadAll(resp.Body); string(text) != `{"type"` || err != io.ErrUnexpectedEOF {
		t.Errorf("%q, %v", text, err)
	}
}

// The longest names, of characters that JSON escapes, are told in full.
func TestErrorOfTheLongestNames(t *testing.T) {
	for _, char := range []string{"<", "\"", "\\", "\u2028", "\U0010ffff", "ü"} {
		long := func(last string) string { return strings.Repeat(char, (fence.MaxName-1)/len(char)) + last }
		want := fence.WrongLockError{Resource: long("r"), Lock: long("a"), Guard: long("b")}
		resp := serve(t, checkerFunc(func(context.Context, string, func(context.Context) error) error { return &want }), fine)
		var got *fence.WrongLockError
		if err := httpfence.Error(resp); !errors.As(err, &got) || *got != want {
			t.Errorf("%q: %.200v", char, err)
		}
	}
}

// What a resource function or next says is told, however long it is and whatever it leaves out.
func TestErrorOfFieldErrors(t *testing.T) {
	long := strings.Repeat("<", 40<<10)
	for _, said := range []fence.FieldError{{Field: "id", Problem: long}, {Field: long, Problem: long}, {Problem: "no field"}, {Field: "no problem"}, {}} {
		resp := serve(t, checkerFunc(func(context.Context, string, func(context.Context) error) error { return &said }), fine)
		var got *fence.FieldError
		if err := httpfence.Error(resp); !errors.As(err, &got) || !strings.HasPrefix(said.Field, got.Field) {
			t.Fatalf("%.20q: %.200v", said.Field, err)
		}
		if said.Problem != "" && (got.Problem == "" || !strings.HasPrefix(said.Problem, got.Problem)) {
			t.Errorf("%.20q became %.20q", said.Problem, got.Problem)
		}
	}
}

func FuzzError(f *testing.F) {
	for _, body := range []string{
		`{"type":"` + problemType + `stale-token","resource":"r","token":"41","highest":"42"}`,
		`{"type":"` + problemType + `wrong-lock","resource":"r","lock":"l","guard":"m"}`,
		`{"type":"` + problemType + `invalid","field":"f","problem":"p"}`,
		`{"type":"` + problemType + `not-written","detail":"d"}`,
	} {
		for _, status := range []int{400, 409, 412, 500} {
			f.Add(status, body)
		}
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		resp := answer(status, "application/problem+json", body)
		err := httpfence.Error(resp)
		if err != nil && len(err.Error()) > 64<<10 {
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
		var stale *fence.StaleTokenError
		if errors.As(err, &stale) && (stale.Token <= 0 || stale.Highest < stale.Token || fence.CheckResource(stale.Resource) != nil) {
			t.Fatalf("%#v", stale)
		}
		if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != body {
			t.Fatalf("%q can be read, %v", rest, err)
		}
	})
}

// A handler answers whatever comes as a header, and what it lets through is a grant.
func FuzzHeader(f *testing.F) {
	f.Add("token=42;cluster=c;lock=job-x")
	f.Add("token=1;cluster=c;lock=%6C, lock=r;cluster=%ff;token=2")
	f.Add("")
	f.Fuzz(func(t *testing.T, line string) {
		r := httptest.NewRequest("PUT", "/?name=r", nil)
		r.Header[httpfence.Header] = []string{line}
		var guard fence.Guard
		resp := serveRequest(t, &guard, func(rw http.ResponseWriter, r *http.Request) {
			g, err := fence.FromContext(r.Context(), "r")
			if err := errors.Join(err, g.Check()); err != nil {
				fmt.Fprint(rw, err)
			}
		}, r)
		switch resp.StatusCode {
		case 200:
			if body, _ := io.ReadAll(resp.Body); len(body) > 0 || guard.Last("r").Check() != nil {
				t.Fatalf("%q let through with %s", line, body)
			}
		case 400:
			if err := httpfence.Error(resp); !errors.Is(err, fence.ErrInvalid) {
				t.Fatalf("%q: %v", line, err)
			}
		default:
			t.Fatalf("%q: %s", line, resp.Status)
		}
	})
}
