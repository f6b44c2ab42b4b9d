package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/httpfence"
)

// noEquality is an error of a type whose values panic when they are compared.
type noEquality struct {
	error
	more any
}

func (e noEquality) Unwrap() error { return e.error }

// A checker's word that the outcome is unknown stands, whatever its last run came to.
func TestUnknownOutcomeOutlivesAFailedRun(t *testing.T) {
	stale := &fence.StaleTokenError{Resource: "r", Token: 41, Highest: 42}
	for name, last := range map[string]http.HandlerFunc{
		"answered": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(409) },
		"failed":   func(_ http.ResponseWriter, r *http.Request) { httpfence.Fail(r, errStore) },
		"refused":  func(_ http.ResponseWriter, r *http.Request) { httpfence.Fail(r, stale) },
		"succeeds": fine,
	} {
		runs := 0
		checker := checkerFunc(func(ctx context.Context, _ string, write func(context.Context) error) error {
			_ = write(ctx) // the answer to its commit is lost
			return errors.Join(fence.ErrUnknownOutcome, write(ctx))
		})
		resp := serve(t, checker, func(rw http.ResponseWriter, r *http.Request) {
			if runs++; runs == 2 {
				last(rw, r)
			}
		})
		checkStatus(t, resp, 500)
		if err := httpfence.Error(resp); !errors.Is(err, fence.ErrUnknownOutcome) || runs != 2 {
			t.Errorf("%s: %v after %d runs", name, err, runs)
		}
	}
}

// What a run has said about a write past the step is not settled by the next run's failure.
func TestDoubtOfARunOutlivesTheNext(t *testing.T) {
	runs := 0
	resp := serve(t, &repeats{}, func(rw http.ResponseWriter, r *http.Request) {
		if runs++; runs == 1 {
			httpfence.Fail(r, fmt.Errorf("%w: %w", fence.ErrUnknownOutcome, errConflict))
			return
		}
		rw.WriteHeader(409)
	})
	if err := httpfence.Error(resp); !errors.Is(err, fence.ErrUnknownOutcome) || runs != 2 {
		t.Errorf("%v after %d runs", err, runs)
	}
}

// A Guard cannot take back what next did before it failed, so nobody is told that nothing was written. What next answers is its
// own to say.
func TestWhatCannotBeTakenBackIsUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		next http.HandlerFunc
		want int
		err  error
	}{
		"too long":          {func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(make([]byte, 11)) }, 500, fence.ErrUnknownOutcome},
		"not its length":    {func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("Content-Length", "3") }, 500, fence.ErrUnknownOutcome},
		"no such status":    {func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(101) }, 500, fence.ErrUnknownOutcome},
		"fails":             {func(_ http.ResponseWriter, r *http.Request) { httpfence.Fail(r, errStore) }, 500, fence.ErrUnknownOutcome},
		"fails, says so":    {func(_ http.ResponseWriter, r *http.Request) { httpfence.Fail(r, fence.ErrNotWritten) }, 500, fence.ErrUnknownOutcome},
		"answers":           {func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(409) }, 409, nil},
		"answers and fails": {func(rw http.ResponseWriter, r *http.Request) { httpfence.Fail(r, errStore); rw.WriteHeader(503) }, 503, nil},
	} {
		resp := serve(t, new(fence.Guard), c.next, httpfence.MaxResponse(10))
		checkStatus(t, resp, c.want)
		if err := httpfence.Error(resp); !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
	}
}

// http.TimeoutHandler answers and leaves its handler running, which then writes past the fence: here over what the successor
// wrote. Without it the successor waits for its turn, however long next takes; a deadline of the request's context is there for
// next to end earlier.
func TestPitfallTimeoutHandlerInside(t *testing.T) {
	for name, c := range map[string]struct {
		within func(http.Handler) http.Handler
		want   string // what is there in the end
	}{
		"inside": {func(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Second, "too slow") }, "stale"},
		"none":   {func(next http.Handler) http.Handler { return next }, "new"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var guard fence.Guard
			var value atomic.Value
			slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				time.Sleep(time.Minute)
				value.Store("stale")
			})
			h := httpfence.Handler(&guard, resourceOf, c.within(slow))
			h.ServeHTTP(httptest.NewRecorder(), granted(t, httptest.NewRequest("PUT", "/?name=r", nil)))
			newer := grant
			newer.Token++
			err := guard.Do(fence.NewContext(t.Context(), newer), "r", func(context.Context) error { value.Store("new"); return nil })
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
			if got := value.Load(); got != c.want {
				t.Errorf("%s: the value is %v, want %v", name, got, c.want)
			}
		})
	}
}
