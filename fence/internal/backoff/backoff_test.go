package backoff

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestLongest(t *testing.T) {
	for _, b := range []Backoff{{2 * time.Millisecond, 256 * time.Millisecond}, {3, 50}, {7, 7}, {9, 5}, {1, math.MaxInt64}} {
		want := b.First
		for attempt := range 70 {
			if want = min(want, b.Last); b.longest(attempt) != want {
				t.Fatalf("%v: attempt %d: %v, want %v", b, attempt, b.longest(attempt), want)
			}
			if want <= math.MaxInt64/2 {
				want *= 2
			} else {
				want = math.MaxInt64
			}
		}
		if got := b.longest(math.MaxInt); got != b.Last {
			t.Errorf("%v: the last attempt: %v", b, got)
		}
	}
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{First: time.Second, Last: 4 * time.Second}
		var longest time.Duration
		for range 100 {
			began := time.Now()
			if err := b.Pause(t.Context(), 9); err != nil {
				t.Fatal(err)
			}
			longest = max(longest, time.Since(began))
		}
		if longest > b.Last || longest < b.Last/2 {
			t.Errorf("the longest of 100 pauses of up to %v was %v", b.Last, longest)
		}

		lost := errors.New("lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(lost)
		began := time.Now()
		if err := b.Pause(ctx, 0); !errors.Is(err, context.Canceled) || !errors.Is(err, lost) {
			t.Errorf("after the end: %v", err)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("after the end it took %v", d)
		}
	})
}
