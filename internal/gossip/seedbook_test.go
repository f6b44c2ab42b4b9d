package gossip

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A phone book without gossip resolves its seeds for ever, keeps the last good answer, and knows what it was told last.
func TestSeedsResolveForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hosts atomic.Pointer[[]string]
		hosts.Store(&[]string{"10.0.0.1", "10.0.0.2"})
		s, err := NewSeeds(SeedOptions{Seeds: []string{"service:7000", "10.9.9.9:1"}, Resolve: func(context.Context, string) ([]string, error) {
			if h := hosts.Load(); h != nil {
				return *h, nil
			}
			return nil, errors.New("no answer")
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		expect := func(want ...string) {
			t.Helper()
			time.Sleep(2 * resolveEvery)
			if got := s.Addresses(); !slices.Equal(got, want) {
				t.Errorf("addresses %v, want %v", got, want)
			}
		}
		expect("10.0.0.1:7000", "10.0.0.2:7000", "10.9.9.9:1")
		hosts.Store(nil)
		expect("10.0.0.1:7000", "10.0.0.2:7000", "10.9.9.9:1")
		hosts.Store(&[]string{"10.0.0.3"})
		expect("10.0.0.3:7000", "10.9.9.9:1")

		s.Learn("a", "10.0.0.1:7000")
		s.Learn("a", "10.0.0.3:7000")
		s.Learn("b", "0.0.0.0:7000")
		s.Learn("c", "10.0.0.4:7000")
		s.Keep(map[string]bool{"a": true})
		for id, want := range map[string]string{"a": "10.0.0.3:7000", "b": "", "c": ""} {
			if got, ok := s.Lookup(id); got != want || ok != (want != "") {
				t.Errorf("%s is at %q, want %q", id, got, want)
			}
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A seed that is no address is refused, and nothing runs.
func TestSeedsAreChecked(t *testing.T) {
	if _, err := NewSeeds(SeedOptions{Seeds: []string{"service"}}); err == nil {
		t.Error("taken")
	}
}
