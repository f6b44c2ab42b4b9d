package httpfence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/httpfence"
)

func fine(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "written") }

// Whatever the checker and the handler come to, the answer is no success unless both succeeded, and the client learns whether
// something may have been written.
func TestAnswerTellsTheOutcome(t *testing.T) {
	passes := func(ctx context.Context, _ string, write func(context.Context) error) error { return write(ctx) }
	refuses := func(err error) checkerFunc {
		return func(context.Context, string, func(context.Context) error) error { return err }
	}
	commits := func(err error) checkerFunc { // with err, after the write
		return func(ctx context.Context, _ string, write func(context.Context) error) error {
			if werr := write(ctx); werr != nil {
				return fmt.Errorf("rolled back: %w", werr)
			}
			return err
		}
	}
	stale := &fence.StaleTokenError{Resource: "r", Token: 41, Highest: 42}
	status := func(code int) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(code) }
	}
	gives := func(err error) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) { httpfence.Fail(r, err) }
	}
	for name, c := range map[string]struct {
		checker checkerFunc
		next    http.HandlerFunc
		want    int
		err     error // that the client has of it
	}{
		"all is well":                {passes, fine, 200, nil},
		"stale":                      {refuses(stale), fine, 412, fence.ErrStaleToken},
		"stale, wrapped":             {refuses(fmt.Errorf("store: %w", stale)), fine, 412, fence.ErrStaleToken},
		"wrong lock":                 {refuses(&fence.WrongLockError{Resource: "r", Lock: "a", Guard: "b"}), fine, 409, fence.ErrWrongLock},
		"bad resource":               {refuses(&fence.FieldError{Field: "resource", Problem: "bad"}), fine, 400, fence.ErrInvalid},
		"no grant for it":            {refuses(fence.ErrNoGrant), fine, 428, fence.ErrNoGrant},
		"store down":                 {refuses(errStore), fine, 503, httpfence.ErrNotWritten},
		"guard full":                 {refuses(fence.ErrFull), fine, 503, httpfence.ErrNotWritten},
		"cancelled before":           {refuses(context.Canceled), fine, 503, httpfence.ErrNotWritten},
		"nothing run":                {refuses(nil), fine, 500, httpfence.ErrNotWritten},
		"commit fails":               {commits(errStore), fine, 500, fence.ErrUnknownOutcome},
		"commit cancelled":           {commits(context.Canceled), fine, 500, fence.ErrUnknownOutcome},
		"commit unknown":             {commits(fmt.Errorf("%w: %w", fence.ErrUnknownOutcome, errStore)), fine, 500, fence.ErrUnknownOutcome},
		"stale at the write":         {commits(stale), fine, 412, fence.ErrStaleToken}, // a conditional write judges last
		"taken back, for certain":    {commits(fmt.Errorf("%w: %w", fence.ErrNotWritten, errStore)), fine, 503, httpfence.ErrNotWritten},
		"the handler refuses":        {passes, status(404), 404, nil},
		"the handler fails":          {passes, status(500), 500, nil},
		"the handler answers 412":    {passes, status(412), 412, nil},
		"fails, and a commit would":  {commits(errStore), status(409), 409, nil},
		"redirect":                   {passes, status(303), 303, nil},
		"no content":                 {passes, status(204), 204, nil},
		"switching protocols":        {passes, status(101), 500, httpfence.ErrNotWritten},
		"status too low":             {passes, status(42), 500, httpfence.ErrNotWritten},
		"status zero":                {passes, status(0), 500, httpfence.ErrNotWritten},
		"status too high":            {passes, status(1000), 500, httpfence.ErrNotWritten},
		"early hints are left out":   {passes, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(103); rw.WriteHeader(201) }, 201, nil},
		"gives up without an answer": {passes, gives(errStore), 500, httpfence.ErrNotWritten},
		"gives up on a stale token":  {passes, gives(stale), 412, fence.ErrStaleToken},
		"gives up, outcome unknown":  {passes, gives(fmt.Errorf("%w: %w", fence.ErrUnknownOutcome, stale)), 500, fence.ErrUnknownOutcome},
		"gives up with an answer":    {passes, func(rw http.ResponseWriter, r *http.Request) { httpfence.Fail(r, errStore); rw.WriteHeader(422) }, 422, nil},
		"gives up, unknown, answers": {passes, func(rw http.ResponseWriter, r *http.Request) {
			httpfence.Fail(r, fence.ErrUnknownOutcome)
			rw.WriteHeader(422)
		}, 500, fence.ErrUnknownOutcome},
		"gives up on one, and answers": {passes, func(rw http.ResponseWriter, r *http.Request) { httpfence.Fail(r, stale); rw.WriteHeader(422) }, 422, nil},
		"gives up with a panic error":  {passes, gives(&httpfence.PanicError{Value: "x"}), 500, httpfence.ErrNotWritten},
		"gives up, no equality":        {passes, gives(noEquality{stale, map[string]string{}}), 412, fence.ErrStaleToken},
		"gives up after a good status": {passes, func(rw http.ResponseWriter, r *http.Request) { rw.WriteHeader(200); httpfence.Fail(r, errStore) }, 500, httpfence.ErrNotWritten},
	} {
		t.Run(name, func(t *testing.T) {
			resp := serve(t, c.checker, c.next)
			if err := httpfence.Error(resp); !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			checkStatus(t, resp, c.want)
			if retry := resp.Header.Get("Retry-After"); (retry != "") != (c.want == 503) {
				t.Errorf("Retry-After %q with status %d", retry, c.want)
			}
		})
	}
}

