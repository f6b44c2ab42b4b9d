package wire

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

func encodeState(t testing.TB, s state) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := writeState(&buf, s, nil); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestTableRoundTrip(t *testing.T) {
	rng := newRand(t)
	var seen locktable.Header
	var fields uint64
	for range 40 {
		s := randomTable(t, rng, rng.IntN(400)).Snapshot()
		b := encodeState(t, s)
		table, err := ReadSnapshot(iotest.HalfReader(bytes.NewReader(b)))
		if err != nil {
			t.Fatal(err)
		}
		again := table.Snapshot()
		if again.Header() != s.Header() || again.Hash() != s.Hash() {
			t.Fatalf("got %+v, want %+v, or other hash", again.Header(), s.Header())
		}
		if !bytes.Equal(encodeState(t, again), b) {
			t.Fatal("equal state, other bytes")
		}
		for c := range s.Claims() {
			fields |= claimFieldsOf(&c)
		}
		h := s.Header()
		seen.Claims, seen.Finished = seen.Claims+h.Claims, seen.Finished+h.Finished
		seen.Lost, seen.Audit, seen.Limits = seen.Lost+h.Lost, seen.Audit+h.Audit, seen.Limits+h.Limits
	}
	if seen.Claims == 0 || seen.Finished == 0 || seen.Lost == 0 || seen.Audit == 0 || seen.Limits == 0 {
		t.Fatalf("the random commands left a section empty: %+v", seen)
	}
	if fields != claimEnd-1 {
		t.Fatalf("the random commands never set the claim fields %#x", claimEnd-1&^fields)
	}
}

func TestTableBeforeFounding(t *testing.T) {
	table, err := ReadSnapshot(bytes.NewReader(encodeState(t, locktable.New().Snapshot())))
	if err != nil || table.Header() != (locktable.Header{}) {
		t.Fatalf("got %+v, %v", table, err)
	}
}

func TestEveryFieldOfARecordIsKept(t *testing.T) {
	rng := newRand(t)
	for range 200 {
		want := randomRecords(rng)
		got, _, err := readState(bytes.NewReader(encodeState(t, want)), newRecordBuilder)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.records, want) {
			t.Fatalf("got  %+v\nwant %+v", got.records, want)
		}
	}
}

