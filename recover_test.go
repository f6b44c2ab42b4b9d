package quorumlock

import (
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// New tokens exceed what the survivor knows, what the clock says, and the floor; without a floor the clock must not be behind
// what the survivor knows.
func TestRaisedCounter(t *testing.T) {
	now := time.UnixMicro(1_780_000_000_000_000)
	at := func(d time.Duration) locktable.Rev { return locktable.Rev(now.Add(d).UnixMicro()) }
	for name, test := range map[string]struct {
		known     locktable.Rev
		lastEntry time.Time
		floor     Token
		want      locktable.Rev // zero: refused
	}{
		"an hour ago":                        {at(-time.Hour), now.Add(-time.Hour), 0, at(0)},
		"no entry left that tells the time":  {at(-time.Hour), time.Time{}, 0, at(0)},
		"this very moment":                   {at(0), now, 0, at(0)},
		"counter ahead of the clock":         {at(time.Microsecond), now.Add(-time.Hour), 0, 0},
		"last entry ahead of the clock":      {at(-time.Hour), now.Add(time.Millisecond), 0, 0},
		"ahead, with a floor above":          {at(time.Hour), now, Token(at(2 * time.Hour)), at(2 * time.Hour)},
		"ahead, with a floor that is passed": {at(time.Hour), now, Token(at(-time.Hour)), at(0)}, // the state's own counter counts as well: Refounded
		"floor above a clock that is right":  {at(-time.Hour), now, Token(at(time.Hour)), at(time.Hour)},
		"floor below a clock that is right":  {at(-time.Hour), now, 5, at(0)},
	} {
		got, err := raisedCounter("RecoverOptions.TokenFloor", test.known, test.lastEntry, now, test.floor)
		if got != test.want || (err == nil) != (test.want != 0) {
			t.Errorf("%s: %d, %v; want %d", name, got, err, test.want)
		}
		if field := (*FieldError)(nil); err != nil && (!errors.As(err, &field) || field.Field != "RecoverOptions.TokenFloor") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
