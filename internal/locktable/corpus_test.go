package locktable

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// story is a run for FuzzApply: commands of eight bytes each, see fuzzCommand. They are applied to two sessions from log index 4 on.
type story struct {
	name  string
	bytes []byte
	want  []Code // the answers: a seed that is refused at its first command leads a fuzzer nowhere
}

// do is one command: operation, session, sequence, floor, flags, distance of the token or revision below the counter, names, and the sequence of the claim that
// it is about with a bit for a text.
func do(op Op, rest ...byte) []byte {
	return append([]byte{byte(op)}, append(rest, make([]byte, 7-len(rest))...)...)
}

const (
	nameA, nameB, nameC, nameD = 1, 2, 4, 8 // in the names byte

	flagTry, flagNow, flagAll, flagShared, flagPermits, flagDelay = 1, 2, 4, 8, 16, 32 // in the flags byte
)

// of is the last byte of a command about the claim seq.
func of(seq byte) byte { return seq << 1 }

// permits is the value byte of a claim for permits.
func permits(count, limit byte) byte { return limit<<4 | count }

// resizes is the value byte of a resize.
func resizes(limit, former byte) byte { return former<<3 | limit }

func stories() []story {
	tell := func(name string, want []Code, commands ...[]byte) story {
		return story{name, bytes.Join(commands, nil), want}
	}
	return []story{
		tell("queue", []Code{CodeGranted, CodeWaiting, CodeLocked, CodeReleased, CodeReleased},
			do(OpClaim, 0, 1, 1, 0, 0, nameA), do(OpClaim, 1, 1, 1, 0, 0, nameA), do(OpClaim, 0, 2, 1, flagTry, 0, nameA),
			do(OpUnlock, 0, 3, 1, 0, 1, 0, of(1)), do(OpUnlock, 1, 2, 2, 0, 0, 0, of(1))),
		tell("cancel", []Code{CodeGranted, CodeWaiting, CodeCancelled, CodeCancelled, CodeCancelled, CodeGranted, CodeCancelled},
			do(OpClaim, 0, 1, 1, 0, 0, nameA), do(OpClaim, 1, 1, 1, 0, 0, nameA), do(OpCancel, 1, 1, 1), do(OpClaim, 1, 1, 1, 0, 0, nameA),
			do(OpCancel, 0, 1, 1), do(OpClaim, 1, 2, 2, 0, 0, nameA), do(OpCancel, 1, 9, 2)),
		tell("several names", []Code{CodeGranted, CodeWaiting, CodeWaiting, CodeReleased, CodeOK},
			do(OpClaim, 0, 1, 1, 0, 0, nameA|nameB), do(OpClaim, 1, 1, 1, 0, 0, nameB|nameC), do(OpClaim, 0, 2, 1, 0, 0, nameC|nameD),
			do(OpUnlock, 0, 3, 3, 0, 5, 0, of(1)), do(OpClose, 1)),
		tell("drain", []Code{CodeGranted, CodeDraining, CodeOK, CodeDraining, CodeStale, CodeOK, CodeOK},
			do(OpClaim, 0, 1, 1, 0, 0, nameA), do(OpForce, 0, 0, 0, 0, 0, nameA), do(OpRenew, 0, 0, 0, 0, 2),
			do(OpClaim, 0, 1, 1, 0, 0, nameA), do(OpDrained, 0, 0, 9, 0, 1), do(OpDrained, 0, 0, 5, 0, 1), do(OpRenew, 0)),
		tell("force now", []Code{CodeGranted, CodeWaiting, CodeOK, CodeNotHeld, CodeMismatch},
			do(OpClaim, 0, 1, 1, 0, 0, nameA), do(OpClaim, 1, 1, 1, 0, 0, nameA), do(OpForce, 0, 0, 0, flagNow, 1, nameA),
			do(OpUnlock, 0, 2, 2, 0, 3, 0, of(1)), do(OpForce, 0, 0, 0, flagNow, 3, nameA)),
		tell("expiry", []Code{CodeGranted, CodeWaiting, CodeStale, CodeStale, CodeOK, CodeNoSession},
			do(OpClaim, 0, 1, 1, 0, 0, nameA), do(OpClaim, 1, 1, 1, 0, 0, nameA), do(OpExpire, 0, 1, 0, 0, 2), do(OpExpire, 0, 0, 0, 0, 4),
			do(OpExpire, 0, 1, 0, 0, 4), do(OpRenew, 0)),
		tell("floor", []Code{CodeGranted, CodeReleased, CodeReleased, CodeOK, CodeGranted, CodeBelowFloor},
			do(OpClaim, 0, 1, 1, 0, 0, nameA), do(OpUnlock, 0, 2, 1, 0, 0, 0, of(1)), do(OpUnlock, 0, 2, 1, 0, 1, 0, of(1)), do(OpRenew, 0),
			do(OpClaim, 0, 3, 3, 0, 0, nameA), do(OpClaim, 0, 2, 3, 0, 0, nameA)),
		tell("open", []Code{CodeOK, CodeMalformed, CodeOK, CodeMalformed, CodeMalformed, CodeExists},
			do(OpOpen, 0, 0, 0, 0x10, 0x27), do(OpOpen, 0, 0, 0, 1), do(OpInspect, 255, 0, 0, 0, 0, nameA), do(OpClaim, 0, 1, 0, flagAll, 0, nameA),
			do(OpNone), do(OpFound)),
		tell("readers", []Code{CodeGranted, CodeGranted, CodeWaiting, CodeLocked, CodeReleased, CodeReleased, CodeGranted, CodeDraining, CodeOK},
			do(OpClaim, 0, 1, 1, flagShared, 0, nameA), do(OpClaim, 1, 1, 1, flagShared, 0, nameA), do(OpClaim, 0, 2, 1, 0, 0, nameA),
			do(OpClaim, 1, 2, 1, flagShared|flagTry, 0, nameA), do(OpUnlock, 0, 3, 1, 0, 2, 0, of(1)), do(OpUnlock, 1, 3, 1, 0, 3, 0, of(1)),
			do(OpDowngrade, 0, 4, 1, 0, 0, 0, of(2)), do(OpForce, 0, 0, 0, 0, 0, nameA), do(OpDrained, 0, 0, 11, 0, 1)),
		tell("permits", []Code{CodeGranted, CodeWaiting, CodeLimit, CodeKind, CodeOK, CodeOK, CodeGranted},
			do(OpClaim, 0, 1, 1, flagPermits, permits(2, 3), nameA), do(OpClaim, 1, 1, 1, flagPermits, permits(2, 3), nameA),
			do(OpClaim, 0, 2, 1, flagPermits, permits(1, 4), nameA), do(OpClaim, 0, 3, 1, 0, 0, nameA),
			do(OpResize, 0, 4, 1, 0, 1, nameA), do(OpResize, 0, 5, 1, 0, 4, nameA), do(OpClaim, 1, 2, 1, flagPermits, permits(2, 4), nameA)),
		tell("limits", []Code{CodeOK, CodeGranted, CodeLimit, CodeKind, CodeOK, CodeOK, CodeReleased, CodeGranted, CodeKind, CodeMalformed},
			do(OpResize, 0, 1, 1, 0, resizes(5, 3), nameA), do(OpClaim, 0, 2, 1, flagPermits, permits(2, 3), nameA),
			do(OpClaim, 0, 3, 1, flagPermits, permits(2, 4), nameA), do(OpClaim, 1, 1, 1, 0, 0, nameA), do(OpList, 0, 0, 0, 0, 2),
			do(OpResize, 1, 2, 1, 0, resizes(0, 0), nameA), do(OpUnlock, 0, 4, 1, 0, 1, 0, of(2)), do(OpClaim, 1, 3, 1, 0, 0, nameA),
			do(OpResize, 1, 4, 1, 0, resizes(0, 0), nameA), do(OpResize, 1, 5, 1, 0, resizes(0, 1), nameA)),
		tell("moves", []Code{CodeGranted, CodeWaiting, CodeReleased, CodeOK, CodeNotHeld, CodeGranted, CodeOK, CodeNoWaiter},
			do(OpClaim, 0, 1, 1, 0, 0, nameA), do(OpClaim, 1, 1, 1, 0, 0, nameA), do(OpHandOver, 0, 2, 1, 0, 1, 1, of(1)),
			do(OpOffer, 1, 2, 1, 0, 0, 0, of(1)), do(OpAccept, 0, 3, 1, flagNow, 0, 1, of(1)), do(OpAccept, 0, 4, 1, 0, 0, 1, of(1)),
			do(OpProclaim, 0, 5, 1, 0, 0, 0, of(4)|1), do(OpHandOver, 0, 6, 1, 0, 1, 3, of(4))),
		tell("delay", []Code{CodeGranted, CodeWaiting, CodeOK, CodeDraining, CodeOK, CodeOK, CodeOK, CodeStale, CodeOK},
			do(OpClaim, 0, 1, 1, flagDelay, 0, nameA), do(OpClaim, 1, 1, 1, flagDelay, 0, nameA), do(OpClose, 0),
			do(OpForce, 0, 0, 0, 0, 3, nameA), do(OpDrained, 0, 0, 6, 0, 3), do(OpList, 0, 0, 0, 0, 2),
			do(OpOpen, 0, 0, 0, 0x10, 0x27, 0, 1), do(OpRestart, 0, 0, 9), do(OpRestart, 0, 0, 10)),
	}
}

