package wire

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// Records of snapshots keep the promises of all values, except that they have no version: a format has one layout of them.
var recordKinds = []valueKind{
	recordKind("header", (*Writer).header, (*Reader).header),
	recordKind("session record", (*Writer).sessionRecord, (*Reader).sessionRecord),
	recordKind("claim record", (*Writer).claimRecord, (*Reader).claimRecord),
	recordKind("finished record", (*Writer).finishedRecord, (*Reader).finishedRecord),
	recordKind("lost record", (*Writer).lostRecord, (*Reader).lostRecord),
	recordKind("audit record", (*Writer).auditRecord, (*Reader).auditRecord),
	recordKind("limit record", (*Writer).limitRecord, (*Reader).limitRecord),
	recordKind("opened record", (*Writer).openedRecord, (*Reader).openedRecord),
	recordKind("act record", (*Writer).actRecord, (*Reader).actRecord),
}

func recordKind[T any](name string, write func(*Writer, *T), read func(*Reader) T) valueKind {
	return kindOf(name, false, random[T],
		func(dst []byte, v *T) []byte {
			w := NewWriter(dst)
			write(w, v)
			return w.Bytes()
		},
		func(b []byte) (T, error) {
			r := NewReader(b)
			v := read(r)
			return v, r.Done()
		})
}

func TestRecords(t *testing.T) {
	for _, k := range recordKinds {
		t.Run(k.name, func(t *testing.T) {
			rng := newRand(t)
			for range 30 {
				checkRecord(t, k, randomRecord(rng, k))
			}
		})
	}
}

// randomRecord leaves out of a header what stands before it, and counts below zero; and of other records what additions of a later level tell.
func randomRecord(rng *rand.Rand, k valueKind) any {
	v := k.random(rng)
	if h, ok := v.(locktable.Header); ok {
		h.Level = 0
		for _, n := range []*int{&h.Sessions, &h.Claims, &h.Finished, &h.Lost, &h.Audit, &h.Limits} {
			*n &= math.MaxInt
		}
		return h
	}
	switch r := v.(type) {
	case locktable.SessionRecord:
		r.Opened = 0
		return r
	case locktable.AuditRecord:
		r.Act, r.Session, r.Node, r.NodeName = 0, 0, "", ""
		return r
	case actRecord:
		r.AuditRecord = locktable.AuditRecord{Act: r.Act, Session: r.Session, Node: r.Node, NodeName: r.NodeName}
		return r
	}
	return v
}

func checkRecord(t *testing.T, k valueKind, v any) {
	b := k.encode(nil, v)
	if got, err := k.decode(b); err != nil || !reflect.DeepEqual(got, v) {
		t.Fatalf("got  %+v, %v\nwant %+v", got, err, v)
	}
	for n := range b {
		if got, err := k.decode(b[:n]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%d of %d bytes of %x: got %+v, %v", n, len(b), b, got, err)
		}
	}
	if got, err := k.decode(append(bytes.Clone(b), 0)); !errors.Is(err, ErrMalformed) {
		t.Fatalf("one byte more: got %+v, %v", got, err)
	}
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		checkCanonical(t, k, b)
		b[i/8] ^= 1 << (i % 8)
	}
}

// What a bit that is not set says already must not be said again.
func TestClaimRecordHasOneEncoding(t *testing.T) {
	claim := func(fields uint64, content ...int64) []byte {
		var w Writer
		w.Varint(100) // revision
		w.Varint(90)
		w.Uvarint(1)
		w.names([]string{"job"})
		w.Varint(7) // created
		w.Uvarint(fields)
		for _, v := range content {
			w.Varint(v)
		}
		return w.Bytes()
	}
	for name, test := range map[string]struct {
		b    []byte
		want locktable.ClaimRecord // beside what all have; none: refused
	}{
		"waiting": {claim(0), locktable.ClaimRecord{Pos: 100}},
		"granted at once": {
			claim(claimToken|claimGranted, 0, 0), locktable.ClaimRecord{Pos: 100, Token: 100, Grant: 100, Granted: 7},
		},
		"granted later":          {claim(claimToken, 5), locktable.ClaimRecord{Pos: 100, Token: 105, Grant: 105}},
		"place of another":       {claim(claimPos, 50), locktable.ClaimRecord{Pos: 50}},
		"token of others":        {claim(claimToken|claimGrant, -20, 104), locktable.ClaimRecord{Pos: 100, Token: 80, Grant: 104}},
		"token of zero":          {claim(claimToken, -100), locktable.ClaimRecord{}},
		"granted at zero":        {claim(claimGranted, -7), locktable.ClaimRecord{}},
		"place of its own":       {claim(claimPos, 100), locktable.ClaimRecord{}},
		"grant that is a token":  {claim(claimToken|claimGrant, 5, 105), locktable.ClaimRecord{}},
		"no grant without token": {claim(claimGrant, 0), locktable.ClaimRecord{}},
		"unknown field":          {claim(claimEnd), locktable.ClaimRecord{}},
	} {
		r := NewReader(test.b)
		got := r.claimRecord()
		if test.want.Pos == 0 {
			if !errors.Is(r.Done(), ErrMalformed) {
				t.Errorf("%s: got %+v", name, got)
			}
			continue
		}
		test.want.Rev, test.want.Session, test.want.Seq, test.want.Names, test.want.Created = 100, 90, 1, []string{"job"}, 7
		if r.Done() != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", name, got, r.Done(), test.want)
		}
	}
	for field := claimMode; field < claimEnd; field <<= 1 {
		r := NewReader(claim(field, 0))
		if got := r.claimRecord(); !errors.Is(r.Done(), ErrMalformed) {
			t.Errorf("field %#x of zero: got %+v", field, got)
		}
	}
}
