package locktable

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// possible are the answers that each operation can be given once the cluster is founded, beside malformed, which all can.
var possible = map[Op]string{
	OpNone:      "",
	OpFound:     "ok exists",
	OpOpen:      "ok overloaded",
	OpRenew:     "ok no-session",
	OpClose:     "ok no-session",
	OpExpire:    "ok stale no-session",
	OpClaim:     "granted waiting locked cancelled mismatch below-floor draining overloaded no-session kind limit quarantined",
	OpCancel:    "cancelled locked kind limit not-held mismatch overloaded no-session",
	OpUnlock:    "released not-held mismatch below-floor overloaded no-session",
	OpForce:     "ok draining mismatch not-held overloaded",
	OpDrained:   "ok stale not-held",
	OpInspect:   "ok",
	OpBarrier:   "ok",
	OpLevel:     "ok",
	OpDowngrade: "granted cancelled draining not-held mismatch below-floor overloaded no-session",
	OpProclaim:  "ok draining not-held mismatch below-floor overloaded no-session",
	OpHandOver:  "released no-waiter draining not-held mismatch below-floor overloaded no-session",
	OpResize:    "ok kind mismatch below-floor overloaded no-session",
	OpOffer:     "ok draining not-held mismatch below-floor overloaded no-session",
	OpAccept:    "granted cancelled draining not-held mismatch below-floor overloaded no-session",
	OpList:      "ok",
	OpRestart:   "ok stale",
	OpSessions:  "ok",
	OpAudit:     "ok",
	OpEnd:       "ok no-session",
	OpAct:       "ok overloaded",
}

// requireCoverage fails a run whose commands did not bite, for an outcome that never came up was not compared; and one with an outcome that is not
// known to be possible. A short run need not have spoiled a command of each operation.
func requireCoverage(t *testing.T, commands int, seen tally) {
	t.Helper()
	rest := maps.Clone(seen)
	delete(rest, "restored")
	if delete(rest, "refounded"); seen["refounded"] == 0 {
		t.Error("no state was refounded")
	}
	for op := OpNone; op <= OpAct; op++ {
		codes, known := possible[op]
		if !known {
			t.Errorf("nothing is known of %v", op)
		}
		for _, code := range append(strings.Fields(codes), "malformed") {
			pair := op.String() + " " + code
			if few := code == "malformed" && commands < 100_000; seen[pair] == 0 && !few {
				t.Errorf("%q never came up", pair)
			}
			delete(rest, pair)
		}
		delete(rest, op.String()+" not-founded")
	}
	for _, pair := range slices.Sorted(maps.Keys(rest)) {
		t.Errorf("%q came up %d times", pair, rest[pair])
	}
}