// commits is a checker with a transaction: write sets pending, and it is committed unless write fails.
type commits struct {
	fence.Guard
	pending, committed string
}

func (c *commits) Do(ctx context.Context, resource string, write func(context.Context) error) error {
	return c.Guard.Do(ctx, resource, func(ctx context.Context) error {
		c.pending = ""
		if err := write(ctx); err != nil {
			return err
		}
		c.committed = c.pending
		return nil
	})
}

func (c *commits) RollsBack() bool { return true }

// What next fails at is rolled back, and its response is as it made it.
func TestFailedHandlerIsRolledBack(t *testing.T) {
	for name, c := range map[string]struct {
		next   func(*commits) http.HandlerFunc
		status int
		body   string
	}{
		"success": {func(s *commits) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) { s.pending = "x"; fmt.Fprint(rw, "done") }
		}, 200, "done"},
		"refused by the handler": {func(s *commits) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) {
				s.pending = "x"
				http.Error(rw, "no funds", http.StatusUnprocessableEntity)
			}
		}, 422, "no funds\n"},
		"too long": {func(s *commits) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) {
				s.pending = "x"
				for range 3 {
					_, _ = rw.Write(make([]byte, 5))
				}
			}
		}, 500, ""},
		"shorter than declared": {func(s *commits) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) {
				s.pending = "x"
				rw.Header().Set("Content-Length", "10")
				fmt.Fprint(rw, "short")
			}
		}, 500, ""},
		"longer than declared": {func(s *commits) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) {
				s.pending = "x"
				rw.Header().Set("Content-Length", "4")
				fmt.Fprint(rw, "123")
				if n, err := fmt.Fprint(rw, "45"); n != 0 || err != http.ErrContentLength {
					t.Errorf("longer than declared: %d, %v", n, err)
				}
			}
		}, 500, ""},
		"as declared": {func(s *commits) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) {
				s.pending = "x"
				rw.Header().Set("Content-Length", "4")
				fmt.Fprint(rw, "1234")
			}
		}, 200, "1234"},
		"an error that is shorter": {func(s *commits) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) {
				s.pending = "x"
				rw.Header().Set("Content-Length", "10")
				http.Error(rw, "gone", http.StatusGone)
			}
		}, 410, "gone\n"},
		"as long as it may be": {func(s *commits) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) { s.pending = "x"; fmt.Fprint(rw, "0123456789") }
		}, 200, "0123456789"},
		"too long for an error": {func(s *commits) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) {
				s.pending = "x"
				rw.WriteHeader(404)
				fmt.Fprint(rw, "0123456789")
				fmt.Fprint(rw, "x")
			}
		}, 404, "0123456789"},
	} {
		t.Run(name, func(t *testing.T) {
			var store commits
			body := checkStatus(t, serve(t, &store, c.next(&store), httpfence.MaxResponse(10)), c.status)
			if c.body != "" && body != c.body {
				t.Errorf("body %q, want %q", body, c.body)
			}
			if committed := store.committed == "x"; committed != (c.status < 400) {
				t.Errorf("status %d, committed: %v", c.status, committed)
			}
		})
	}
}

