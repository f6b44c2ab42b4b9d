package quorumlock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A failure that comes while a member that differs is stopping does not hide the reason.
func TestReasonIsNotHiddenByALaterFailure(t *testing.T) {
	full := errors.New("no space left")
	n := &Node{}
	if err := n.withVerdict(full); err != full {
		t.Error(err)
	}
	n.verdict.Store(&DivergedError{Index: 1024})
	if err := n.withVerdict(full); !errors.Is(err, ErrDiverged) || !errors.Is(err, full) {
		t.Error(err)
	}
}

// A session that was asked for before a member was found to differ, and whose answer comes after its sessions were given up, is not taken.
func TestSessionOfBeforeATurnIsNotTaken(t *testing.T) {
	set := newSessionSet(nil)
	early, turns := &Session{id: 1}, set.turned()
	if err := set.add(early, turns); err != nil {
		t.Fatal(err)
	}
	if got := set.turn(); len(got) != 1 || got[0] != early {
		t.Errorf("%d sessions are given up", len(got))
	}
	if err := set.add(&Session{id: 2}, turns); err != errTurned {
		t.Errorf("a late answer: %v", err)
	}
	if err := set.add(&Session{id: 3}, set.turned()); err != nil || set.get(2) != nil || set.get(3) == nil {
		t.Errorf("a session of after: %v", err)
	}
}

// A comparison that is not settled is made again, a limited number of times and more and more rarely; a fresh hash is compared at once, and begins anew.
func TestComparisonsGoInRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		fresh := make(chan struct{}, 1)
		settled := false
		var at []time.Duration // since hash was fresh
		var begun time.Time
		go inRounds(ctx, fresh, func() bool { at = append(at, time.Since(begun)); return settled })
		expect := func(what string, wait time.Duration, want ...time.Duration) {
			t.Helper()
			at, begun = nil, time.Now()
			fresh <- struct{}{}
			time.Sleep(wait)
			synctest.Wait()
			for i := range want {
				want[i] *= comparePace
			}
			if !slices.Equal(at, want) {
				t.Errorf("%s: compared after %v, want %v", what, at, want)
			}
		}
		expect("open", 30*time.Second, 0, 1, 3, 7, 15, 31, 63)
		expect("open, for a while", 10*comparePace, 0, 1, 3, 7)
		expect("open, amid a pause", 30*time.Second, 0, 1, 3, 7, 15, 31, 63)
		expect("open, for a while", 2*comparePace, 0, 1)
		settled = true
		expect("settled", 30*time.Second, 0)
	})
}
