//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
)

func TestTally(t *testing.T) {
	var counts tally
	counts.add([]jobResult{{Entry: "a 1"}, {Entry: "b 1"}})
	counts.add([]jobResult{{Entry: "a 2", Refused: &refusal{Token: 1, Highest: 2}}})
	v, err := counts.compare([]byte("a 1\nb 1\n"), []byte("a 1\na 2\n"))
	if want := (verdict{refused: 1, lostUnfenced: 1}); err != nil || v != want {
		t.Errorf("%+v, %v, want %+v", v, err, want)
	}
	if s := v.String(); s != "ok: stale writes refused 1, lost updates 0 (unfenced control: 1)" {
		t.Errorf("%q", s)
	}
	must(t, v.check())
	v, err = counts.compare([]byte("a 1\n"), nil)
	if want := (verdict{refused: 1, lostFenced: 1, lostUnfenced: 3}); err != nil || v != want {
		t.Errorf("%+v, %v, want %+v", v, err, want)
	}
	for what, fencedLedger := range map[string]string{
		"a refused entry": "a 1\nb 1\na 2\n",
		"a double entry":  "a 1\nb 1\na 1\n",
	} {
		if _, err := counts.compare([]byte(fencedLedger), []byte("a 1\n")); err == nil {
			t.Errorf("%s passes", what)
		}
	}
}

// A run that shows nothing is no success.
func TestVerdict(t *testing.T) {
	for says, v := range map[string]verdict{
		"1 updates were lost":            {refused: 1, lostFenced: 1, lostUnfenced: 1},
		"no stale write was refused":     {lostUnfenced: 1},
		"nothing was lost without the f": {refused: 1},
	} {
		if err := v.check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", v, err)
		}
	}
}

// A late write counts only if it came late, from a holder that had lost, and was refused for that.
func TestCheckStale(t *testing.T) {
	stale := func(token, highest fence.Token) *refusal { return &refusal{Token: token, Highest: highest} }
	must(t, jobResult{Refused: stale(1, 2), Lost: true}.checkStale(1, 2))
	for name, j := range map[string]jobResult{
		"accepted":       {Lost: true},
		"another token":  {Refused: stale(2, 3), Lost: true},
		"another reason": {Refused: stale(1, 3), Lost: true},
		"not lost":       {Refused: stale(1, 2)},
	} {
		if j.checkStale(1, 2) == nil {
			t.Errorf("%s passes", name)
		}
	}
}
