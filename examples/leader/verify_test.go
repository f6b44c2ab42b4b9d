package main

import (
	"strings"
	"testing"
)

// The demonstration must not print "ok" over a story that is not.
func TestVerify(t *testing.T) {
	good := []entry{{1, 5, "a", 1}, {2, 5, "a", 2}, {3, 7, "b", 1}}
	for name, c := range map[string]struct {
		ledger *ledger
		says   string // "" if all is well
	}{
		"all well":           {&ledger{entries: good}, ""},
		"a late write":       {&ledger{entries: good, refused: []refusal{{5, 7, "a", 3}}}, ""},
		"lost write":         {&ledger{entries: []entry{{1, 5, "a", 1}, {3, 7, "b", 1}}}, "write 2 is lost"},
		"stale accepted":     {&ledger{entries: []entry{{1, 7, "b", 1}, {2, 5, "a", 1}}}, "stale write accepted"},
		"token not rising":   {&ledger{entries: good, refused: []refusal{{6, 7, "c", 1}}}, "token not rising: c got 6 after 7"},
		"writer out of line": {&ledger{entries: good, faults: []error{errOutOfOrder}}, errOutOfOrder.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			d := &demo{ledger: c.ledger}
			err := d.verify()
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("verify: %v, want %q", err, c.says)
			}
		})
	}
}
