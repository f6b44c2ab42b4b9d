//go:build !wasip1

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestADirectoryKeepsItsForm: what a directory was made with counts, whatever is asked for later, and a version of this package
// that knows no segments refuses one that has them, and only that.
func TestADirectoryKeepsItsForm(t *testing.T) {
	for made, format := range map[bool]int{false: plainFormat, true: segmentsFormat} {
		t.Run(fmt.Sprintf("segments %v", made), func(t *testing.T) {
			opt := fill(t, Options{Dir: t.TempDir(), Segments: made, Cluster: "c"})
			asked := opt
			asked.Segments = !made
			s := mustOpen(t, asked)
			wantLog(t, s, 1, 40)
			mustAppend(t, s, 41, 45)
			if err := s.Retire(); err != nil {
				t.Fatal(err)
			}
			requireFiles(t, opt.Dir, memberFiles(opt)...)
			mustClose(t, s)
			mustClose(t, mustOpen(t, asked)) // anew
			requireFiles(t, opt.Dir, memberFiles(opt)...)
			for name, want := range map[string]int{metaName: format, identityName: plainFormat} {
				if got, _, err := readRecord(filepath.Join(opt.Dir, name), name); err != nil || got != want {
					t.Errorf("%s has format %d, %v; want %d", name, got, err, want)
				}
			}
		})
	}
}

func TestAnUnknownFormOfLogIsRefused(t *testing.T) {
	opt := filledSegments(t)
	body := `{"server_id":"x","cluster":"c","complete":true,"log":"tape"}`
	if err := writeRecord(filepath.Join(opt.Dir, metaName), "meta", segmentsFormat, []byte(body)); err != nil {
		t.Fatal(err)
	}
	before := tree(t, opt.Dir)
	_, err := Open(context.Background(), opt)
	asError[*CorruptError](t, err)
	if tree(t, opt.Dir) != before {
		t.Error("something was written")
	}
}

// TestLostMetaBesideSegments: a log without the server id it belongs to is not taken for a new member's.
func TestLostMetaBesideSegments(t *testing.T) {
	opt := filledSegments(t)
	if err := errors.Join(os.Remove(filepath.Join(opt.Dir, metaName)), os.Remove(filepath.Join(opt.Dir, boltName))); err != nil {
		t.Fatal(err)
	}
	_, err := Open(context.Background(), opt)
	asError[*CorruptError](t, err)
}

func TestInterruptedFirstOpenWithSegments(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Segments: true, Cluster: "c"}
	d := &dataDir{path: opt.Dir, meta: dirMeta{ServerID: newServerID(), Cluster: "c", Log: logInSegments}}
	if err := errors.Join(d.writeMeta(), os.Mkdir(d.file(segmentsName), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.file(segmentsName), "000000000001.log"), make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, opt)
	if s.ServerID() != d.meta.ServerID {
		t.Error("the server id changed")
	}
	mustAppend(t, s, 1, 1)
	mustClose(t, s)
	wantLog(t, mustOpen(t, opt), 1, 1)
}

// TestSegmentDamagedUnderOpenStore: an entry that is not what was written fells the latch when it is read.
func TestSegmentDamagedUnderOpenStore(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Segments: true}
	s := mustOpen(t, opt)
	for i := range uint64(2 * cachedEntries) {
		mustAppend(t, s, i+1, i+1)
	}
	f, err := os.OpenFile(filepath.Join(opt.Dir, segmentsName, "000000000001.log"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 3*512+60); err != nil { // a sector for each entry, from the second one
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := getLog(s, 2); err != nil {
		t.Error(err)
	}
	_, err = getLog(s, 3)
	if e := asError[*CorruptError](t, err); e.What != "log entry 3" || s.Failed() == nil {
		t.Errorf("%v; failed: %v", err, s.Failed())
	}
	mustClose(t, s)
	_, err = Open(context.Background(), opt)
	asError[*CorruptError](t, err)
}

func TestEntryCoding(t *testing.T) {
	for _, e := range []raft.Log{
		{Index: 7},
		{Index: 7, Term: 1 << 63, Type: raft.LogConfiguration, Data: []byte("d"), Extensions: []byte("ext"), AppendedAt: time.Unix(5, 9)},
		{Index: 7, Term: 2, Type: raft.LogNoop, Extensions: bytes.Repeat([]byte{3}, 300)},
		{Index: 7, Term: 2, Data: bytes.Repeat([]byte{0}, 300)},
	} {
		b := appendEntry(nil, &e)
		if len(b) != entrySize(&e) {
			t.Errorf("%d bytes, want %d", len(b), entrySize(&e))
		}
		var got raft.Log
		if err := decodeEntry(7, b, &got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Data, e.Data) || !bytes.Equal(got.Extensions, e.Extensions) {
			t.Errorf("%+v, want %+v", got, e)
		}
		got.Data, got.Extensions = e.Data, e.Extensions
		if !reflect.DeepEqual(got, e) {
			t.Errorf("%+v, want %+v", got, e)
		}
		for n := range entryFixed {
			if err := decodeEntry(7, b[:n], &got); err == nil {
				t.Errorf("%d bytes are taken for an entry", n)
			}
		}
	}
	b := appendEntry(nil, &raft.Log{Extensions: []byte("ext")})
	if err := decodeEntry(1, b[:len(b)-1], new(raft.Log)); err == nil {
		t.Error("cut extensions were accepted")
	}
}

// TestSegmentLogsKeepTheirOrder: what would leave a gap is refused also below the checks of sealedLogs.
func TestSegmentLogsKeepTheirOrder(t *testing.T) {
	s := mustOpen(t, Options{Dir: t.TempDir(), Segments: true})
	mustAppend(t, s, 1, 9)
	logs := s.medium.logs
	for what, err := range map[string]error{
		"an entry after a gap":         logs.StoreLogs(entries(11, 12)),
		"an entry before the end":      logs.StoreLogs(entries(9, 10)),
		"entries with a gap":           logs.StoreLogs([]*raft.Log{entry(10), entry(12)}),
		"a deletion that leaves a gap": logs.DeleteRange(3, 5),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	wantLog(t, s, 1, 9)
}

// BenchmarkStoreLogs is what one commit costs a member: an append of one batch of each size, with the checksums and the latch.
func BenchmarkStoreLogs(b *testing.B) {
	for _, size := range []int{1, 64} {
		for name, segments := range map[string]bool{"bolt": false, "segments": true} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				s := mustOpen(b, Options{Dir: b.TempDir(), Segments: segments})
				data := bytes.Repeat([]byte{7}, 250)
				b.ReportAllocs()
				next := uint64(1)
				for b.Loop() {
					batch := make([]*raft.Log, size)
					for i := range batch {
						batch[i] = &raft.Log{Index: next, Term: 1, Data: data}
						next++
					}
					if err := s.Logs().StoreLogs(batch); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
