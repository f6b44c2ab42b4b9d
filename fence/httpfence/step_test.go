package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/httpfence"
)

// errConflict is what a checker repeats a step for.
var errConflict = errors.New("serialization failure")

// repeats is a checker that repeats a step whose write fails with errConflict, and else one whose first commits fail with it.
type repeats struct {
	commits int // that fail
	runs    int
	last    error // instead of the last run
}

func (c *repeats) Do(ctx context.Context, _ string, write func(context.Context) error) error {
	for {
		c.runs++
		err := write(ctx)
		if err == nil && c.commits > 0 {
			c.commits--
			err = errConflict
		}
		if !errors.Is(err, errConflict) || c.runs > 5 {
			return err
		}
		if c.last != nil {
			return c.last
		}
	}
}

// Each run of a step that is repeated finds the request as it came, and the answer is that of the last one.
func TestRepeatedStepBeginsAnew(t *testing.T) {
	for name, c := range map[string]struct {
		body, ahead int
		want        int
	}{
		"no body":            {0, 10, 200},
		"all read ahead":     {9, 10, 200},
		"just read ahead":    {10, 10, 200},
		"more than that":     {11, 10, 503},
		"nothing read ahead": {1, 0, 503},
	} {
		t.Run(name, func(t *testing.T) {
			body := strings.Repeat("b", c.body)
			r := granted(t, httptest.NewRequest("PUT", "/?name=r", io.NopCloser(strings.NewReader(body))))
			r.Header.Set("X-Twice", "once")
			run := 0
			next := func(rw http.ResponseWriter, r *http.Request) {
				run++
				got, err := io.ReadAll(r.Body)
				if string(got) != body || err != nil {
					t.Errorf("run %d read %q, %v", run, got, err)
				}
				_ = r.Body.Close()
				if v := r.Header["X-Twice"]; len(v) != 1 || v[0] != "once" {
					t.Errorf("run %d has header %v", run, v)
				}
				r.Header.Add("X-Twice", "changed")
				rw.Header().Add("X-Run", fmt.Sprint(run))
				fmt.Fprintf(rw, "run %d", run)
			}
			checker := &repeats{commits: 2}
			resp := serveRequest(t, checker, next, r, httpfence.ReadAhead(c.ahead))
			got := checkStatus(t, resp, c.want)
			if c.want == 200 && (got != "run 3" || strings.Join(resp.Header["X-Run"], ",") != "3") {
				t.Errorf("answer %q with %v", got, resp.Header)
			}
			if c.want != 200 && (run != 1 || !errors.Is(httpfence.Error(resp), httpfence.ErrNotWritten)) {
				t.Errorf("%d runs", run)
			}
		})
	}
}

// A step of which the long body was not read yet can be repeated.
func TestUnreadBodyMayBeLong(t *testing.T) {
	r := granted(t, httptest.NewRequest("PUT", "/?name=r", strings.NewReader(strings.Repeat("b", 100))))
	resp := serveRequest(t, &repeats{commits: 2}, fine, r, httpfence.ReadAhead(10))
	checkStatus(t, resp, 200)
}

func TestFailLetsTheCheckerRepeat(t *testing.T) {
	for name, c := range map[string]struct {
		failures, status int
		last             error
		want, runs       int
	}{
		"repeated with an answer":          {2, 409, nil, 200, 3},
		"repeated without one":             {2, 0, nil, 200, 3},
		"for too long, with an answer":     {9, 409, nil, 409, 6},
		"for too long, without one":        {9, 0, nil, 500, 6},
		"succeeded before the repetition":  {9, 409, &fence.StaleTokenError{Resource: "r", Token: 1, Highest: 2}, 412, 1},
		"store down before the repetition": {9, 409, errStore, 409, 1},
	} {
		t.Run(name, func(t *testing.T) {
			left := c.failures
			checker := &repeats{last: c.last}
			resp := serve(t, checker, func(rw http.ResponseWriter, r *http.Request) {
				if left--; left < 0 {
					return
				}
				httpfence.Fail(r, fmt.Errorf("update: %w", errConflict))
				if c.status != 0 {
					http.Error(rw, "conflict", c.status)
				}
			})
			checkStatus(t, resp, c.want)
			if checker.runs != c.runs {
				t.Errorf("%d runs, want %d", checker.runs, c.runs)
			}
		})
	}
	httpfence.Fail(httptest.NewRequest("GET", "/", nil), errStore) // outside: nothing happens
	httpfence.Fail(nil, errStore)
}

// Files of a multipart form are of the request that next was given, which the server does not know.
func TestMultipartFilesAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var body strings.Builder
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("f", "name")
	if err == nil {
		_, err = io.WriteString(file, strings.Repeat("x", 1000))
	}
	if err := errors.Join(err, form.Close()); err != nil {
		t.Fatal(err)
	}
	r := granted(t, httptest.NewRequest("PUT", "/?name=r", strings.NewReader(body.String())))
	r.Header.Set("Content-Type", form.FormDataContentType())
	files := func() int {
		list, err := os.ReadDir(os.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	resp := serveRequest(t, &repeats{commits: 1}, func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
		if files() != 1 {
			t.Errorf("%d files: the test shows nothing", files())
		}
	}, r)
	checkStatus(t, resp, 200)
	if n := files(); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

// brokenBody ends with an error, as that of a client that goes away.
type brokenBody struct{ io.Reader }

func (b *brokenBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func TestBrokenBodyIsNextsToJudge(t *testing.T) {
	for _, ahead := range []int{0, 2, 3, 10} {
		r := granted(t, httptest.NewRequest("PUT", "/?name=r", &brokenBody{strings.NewReader("abc")}))
		resp := serveRequest(t, new(fence.Guard), func(rw http.ResponseWriter, r *http.Request) {
			got, err := io.ReadAll(r.Body)
			if string(got) != "abc" || err != io.ErrUnexpectedEOF {
				t.Errorf("with %d read ahead: %q, %v", ahead, got, err)
			}
			rw.WriteHeader(400)
		}, r, httpfence.ReadAhead(ahead))
		checkStatus(t, resp, 400)
	}
}
