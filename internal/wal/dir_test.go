package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestDir writes and reads real files, with a reader beside the writer and segments made in the background.
func TestDir(t *testing.T) {
	path := t.TempDir()
	opt := Options{SegmentBytes: 16 << 10}
	l, m := mustCreate(t, Dir(path), opt), model{}
	rng := rand.New(rand.NewPCG(1, 2))
	done := make(chan struct{})
	var reading sync.WaitGroup
	for range 2 {
		reading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				first, last := l.Bounds()
				for _, index := range []uint64{first, (first + last) / 2, last} {
					if _, err := l.Get(index); err != nil && !errors.Is(err, ErrNotFound) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for n := range 400 {
		a := randomAct(rng, m)
		if err := a.do(l); err != nil {
			t.Fatalf("%d: %s: %v", n, a.name, err)
		}
		m = a.ends[len(a.ends)-1]
	}
	close(done)
	reading.Wait()
	if d := m.diff(l); d != "" {
		t.Fatal(d)
	}
	mustCloseLog(t, l)
	if _, err := l.Get(m.first); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := l.Append(1, [][]byte{nil}); err == nil {
		t.Error("an entry was appended after Close")
	}
	if err := os.WriteFile(filepath.Join(path, segmentName(900)+tempSuffix), []byte("cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(Dir(path), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := m.diff(l); d != "" {
		t.Fatal(d)
	}
	mustCloseLog(t, l)
	mustCloseLog(t, l)
	if left, _ := filepath.Glob(filepath.Join(path, "*"+tempSuffix)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := Create(Dir(path), opt); err == nil {
		t.Error("a log was created over another one")
	}
}

func mustCloseLog(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestRefusals: what cannot be stored is refused before anything is written, and the log goes on.
func TestRefusals(t *testing.T) {
	l := mustCreate(t, newSimFS(), testOptions)
	if err := l.Append(0, [][]byte{{1}}); err == nil {
		t.Error("an entry without an index was taken")
	}
	if err := l.Append(5, [][]byte{{1}, nil}); err != nil {
		t.Fatal(err)
	}
	for _, first := range []uint64{1, 5, 6, 8} {
		if err := l.Append(first, [][]byte{{2}}); err == nil {
			t.Errorf("entry %d was taken after entry 6", first)
		}
	}
	if err := l.Append(7, [][]byte{{3}, make([]byte, maxSegment+1)}); err == nil {
		t.Error("an entry of more than the limit was taken")
	}
	for _, nothing := range []func() error{
		func() error { return l.Append(7, nil) },
		func() error { return l.TruncateHead(5) },
		func() error { return l.TruncateTail(6) },
	} {
		if err := nothing(); err != nil {
			t.Error(err)
		}
	}
	if d := (model{first: 5, entries: [][]byte{{1}, {}}}).diff(l); d != "" {
		t.Error(d)
	}
	mustCloseLog(t, l)
}

// TestFullDisk: a segment that cannot be made is told when it is wanted, and nothing that was stored is lost.
func TestFullDisk(t *testing.T) {
	fs := newSimFS()
	l := mustCreate(t, fs, testOptions)
	full := errors.New("no space left")
	fs.fail = func(op, name string) error {
		if op == "create" {
			return full
		}
		return nil
	}
	m := model{}
	for {
		_, last := m.bounds()
		if err := l.Append(last+1, [][]byte{{byte(last)}}); err != nil {
			if !errors.Is(err, full) {
				t.Fatal(err)
			}
			break
		}
		m = m.append(last+1, [][]byte{{byte(last)}})
	}
	if len(m.entries) < 7 {
		t.Errorf("full after %d entries", len(m.entries))
	}
	mustCloseLog(t, l)
	fs.fail = nil
	l, err := Open(fs, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	if d := m.diff(l); d != "" {
		t.Error(d)
	}
	mustCloseLog(t, l)
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{200, 20_000} {
		b.Run(fmt.Sprintf("log/%d", size), func(b *testing.B) {
			l := mustCreate(b, Dir(b.TempDir()), Options{})
			entry := [][]byte{bytes.Repeat([]byte{7}, size)}
			b.ReportAllocs()
			index := uint64(0)
			for b.Loop() {
				if index++; index%4096 == 0 {
					if err := l.TruncateHead(index - 1000); err != nil {
						b.Fatal(err)
					}
				}
				if err := l.Append(index, entry); err != nil {
					b.Fatal(err)
				}
			}
			mustCloseLog(b, l)
		})
		b.Run(fmt.Sprintf("fdatasync/%d", size), func(b *testing.B) { // the same bytes, over and over in one prepared file
			s, err := prepareSegment(Dir(b.TempDir()), newSite(1, 1), 8192)
			if err != nil {
				b.Fatal(err)
			}
			data := make([]byte, sectorsFor(size)*sectorSize)
			for b.Loop() {
				if _, err := s.file.WriteAt(data, sectorSize); err != nil {
					b.Fatal(err)
				}
				if err := s.file.Sync(); err != nil {
					b.Fatal(err)
				}
			}
			if err := s.file.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