// TestStories runs the stories and holds the committed seeds against them; -update writes the seeds anew.
func TestStories(t *testing.T) {
	for _, s := range stories() {
		table, ids := founded(t, 2)
		for i, want := range s.want {
			c := fuzzCommand(s.bytes[i*8:i*8+8], ids, table.counter)
			if r := table.Apply(table.index+1, 1, 5, c, nil); r.Code != want {
				t.Errorf("%s, command %d: %s: %v %s, want %v", s.name, i+1, describe(c), r.Code, r.Detail, want)
			}
		}
		checkSeed(t, "FuzzApply", s.name, fmt.Sprintf("[]byte(%q)\n", s.bytes))
	}
	for kind, fields := range tamperFields {
		for field := range fields {
			text := fmt.Sprintf("byte(%q)\nuint16(%d)\nbyte(%q)\nint64(%d)\n", rune(kind), kind*7+field, rune(field), 1000+37*field)
			checkSeed(t, "FuzzBuilder", fmt.Sprint("edit-", kind, field), text)
		}
	}
}

func checkSeed(t *testing.T, target, name, values string) {
	t.Helper()
	path := filepath.Join("testdata", "fuzz", target, name)
	want := []byte("go test fuzz v1\n" + values)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what is written today (run with -update): %v", path, err)
	}
}
