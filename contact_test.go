package quorumlock

import (
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// A leader is in touch as long as a majority says so: the newest time by which one has.
func TestFollowedIsThatOfAMajority(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name   string
		voters []string
		others []string // without a vote
		heard  map[string]time.Time
		want   time.Time
	}{
		{"alone", []string{"me"}, nil, nil, now},
		{"three", []string{"me", "a", "b"}, nil, map[string]time.Time{"a": ago(3), "b": ago(9)}, ago(3)},
		{"three, one silent", []string{"me", "a", "b"}, nil, map[string]time.Time{"b": ago(9)}, ago(9)},
		{"three, both silent", []string{"me", "a", "b"}, nil, nil, time.Time{}},
		{"two", []string{"me", "a"}, nil, map[string]time.Time{"a": ago(7)}, ago(7)},
		{"four", []string{"me", "a", "b", "c"}, nil, map[string]time.Time{"a": ago(1), "b": ago(5), "c": ago(8)}, ago(5)},
		{"five", []string{"me", "a", "b", "c", "d"}, nil, map[string]time.Time{"a": ago(1), "b": ago(5)}, ago(5)},
		{"who has no vote does not count", []string{"me", "a", "b"}, []string{"x", "y"}, map[string]time.Time{"x": ago(1), "y": ago(1), "a": ago(6)}, ago(6)},
		{"a leader without a vote", []string{"a", "b"}, []string{"me"}, map[string]time.Time{"a": ago(2), "b": ago(4)}, ago(4)},
		{"nobody", nil, nil, nil, time.Time{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgress(wire.Level)
			var config []membership.Server
			for _, id := range c.voters {
				config = append(config, membership.Server{ID: id, Voter: true})
			}
			for _, id := range c.others {
				config = append(config, membership.Server{ID: id})
			}
			for id, at := range c.heard {
				p.note(id, wire.StatusReply{}, nil, 0, now)
				p.follows(id, at)
			}
			if got := p.followed("me", config, now); !got.Equal(c.want) {
				t.Errorf("%v before now, want %v", now.Sub(got), now.Sub(c.want))
			}
		})
	}
}

// Silence takes nothing back: the age grows by itself.
func TestFollowedStaysWhenAProbeFails(t *testing.T) {
	now := time.Now()
	p := newProgress(wire.Level)
	p.note("a", wire.StatusReply{}, nil, 0, now)
	p.follows("a", now.Add(-time.Second))
	p.note("a", wire.StatusReply{}, errors.New("no answer"), 0, now)
	config := []membership.Server{{ID: "me", Voter: true}, {ID: "a", Voter: true}}
	if got := p.followed("me", config, now); now.Sub(got) != time.Second {
		t.Errorf("%v before now", now.Sub(got))
	}
}

func TestElapsedTakesTheClockThatRanMore(t *testing.T) {
	now := time.Now()
	wall := func(d time.Duration) time.Time { return now.Round(0).Add(d) } // has no monotonic reading
	for _, c := range []struct {
		name       string
		since, now time.Time
		want       time.Duration
	}{
		{"both", now.Add(-time.Minute), now, time.Minute},
		{"never", time.Time{}, now, AgeUnknown},
		{"wall alone", wall(-time.Hour), now, time.Hour},
		{"wall set back", wall(time.Hour), now, 0},
	} {
		if got := elapsed(c.since, c.now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
