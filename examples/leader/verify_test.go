package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
			checkSays(t, d.verify(), c.says)
		})
	}
}

// What becomes of a resumed leader's write decides whether the pause is good, is to be done again, or has shown a broken fence.
func TestAwaitLateWrite(t *testing.T) {
	interrupted := errors.New("interrupted")
	for name, c := range map[string]struct {
		happens func(*ledger, context.CancelCauseFunc)
		late    bool
		says    string
	}{
		"refused":     {func(l *ledger, _ context.CancelCauseFunc) { _, _ = l.append(5, "a", 2) }, true, ""},
		"nothing":     {func(*ledger, context.CancelCauseFunc) {}, false, ""},
		"other wrote": {func(l *ledger, _ context.CancelCauseFunc) { _, _ = l.append(7, "b", 2) }, false, ""},
		"accepted": {func(l *ledger, _ context.CancelCauseFunc) {
			_, _ = l.add(entry{Token: 5, Instance: "a", Seq: 1}) // past the guard
		}, false, "stale write accepted"},
		"got past the guard": {func(l *ledger, _ context.CancelCauseFunc) {
			_, _ = l.add(entry{Token: 5, Instance: "a", Seq: 2})
		}, false, errOutOfOrder.Error()},
		"interrupted": {func(_ *ledger, end context.CancelCauseFunc) { end(interrupted) }, false, "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &demo{ledger: newLedger(), line: newTimeline(io.Discard)}
				_, _ = d.ledger.append(5, "a", 1)
				_, _ = d.ledger.append(7, "b", 1)
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				go func() {
					time.Sleep(lateBound / 2)
					c.happens(d.ledger, end)
				}()
				late, err := d.awaitLateWrite(ctx, term{Token: 5, Instance: "a"}, 1)
				if late != c.late {
					t.Errorf("late: %v", late)
				}
				checkSays(t, err, c.says)
			})
		})
	}
}

// checkSays demands an error with these words in it, and none for "".
func checkSays(t *testing.T, err error, words string) {
	t.Helper()
	switch {
	case words == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case words != "" && (err == nil || !strings.Contains(err.Error(), words)):
		t.Errorf("error %v, want %q in it", err, words)
	}
}