func TestSnapshotHeaderAlone(t *testing.T) {
	s := randomRecords(newRand(t))
	s.head.Level = Level + 6
	b := encodeState(t, s)
	h, err := ReadSnapshotHeader(bytes.NewReader(b))
	if err != nil || h != s.head {
		t.Fatalf("got %+v, %v, want %+v", h, err, s.head)
	}
	for n := range len(snapshotMagic) + 5 {
		if _, err := ReadSnapshotHeader(bytes.NewReader(b[:n])); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

func TestDamagedSnapshotYieldsNoTable(t *testing.T) {
	b := encodeState(t, goldenRecords())
	for n := range b {
		if table, err := ReadSnapshot(bytes.NewReader(b[:n])); table != nil || !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut to %d of %d bytes: %v, %v", n, len(b), table, err)
		}
	}
	for i := 0; i < 8*len(b); i += 3 { // two or three bits of each byte: each reading takes a buffer of its own
		b[i/8] ^= 1 << (i % 8)
		table, err := ReadSnapshot(bytes.NewReader(b))
		if table != nil || !errors.Is(err, ErrMalformed) || errors.Is(err, ErrLevel) {
			t.Fatalf("bit %d flipped: %v, %v", i, table, err)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	if table, err := ReadSnapshot(bytes.NewReader(append(b, 0))); table != nil || !errors.Is(err, ErrMalformed) {
		t.Fatalf("one more byte: %v, %v", table, err)
	}
}

// An input that cannot be read may be whole: its error must not look like damage.
func TestReadErrorIsNotDamage(t *testing.T) {
	b := encodeState(t, foundedTable(t).Snapshot())
	broken := errors.New("disk on fire")
	for _, n := range []int{0, len(snapshotMagic), len(b) / 2, len(b)} {
		in := io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(broken))
		if table, err := ReadSnapshot(in); table != nil || !errors.Is(err, broken) || errors.Is(err, ErrMalformed) {
			t.Errorf("after %d bytes: %v, %v", n, table, err)
		}
	}
}

// failingWriter takes n bytes.
type failingWriter struct{ left int }

var errFull = errors.New("disk full")

func (w *failingWriter) Write(b []byte) (int, error) {
	if len(b) > w.left {
		n := w.left
		w.left = 0
		return n, errFull
	}
	w.left -= len(b)
	return len(b), nil
}

func TestWriteErrorIsToldAtEveryByte(t *testing.T) {
	s := randomTable(t, newRand(t), 100).Snapshot()
	size := len(snapshotOf(t, s))
	for n := range size {
		if err := WriteSnapshot(&failingWriter{n}, s); !errors.Is(err, errFull) {
			t.Fatalf("room for %d of %d bytes: %v", n, size, err)
		}
	}
	if err := WriteSnapshot(&failingWriter{size}, s); err != nil {
		t.Fatalf("room for all: %v", err)
	}
}

func TestUnreadableSnapshotIsNotWritten(t *testing.T) {
	miscounted := randomRecords(newRand(t))
	miscounted.head.Claims++
	if err := writeState(io.Discard, miscounted, nil); err == nil {
		t.Error("count differs from the header's, and no error")
	}
	long := newRecords(locktable.Header{})
	long.audit = []locktable.AuditRecord{{Reason: strings.Repeat("x", maxRecord)}}
	long.count()
	if err := writeState(io.Discard, long, nil); err == nil {
		t.Error("record longer than can be read back, and no error")
	}
}

func TestLargestRecordFits(t *testing.T) {
	names := make([]string, locktable.MaxNames)
	for i := range names {
		names[i] = strings.Repeat("n", locktable.MaxNameLen)
	}
	note, node := strings.Repeat("x", locktable.MaxNoteLen), strings.Repeat("x", locktable.MaxNodeLen)
	s := newRecords(locktable.Header{})
	s.claims = []locktable.ClaimRecord{{
		Rev: math.MaxInt64, Pos: math.MinInt64, Session: math.MaxInt64, Seq: math.MaxUint64, Names: names, Mode: lastMode,
		Created: math.MaxInt64, Token: math.MaxInt64 - 1, Grant: math.MaxInt64, Granted: math.MinInt64, Count: locktable.MaxPermits,
		Note: note, Value: strings.Repeat("v", locktable.MaxValueLen), Delay: locktable.MaxDelay, Offer: locktable.OfferHash("secret"),
		DrainIndex: math.MaxUint64, DrainRev: math.MaxInt64, DrainNote: note, DrainActor: note, Barred: true, Node: node, NodeName: node,
	}}
	s.count()
	got, _, err := readState(bytes.NewReader(encodeState(t, s)), newRecordBuilder)
	if err != nil || !reflect.DeepEqual(got.records, s) {
		t.Fatalf("the largest claim that the rules allow does not come back: %v", err)
	}
}

// seal ends a snapshot that was made by hand with the hash that it should have.
func seal(body []byte) []byte {
	sum := sha256.Sum256(body)
	return append(body[:len(body):len(body)], sum[:]...)
}

// A snapshotScript makes snapshots by hand, sealed, so that only what it does on purpose is wrong with them.
type snapshotScript struct{ Writer }

func (s *snapshotScript) head(format, level uint64) {
	s.buf = append(s.buf, snapshotMagic...)
	s.Uvarint(format)
	s.Uvarint(level)
	start := len(s.buf)
	s.header(&locktable.Header{ClusterID: "cluster-1", Counter: 1, MaxTTL: testTTL})
	s.frame(start)
}

func (s *snapshotScript) section(id uint64, required bool, content ...string) {
	s.Uvarint(id<<1 | bit(required, requiredBit))
	s.Uvarint(uint64(len(content)))
	for _, c := range content {
		s.String(c)
	}
}

func (s *snapshotScript) known(from, to uint64) {
	for id := from; id <= to; id++ {
		s.section(id, true)
	}
}

func (s *snapshotScript) end() { s.Uvarint(0) }

func TestSnapshotLayouts(t *testing.T) {
	for name, test := range map[string]struct {
		want   error
		script func(*snapshotScript)
	}{
		"whole":          {nil, func(s *snapshotScript) { s.head(1, 1); s.known(1, 6); s.end() }},
		"level 0":        {nil, func(s *snapshotScript) { s.head(1, 0); s.known(1, 6); s.end() }},
		"newer level":    {ErrLevel, func(s *snapshotScript) { s.head(1, Level+1); s.known(1, 6); s.end() }},
		"newer format":   {ErrLevel, func(s *snapshotScript) { s.head(2, 1); s.known(1, 6); s.end() }},
		"format 0":       {ErrMalformed, func(s *snapshotScript) { s.head(0, 1); s.known(1, 6); s.end() }},
		"level of 2^33":  {ErrMalformed, func(s *snapshotScript) { s.head(1, 1<<33); s.known(1, 6); s.end() }},
		"no end":         {ErrMalformed, func(s *snapshotScript) { s.head(1, 1); s.known(1, 6) }},
		"unknown layout": {ErrLevel, func(s *snapshotScript) { s.head(2, 7); s.buf = append(s.buf, "whatever"...) }},
		"long unknown": {ErrLevel, func(s *snapshotScript) {
			s.head(2, 7)
			s.buf = append(s.buf, strings.Repeat("whatever", maxRecord/5)...)
		}},
		"no sections":     {ErrMalformed, func(s *snapshotScript) { s.head(1, 1); s.end() }},
		"last missing":    {ErrMalformed, func(s *snapshotScript) { s.head(1, 1); s.known(1, 5); s.end() }},
		"first missing":   {ErrMalformed, func(s *snapshotScript) { s.head(1, 1); s.known(2, 6); s.end() }},
		"one in between":  {ErrMalformed, func(s *snapshotScript) { s.head(1, 1); s.known(1, 2); s.known(4, 6); s.end() }},
		"twice":           {ErrMalformed, func(s *snapshotScript) { s.head(1, 1); s.known(1, 6); s.known(6, 6); s.end() }},
		"not required":    {ErrMalformed, func(s *snapshotScript) { s.head(1, 1); s.known(1, 5); s.section(6, false); s.end() }},
		"id 0":            {ErrMalformed, func(s *snapshotScript) { s.head(1, 1); s.known(1, 6); s.section(0, true); s.end() }},
		"unknown, early":  {ErrMalformed, func(s *snapshotScript) { s.head(1, 1); s.section(10, false); s.known(1, 6); s.end() }},
		"count too high":  {ErrMalformed, func(s *snapshotScript) { s.head(1, 1); s.known(1, 5); s.section(6, true, "x"); s.end() }},
		"record as end":   {ErrMalformed, func(s *snapshotScript) { s.head(1, 1); s.known(1, 5); s.section(6, true, "") }},
		"unknown, alone":  {ErrMalformed, func(s *snapshotScript) { s.head(1, 1); s.section(10, false); s.end() }},
		"unknown needed":  {ErrLevel, func(s *snapshotScript) { s.head(1, 1); s.known(1, 6); s.section(10, true); s.end() }},
		"unknown skipped": {nil, func(s *snapshotScript) { s.head(1, 1); s.known(1, 6); s.section(10, false, "a", "", "b"); s.end() }},
		"two skipped": {nil, func(s *snapshotScript) {
			s.head(1, 1)
			s.known(1, 6)
			s.section(10, false)
			s.section(11, false)
			s.end()
		}},
		"skipped at length": {nil, func(s *snapshotScript) {
			s.head(1, 1)
			s.known(1, 6)
			s.section(8, false, strings.Repeat("x", 3*maxRecord+1))
			s.end()
		}},
		"unknown, falling": {ErrMalformed, func(s *snapshotScript) {
			s.head(1, 1)
			s.known(1, 6)
			s.section(11, false)
			s.section(10, false)
			s.end()
		}},
	} {
		var s snapshotScript
		test.script(&s)
		table, err := ReadSnapshot(bytes.NewReader(seal(s.Bytes())))
		if !errors.Is(err, test.want) || (table == nil) != (test.want != nil) {
			t.Errorf("%s: %v, %v, want %v", name, table, err, test.want)
		}
		var level *LevelError
		if errors.As(err, &level) && (level.Want <= Level || level.Have != Level) {
			t.Errorf("%s: %+v", name, level)
		}
	}
}

// A snapshot of tomorrow that is damaged is damaged, first of all.
func TestDamagedNewerSnapshot(t *testing.T) {
	var s snapshotScript
	s.head(2, Level+1)
	b := seal(s.Bytes())
	for i := range b {
		b[i] ^= 1
		if table, err := ReadSnapshot(bytes.NewReader(b)); table != nil || !errors.Is(err, ErrMalformed) || errors.Is(err, ErrLevel) {
			t.Errorf("byte %d: %v, %v", i, table, err)
		}
		b[i] ^= 1
	}
}

// What is not a rule of the layout is for the table's builder to refuse, under a hash that is right.
func TestSoundLayoutOfAnImpossibleState(t *testing.T) {
	rng := newRand(t)
	for range 50 {
		s := randomRecords(rng)
		if s.head.Sessions+s.head.Claims+s.head.Finished+s.head.Lost+s.head.Audit+s.head.Limits == 0 {
			continue
		}
		if table, err := ReadSnapshot(bytes.NewReader(encodeState(t, s))); table != nil || !errors.Is(err, ErrMalformed) {
			t.Fatalf("%+v: %v, %v", s, table, err)
		}
	}
}

// A length claims nothing until its bytes are there.
func TestHostileLengthsTakeNoMemory(t *testing.T) {
	const huge = math.MaxInt
	for name, script := range map[string]func(*snapshotScript){
		"header":          func(s *snapshotScript) { s.Uvarint(1); s.Uvarint(1); s.Uvarint(huge) },
		"records, record": func(s *snapshotScript) { hostileHeader(s, huge); s.Uvarint(3); s.Uvarint(huge); s.Uvarint(huge) },
		"skipped": func(s *snapshotScript) {
			hostileHeader(s, 0)
			s.known(1, 6)
			s.Uvarint(8 << 1)
			s.Uvarint(huge)
			s.Uvarint(huge)
		},
	} {
		var s snapshotScript
		s.buf = append(s.buf, snapshotMagic...)
		script(&s)
		b := seal(s.Bytes())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if table, err := ReadSnapshot(bytes.NewReader(b)); table != nil || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, %v", name, table, err)
		}
		runtime.ReadMemStats(&after)
		taken := after.TotalAlloc - before.TotalAlloc
		if taken == 0 || taken > 4*maxRecord {
			t.Errorf("%s: %d bytes allocated", name, taken)
		}
	}
}

func hostileHeader(s *snapshotScript, sessions int) {
	s.Uvarint(1)
	s.Uvarint(1)
	start := len(s.buf)
	s.header(&locktable.Header{Sessions: sessions})
	s.frame(start)
}
