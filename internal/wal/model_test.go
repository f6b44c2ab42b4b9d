package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is what a log should hold: a slice.
type model struct {
	first   uint64
	entries [][]byte
}

func (m model) bounds() (first, last uint64) {
	if len(m.entries) == 0 {
		return 0, 0
	}
	return m.first, m.first + uint64(len(m.entries)) - 1
}

func (m model) append(first uint64, entries [][]byte) model {
	if len(m.entries) == 0 {
		m.first = first
	}
	m.entries = slices.Concat(m.entries, entries)
	return m
}

func (m model) truncateHead(first uint64) model {
	for len(m.entries) > 0 && m.first < first {
		m.first, m.entries = m.first+1, m.entries[1:]
	}
	return m
}

func (m model) truncateTail(last uint64) model {
	for _, have := m.bounds(); have > last; _, have = m.bounds() {
		m.entries = m.entries[:len(m.entries)-1]
	}
	return m
}

// diff says in what a log differs; "" if in nothing.
func (m model) diff(l *Log) string {
	first, last := m.bounds()
	if f, n := l.Bounds(); f != first || n != last {
		return fmt.Sprintf("bounds %d to %d, want %d to %d", f, n, first, last)
	}
	for i, want := range m.entries {
		if got, err := l.Get(m.first + uint64(i)); err != nil || !bytes.Equal(got, want) {
			return fmt.Sprintf("entry %d: %d bytes, %v; want %d bytes", m.first+uint64(i), len(got), err, len(want))
		}
	}
	for _, outside := range []uint64{0, first - 1, last + 1, ^uint64(0)} {
		if first <= outside && outside <= last {
			continue
		}
		if _, err := l.Get(outside); !errors.Is(err, ErrNotFound) {
			return fmt.Sprintf("entry %d: %v", outside, err)
		}
	}
	return ""
}

// act is one write: how it is done, and the states that it may leave if it is cut short. The last one is that of a success.
type act struct {
	name string
	do   func(*Log) error
	ends []model
}

func randomAct(rng *rand.Rand, m model) act {
	first, last := m.bounds()
	switch n := rng.IntN(12); {
	case n == 0 && last != 0:
		keep := first + rng.Uint64N(last-first+2)
		return act{fmt.Sprintf("head from %d", keep), func(l *Log) error { return l.TruncateHead(keep) }, []model{m.truncateHead(keep)}}
	case n == 1 && last != 0:
		keep := last - rng.Uint64N(min(last-first+2, 6))
		return act{fmt.Sprintf("tail to %d", keep), func(l *Log) error { return l.TruncateTail(keep) }, []model{m.truncateTail(keep)}}
	case n == 2 && last != 0 && rng.IntN(4) == 0:
		return act{"all", func(l *Log) error { return l.TruncateTail(0) }, []model{m.truncateTail(0)}}
	}
	from := last + 1
	if last == 0 {
		from += rng.Uint64N(50)
	}
	entries := randomEntries(rng)
	a := act{name: fmt.Sprintf("append %d entries from %d", len(entries), from)}
	a.do = func(l *Log) error { return l.Append(from, entries) }
	for n := range entries {
		a.ends = append(a.ends, m.append(from, entries[:n+1]))
	}
	return a
}

func randomEntries(rng *rand.Rand) [][]byte {
	entries := make([][]byte, 1+rng.IntN(5))
	for i := range entries {
		size := rng.IntN(40)
		switch rng.IntN(20) {
		case 0:
			size = 6000 // more than a segment of these tests
		case 1, 2, 3:
			size = rng.IntN(2500)
		}
		entries[i] = make([]byte, size)
		for j := range entries[i] {
			entries[i][j] = byte(rng.Uint32())
		}
	}
	return entries
}

var testOptions = Options{SegmentBytes: 8 * sectorSize, inline: true}

func mustCreate(t testing.TB, fs FS, opt Options) *Log {
	t.Helper()
	l, err := Create(fs, opt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestModel runs random writes, and opens the log again now and then.
func TestModel(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fs := newSimFS()
		l, m := mustCreate(t, fs, testOptions), model{}
		for n := range 150 {
			a := randomAct(rng, m)
			if err := a.do(l); err != nil {
				t.Fatalf("seed %d, step %d, %s: %v", seed, n, a.name, err)
			}
			m = a.ends[len(a.ends)-1]
			if rng.IntN(10) == 0 {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				var err error
				if l, err = Open(fs, testOptions); err != nil {
					t.Fatalf("seed %d, step %d, after %s: %v", seed, n, a.name, err)
				}
			}
			if d := m.diff(l); d != "" {
				t.Fatalf("seed %d, step %d, %s: %s", seed, n, a.name, d)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