func TestPanicRollsBackAndGoesOn(t *testing.T) {
	for name, value := range map[string]any{"a value": "boom", "an error": errStore, "abort": http.ErrAbortHandler} {
		t.Run(name, func(t *testing.T) {
			var store commits
			var reported error
			defer func() {
				if v := recover(); v != value {
					t.Errorf("recovered %v", v)
				}
				if store.pending != "x" || store.committed != "" {
					t.Errorf("pending %q, committed %q", store.pending, store.committed)
				}
				var p *httpfence.PanicError
				switch {
				case value == any(http.ErrAbortHandler):
					if reported != nil {
						t.Errorf("reported %v", reported)
					}
				case !errors.As(reported, &p) || p.Value != value || !strings.Contains(string(p.Stack), "breaksOff"):
					t.Errorf("reported %v", reported)
				}
			}()
			serve(t, &store, breaksOff(&store, value), httpfence.OnError(func(_ *http.Request, err error) { reported = err }))
			t.Error("the panic did not go on")
		})
	}
}

func breaksOff(store *commits, value any) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		store.pending = "x"
		rw.WriteHeader(http.StatusOK)
		panic(value)
	}
}

// The grant, and what the checker adds, is in next's context.
func TestNextFindsGrantAndTransaction(t *testing.T) {
	type tx struct{}
	checker := checkerFunc(func(ctx context.Context, resource string, write func(context.Context) error) error {
		return write(context.WithValue(ctx, tx{}, resource))
	})
	resp := serve(t, checker, func(rw http.ResponseWriter, r *http.Request) {
		g, err := fence.FromContext(r.Context(), "r")
		fmt.Fprintln(rw, g == grant, err, r.Context().Value(tx{}))
	})
	if got := checkStatus(t, resp, 200); got != "true <nil> r\n" {
		t.Error(got)
	}
}

func TestProblemsAreRFC9457(t *testing.T) {
	var guard fence.Guard
	newer := grant
	newer.Token++
	if err := fence.Claim(fence.NewContext(t.Context(), newer), &guard, "r"); err != nil {
		t.Fatal(err)
	}
	resp := serve(t, &guard, fine)
	if media := resp.Header.Get("Content-Type"); media != "application/problem+json" {
		t.Errorf("media type %q", media)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(checkStatus(t, resp, 412)), &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "title")
	delete(got, "detail")
	want := map[string]any{
		"type":   "https://github.com/quorumlock/quorumlock/blob/main/docs/design/httpfence.md#stale-token",
		"status": 412.0, "resource": "r", "token": "1796157310875344", "highest": "1796157310875345",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("problem %v, want %v", got, want)
	}
}

// Nothing that a client sends as its grant reaches the checker unless it is one.
func TestBadHeaders(t *testing.T) {
	good := "token=1;cluster=c;lock=l"
	for name, c := range map[string]struct {
		lines []string
		want  int
	}{
		"good":               {[]string{good}, 200},
		"missing":            {nil, 428},
		"empty":              {[]string{""}, 400},
		"one lock twice":     {[]string{good, good}, 400},
		"no token":           {[]string{"cluster=c;lock=l"}, 400},
		"zero token":         {[]string{"token=0;cluster=c;lock=l"}, 400},
		"number too large":   {[]string{"token=99999999999999999999;cluster=c;lock=l"}, 400},
		"control character":  {[]string{"token=1;cluster=c;lock=a%0Ab"}, 400},
		"raw control":        {[]string{"token=1;cluster=c;lock=a\x00b"}, 400},
		"broken encoding":    {[]string{"token=1;cluster=c;lock=%"}, 400},
		"too long":           {[]string{good + strings.Repeat("x", 16<<10)}, 400},
		"unknown part":       {[]string{good + ";shard=1"}, 400},
		"none of the locks":  {[]string{good, "token=1;cluster=c;lock=m"}, 400},
		"one of the locks":   {[]string{good, "token=1;cluster=c;lock=r"}, 200},
		"on one line":        {[]string{good + ", token=1;cluster=c;lock=r"}, 200},
		"another of a comma": {[]string{good + ","}, 400},
	} {
		t.Run(name, func(t *testing.T) {
			var guard fence.Guard
			r := httptest.NewRequest("PUT", "/?name=r", nil)
			r.Header[httpfence.Header] = c.lines
			ran := false
			resp := serveRequest(t, &guard, func(http.ResponseWriter, *http.Request) { ran = true }, r)
			checkStatus(t, resp, c.want)
			if ran != (c.want == 200) || (guard.Last("r") != fence.Grant{}) != ran {
				t.Errorf("ran: %v, kept %v", ran, guard.Last("r"))
			}
			if err := httpfence.Error(resp); (err == nil) != ran {
				t.Errorf("error %v", err)
			}
			if ctx, err := httpfence.Extract(r); err != nil && len(fence.Grants(ctx)) > 0 {
				t.Errorf("the context of %v carries a grant", err)
			}
		})
	}
}

func TestResourceIsNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		name string
		want int
	}{
		"the server's fault":    {errStore, "", 500},
		"the client's fault":    {&fence.FieldError{Field: "id", Problem: "must be a number"}, "", 400},
		"empty name":            {nil, "", 400},
		"name with a zero byte": {nil, "a\x00", 400},
	} {
		t.Run(name, func(t *testing.T) {
			rw := httptest.NewRecorder()
			ran := false
			httpfence.Handler(new(fence.Guard), func(*http.Request) (string, error) { return c.name, c.err },
				http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }),
			).ServeHTTP(rw, granted(t, httptest.NewRequest("PUT", "/", nil)))
			checkStatus(t, rw.Result(), c.want)
			if ran {
				t.Error("written all the same")
			}
		})
	}
}

func TestSafeMethodsPass(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "POST", "PATCH", "DELETE", "get", "BREW"} {
		r := func() *http.Request { return httptest.NewRequest(method, "/?name=r", nil) }
		checkStatus(t, serveRequest(t, new(fence.Guard), fine, r()), 428)
		want := 428
		if strings.Contains("GET HEAD OPTIONS TRACE", method) {
			want = 200
		}
		checkStatus(t, serveRequest(t, new(fence.Guard), fine, r(), httpfence.SafeMethodsPass()), want)
	}
}

// What passes unfenced has no grant, not even one that something around the Handler has put there.
func TestSafeMethodsPassWithoutGrants(t *testing.T) {
	r := httptest.NewRequest("GET", "/?name=r", nil)
	r = r.WithContext(fence.NewContext(r.Context(), grant))
	resp := serveRequest(t, new(fence.Guard), func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, len(fence.Grants(r.Context()))) }, r,
		httpfence.SafeMethodsPass())
	if got := checkStatus(t, resp, 200); got != "0" {
		t.Errorf("%s grants", got)
	}
}

func TestHandlerNotSetUp(t *testing.T) {
	next, guard := http.HandlerFunc(fine), new(fence.Guard)
	var nobody *fence.Guard
	for name, h := range map[string]func(httpfence.Option) http.Handler{
		"no checker":      func(o httpfence.Option) http.Handler { return httpfence.Handler(nil, resourceOf, next, o) },
		"no resource":     func(o httpfence.Option) http.Handler { return httpfence.Handler(guard, nil, next, o) },
		"no next":         func(o httpfence.Option) http.Handler { return httpfence.Handler(guard, resourceOf, nil, o) },
		"checker of nil":  func(o httpfence.Option) http.Handler { return httpfence.Handler(nobody, resourceOf, next, o) },
		"checker no func": func(o httpfence.Option) http.Handler { return httpfence.Handler(checkerFunc(nil), resourceOf, next, o) },
		"next of nil": func(o httpfence.Option) http.Handler {
			return httpfence.Handler(guard, resourceOf, http.HandlerFunc(nil), o)
		},
		"option of nil": func(o httpfence.Option) http.Handler { return httpfence.Handler(guard, resourceOf, next, nil, o) },
		"response": func(o httpfence.Option) http.Handler {
			return httpfence.Handler(guard, resourceOf, next, o, httpfence.MaxResponse(-1))
		},
		"read ahead": func(o httpfence.Option) http.Handler {
			return httpfence.Handler(guard, resourceOf, next, o, httpfence.ReadAhead(-1))
		},
	} {
		var reported error
		rw := httptest.NewRecorder()
		r := granted(t, httptest.NewRequest("PUT", "/?name=r", nil))
		h(httpfence.OnError(func(_ *http.Request, err error) { reported = err })).ServeHTTP(rw, r)
		checkStatus(t, rw.Result(), 500)
		if !errors.Is(reported, fence.ErrInvalid) {
			t.Errorf("%s: reported %v", name, reported)
		}
	}
}
