package wire

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

func kindNamed(tb testing.TB, name string) valueKind {
	for _, k := range valueKinds {
		if k.name == name {
			return k
		}
	}
	tb.Fatalf("no kind %q", name)
	return valueKind{}
}

func FuzzDecodeBatch(f *testing.F) {
	k := kindNamed(f, "batch")
	f.Add(k.encode(nil, goldenValues()["batch"]))
	f.Add(entryOf(1, AppendCommand(nil, &barrier), unknownField()))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkCanonical(t, k, b)
		batch, err := DecodeBatch(b)
		if err != nil {
			return
		}
		table := foundedTable(t)
		var eff locktable.Effects
		for i := range batch.Commands {
			c := &batch.Commands[i]
			if got := table.Apply(2, 4, batch.Wall, c, &eff); c.Op == locktable.OpNone && got.Code != locktable.CodeMalformed {
				t.Fatalf("%+v did something: %+v", c, got)
			}
		}
		// Whatever state an entry leads to, its snapshot is read back.
		state := encodeState(t, table.Snapshot())
		again, err := ReadSnapshot(bytes.NewReader(state))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encodeState(t, again.Snapshot()), state) {
			t.Fatal("equal state, other bytes")
		}
	})
}

func FuzzDecodeResult(f *testing.F) {
	k := kindNamed(f, "result")
	f.Add(k.encode(nil, goldenValues()["result"]))
	f.Add(k.encode(nil, goldenLater()["result-sessions"]))
	f.Add(k.encode(nil, goldenLater()["result-audit"]))
	f.Add(k.encode(nil, locktable.Result{Code: locktable.CodeGranted, Index: 9, Token: 8, Renewed: true}))
	f.Fuzz(func(t *testing.T, b []byte) { checkCanonical(t, k, b) })
}

func FuzzMessages(f *testing.F) {
	values := goldenValues()
	maps.Copy(values, goldenLater())
	for i, k := range valueKinds {
		f.Add(byte(i), k.encode(nil, values[k.name]))
	}
	kinds := slices.Concat(valueKinds, recordKinds)
	for i, k := range recordKinds {
		f.Add(byte(len(valueKinds)+i), k.encode(nil, k.random(rand.New(rand.NewPCG(1, 0)))))
	}
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		checkCanonical(t, kinds[int(kind)%len(kinds)], b)
	})
}

// FuzzReadSnapshot puts the right hash behind what it is given, or the fuzzer would never get past it.
func FuzzReadSnapshot(f *testing.F) {
	for _, s := range []state{locktable.New().Snapshot(), foundedTable(f).Snapshot(), goldenRecords(), goldenActs()} {
		b := encodeState(f, s)
		f.Add(b[:len(b)-len(seal(nil))])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if table, err := ReadSnapshot(bytes.NewReader(body)); table != nil || !errors.Is(err, ErrMalformed) {
			t.Fatalf("without its hash: %v, %v", table, err)
		}
		b := seal(body)
		table, err := ReadSnapshot(bytes.NewReader(b))
		if err != nil {
			if table != nil || !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrLevel) {
				t.Fatalf("%v, %v", table, err)
			}
			return
		}
		again := encodeState(t, table.Snapshot())
		if !bytes.Equal(again, b) && !skipped(b, again) {
			t.Fatalf("two encodings of one state:\n%x\n%x", b, again)
		}
	})
}

// skipped says whether b is the snapshot known with unknown sections between its last section and its end.
func skipped(b, known []byte) bool {
	sections := len(known) - len(seal([]byte{0}))
	return len(b) > len(known) && bytes.HasPrefix(b, known[:sections])
}
