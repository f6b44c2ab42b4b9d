package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

func snapshotOf(t testing.TB, s *locktable.Snapshot) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := WriteSnapshot(&buf, s); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// otherwise is a snapshot of s that says it was taken of another state; its bytes are sound.
func otherwise(t testing.TB, s *locktable.Snapshot, change func(*stateHash)) []byte {
	t.Helper()
	hash, _ := hashWhile(s, always)
	change(hash)
	var buf bytes.Buffer
	if err := writeState(&buf, s, hash); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestSnapshotIsOfTheStateThatItGives(t *testing.T) {
	rng := newRand(t)
	for range 20 {
		s := randomTable(t, rng, rng.IntN(400)).Snapshot()
		table, err := ReadSnapshot(bytes.NewReader(snapshotOf(t, s)))
		if err != nil || table.Snapshot().Hash() != s.Hash() {
			t.Fatalf("%v, or another hash", err)
		}
		b := otherwise(t, s, func(h *stateHash) { h.hash[rng.IntN(32)] ^= 1 })
		var other *StateError
		table, err = ReadSnapshot(bytes.NewReader(b))
		if table != nil || !errors.As(err, &other) || errors.Is(err, ErrMalformed) {
			t.Fatalf("a snapshot of another state: %v, %v", table, err)
		}
		if other.Got != s.Hash() || other.Want == other.Got || other.Index != s.Header().Index {
			t.Fatalf("%+v", other)
		}
	}
}

// A hash in a form of another version says nothing about this one, and neither does its absence.
func TestSnapshotWithoutAComparableHash(t *testing.T) {
	s := randomTable(t, newRand(t), 100).Snapshot()
	for name, b := range map[string][]byte{
		"other version": otherwise(t, s, func(h *stateHash) { h.version++; h.hash[0] ^= 1 }),
		"none":          encodeState(t, s),
	} {
		table, err := ReadSnapshot(bytes.NewReader(b))
		if err != nil || table.Snapshot().Hash() != s.Hash() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHashSectionLayouts(t *testing.T) {
	var empty stateHash
	empty.version, empty.hash = locktable.HashVersion, locktable.New().Snapshot().Hash()
	var w Writer
	w.stateHash(&empty)
	content := string(w.Bytes())
	for name, test := range map[string]struct {
		want   error
		script func(*snapshotScript)
	}{
		"two":           {ErrMalformed, func(s *snapshotScript) { s.section(7, false, content, content) }},
		"none":          {ErrMalformed, func(s *snapshotScript) { s.section(7, false) }},
		"short":         {ErrMalformed, func(s *snapshotScript) { s.section(7, false, content[:len(content)-1]) }},
		"long":          {ErrMalformed, func(s *snapshotScript) { s.section(7, false, content+"x") }},
		"no content":    {ErrMalformed, func(s *snapshotScript) { s.section(7, false, "") }},
		"required":      {ErrLevel, func(s *snapshotScript) { s.section(7, true, content) }},
		"other version": {nil, func(s *snapshotScript) { s.section(7, false, "\x07whatever") }},
		"and another":   {nil, func(s *snapshotScript) { s.section(7, false, "\x07"); s.section(8, false, "x") }},
		"behind":        {ErrMalformed, func(s *snapshotScript) { s.section(8, false); s.section(7, false, content) }},
	} {
		var s snapshotScript
		s.head(1, 1)
		s.known(1, 6)
		test.script(&s)
		s.end()
		table, err := ReadSnapshot(bytes.NewReader(seal(s.Bytes())))
		if !errors.Is(err, test.want) || (table == nil) != (test.want != nil) {
			t.Errorf("%s: %v, %v, want %v", name, table, err, test.want)
		}
	}
}

func TestIndexesOfHashesRise(t *testing.T) {
	for name, points := range map[string][]HashPoint{
		"twice":   {{Index: 8}, {Index: 8, Hash: [32]byte{1}}},
		"falling": {{Index: 8}, {Index: 7}},
	} {
		if m, err := DecodeHashesReply(AppendHashesReply(nil, &HashesReply{Points: points})); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// Neither writing nor verifying a huge state holds up a node that closes.
func TestSnapshotIsGivenUp(t *testing.T) {
	s := randomTable(t, newRand(t), 4000).Snapshot()
	b := snapshotOf(t, s)
	asked, most := 0, 0
	goOn := func() bool { asked++; return asked <= most }
	for most = range 3 {
		asked = 0
		if err := WriteSnapshotWhile(io.Discard, s, goOn); !errors.Is(err, ErrStopped) {
			t.Errorf("written though told to stop at question %d: %v", most+1, err)
		}
	}
	asked, most = 0, 0
	if err := VerifySnapshot(bytes.NewReader(b), goOn); !errors.Is(err, ErrStopped) {
		t.Errorf("verified though told to stop: %v", err)
	}
	most = 1 << 20
	if err := errors.Join(VerifySnapshot(bytes.NewReader(b), goOn), WriteSnapshotWhile(io.Discard, s, goOn)); err != nil {
		t.Error(err)
	}
}
