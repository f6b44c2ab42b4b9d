//go:build !wasip1

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// tree lists the files below dir with their sizes and contents, to show that nothing was written.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %x\n", path, content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func filled(t *testing.T) Options { return fill(t, Options{Dir: t.TempDir(), Cluster: "c"}) }

func filledSegments(t *testing.T) Options {
	return fill(t, Options{Dir: t.TempDir(), Segments: true, Cluster: "c"})
}

func fill(t *testing.T, opt Options) Options {
	t.Helper()
	s := mustOpen(t, opt)
	mustAppend(t, s, 1, 40)
	if err := s.Stable().SetUint64([]byte(keyCurrentTerm), 3); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	return opt
}

func TestDirInUse(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Cluster: "c"}
	before := time.Now().Add(-time.Second)
	s := mustOpen(t, opt)
	began := time.Now()
	_, err := Open(context.Background(), opt)
	e := asError[*InUseError](t, err)
	if e.Dir != opt.Dir || e.Holder.PID != os.Getpid() || e.Holder.Started.Before(before) {
		t.Errorf("%+v", e)
	}
	if host, _ := os.Hostname(); e.Holder.Host != host {
		t.Errorf("host %q", e.Holder.Host)
	}
	if waited := time.Since(began); waited < lockPatience {
		t.Errorf("gave up after %v", waited)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errDisk)
	_, err = Open(ctx, opt)
	asError[*InUseError](t, err)
	if !errors.Is(err, errDisk) {
		t.Errorf("the context's cause is hidden: %v", err)
	}
	mustClose(t, s)
	mustOpen(t, opt)
}

func TestUnusableDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	dirs := []string{file, filepath.Join(file, "below"), filepath.Join(t.TempDir(), "no", "parent")}
	if runtime.GOOS == "linux" {
		dirs = append(dirs, "/proc") // not even root can make files there
	}
	if os.Geteuid() != 0 {
		sealed := t.TempDir()
		if err := os.Chmod(sealed, 0o500); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, sealed)
	}
	for _, dir := range dirs {
		_, err := Open(context.Background(), Options{Dir: dir})
		if e := asError[*DirError](t, err); e.Dir != dir || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v does not name %s", err, dir)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "x" {
		t.Errorf("the file was touched: %q, %v", got, err)
	}
}

// TestRefusalWritesNothing: a directory that is refused is byte for byte as before.
func TestRefusalWritesNothing(t *testing.T) {
	t.Run("newer format", func(t *testing.T) {
		opt := filled(t)
		path := filepath.Join(opt.Dir, metaName)
		if err := writeRecord(path, "meta", dirFormat+1, []byte("who knows")); err != nil {
			t.Fatal(err)
		}
		before := tree(t, opt.Dir)
		_, err := Open(context.Background(), opt)
		if e := asError[*FormatError](t, err); e.Found != dirFormat+1 || e.Supported != dirFormat || e.Dir != opt.Dir {
			t.Errorf("%+v", e)
		}
		if tree(t, opt.Dir) != before {
			t.Error("something was written")
		}
	})
	t.Run("foreign", func(t *testing.T) {
		opt := filled(t)
		before := tree(t, opt.Dir)
		opt.Cluster = "d"
		_, err := Open(context.Background(), opt)
		asError[*ForeignError](t, err)
		if tree(t, opt.Dir) != before {
			t.Error("something was written")
		}
	})
}

// TestLostOrDamagedFiles: once a directory is complete, each of its files counts.
func TestLostOrDamagedFiles(t *testing.T) {
	damage := map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"cut":     func(path string) error { return os.Truncate(path, 30) },
		"flipped": func(path string) error {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content[len(content)-1] ^= 1
			if strings.HasSuffix(path, boltName) {
				content[boltPageHeader+20] ^= 1 // of meta page 0
			}
			return os.WriteFile(path, content, 0o600)
		},
	}
	segment := func(number int) string { return filepath.Join(segmentsName, fmt.Sprintf("%012d.log", number)) }
	check := func(form string, fill func(*testing.T) Options, name string) {
		for how, do := range damage {
			t.Run(form+" "+name+" "+how, func(t *testing.T) {
				opt := fill(t)
				if err := do(filepath.Join(opt.Dir, name)); err != nil {
					t.Fatal(err)
				}
				_, err := Open(context.Background(), opt)
				asError[*CorruptError](t, err)
				_, err = Open(context.Background(), opt) // and it was let go
				asError[*CorruptError](t, err)
			})
		}
	}
	for _, name := range []string{metaName, identityName, boltName} {
		check("bolt", filled, name)
	}
	for _, name := range []string{metaName, boltName, segment(1), segment(2)} {
		check("segments", filledSegments, name)
	}
}

// TestInterruptedFirstOpen: until the directory is complete nothing has been promised, so leftovers are no damage.
func TestInterruptedFirstOpen(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Cluster: "c"}
	d := &dataDir{path: opt.Dir, meta: dirMeta{ServerID: newServerID(), Cluster: "c"}}
	if err := d.writeMeta(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.file(boltName), make([]byte, 5000), 0o600); err != nil {
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

func TestOpenLeavesOnlyItsFiles(t *testing.T) {
	opt := filled(t)
	dead := filepath.Join(opt.Dir, snapshotsDir, "3-9-1"+tempSuffix)
	if err := os.MkdirAll(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, opt))
	entries, err := os.ReadDir(opt.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := memberFiles(opt); !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
	if left, err := os.ReadDir(filepath.Join(opt.Dir, snapshotsDir)); err != nil || len(left) != 0 {
		t.Errorf("unfinished snapshots are left: %v, %v", left, err)
	}
}

func TestDamagedSnapshot(t *testing.T) {
	opt := filled(t)
	s := mustOpen(t, opt)
	id := mustSnapshot(t, s, 40, "content")
	path := filepath.Join(opt.Dir, snapshotsDir, id, "state.bin")
	if err := os.WriteFile(path, []byte("contend"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Snapshots().Open(id)
	asError[*CorruptError](t, err)
	if s.Failed() == nil {
		t.Error("the latch is up")
	}
	mustClose(t, s)
	_, err = Open(context.Background(), opt)
	asError[*CorruptError](t, err)
}

// TestFileShrinksUnderOpenStore: bbolt reads through a mapping, and a page that is gone is a memory fault, not an error.
func TestFileShrinksUnderOpenStore(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be cut there")
	}
	opt := Options{Dir: t.TempDir()}
	s := mustOpen(t, opt)
	mustAppend(t, s, 1, 2*cachedEntries)
	if err := os.Truncate(filepath.Join(opt.Dir, boltName), 0); err != nil {
		t.Fatal(err)
	}
	_, err := getLog(s, 1)
	asError[*CorruptError](t, err)
	if s.Failed() == nil {
		t.Error("the latch is up")
	}
	if err := s.Logs().StoreLog(entry(2*cachedEntries + 1)); err == nil {
		t.Error("a write succeeded")
	}
	mustClose(t, s) // does not wait for a lock that the fault has left taken
	_, err = Open(context.Background(), opt)
	asError[*CorruptError](t, err)
}

// FuzzBoltFile damages a byte of the log file. Open must find it, or the store must work, with every entry intact; nothing may
// panic, least of all on a goroutine of bbolt's.
func FuzzBoltFile(f *testing.F) {
	opt := Options{Dir: f.TempDir()}
	s := mustOpen(f, opt)
	for i := range uint64(8) {
		mustAppend(f, s, 1+i*30, 30+i*30)
	}
	if err := s.Logs().DeleteRange(1, 50); err != nil {
		f.Fatal(err)
	}
	mustClose(f, s)
	good, err := os.ReadFile(filepath.Join(opt.Dir, boltName))
	if err != nil {
		f.Fatal(err)
	}
	page := os.Getpagesize()
	for at := 0; at < min(len(good), 12*page); at += 1237 {
		f.Add(uint32(at), byte(0x81), uint32(0))
	}
	for at := range 12 {
		for _, field := range []int{0, 8, 10, 12, 16, 24, 28} {
			f.Add(uint32(at*page+field), byte(1), uint32(0))
		}
	}
	f.Add(uint32(0), byte(0), uint32(page*5+100))
	path := filepath.Join(f.TempDir(), boltName)
	f.Fuzz(func(t *testing.T, at uint32, flip byte, cut uint32) {
		bad := slices.Clone(good)
		bad[int(at)%len(bad)] ^= flip
		if cut != 0 {
			bad = bad[:int(cut)%len(bad)]
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := openBoltFile(path, false)
		if err != nil {
			asError[*CorruptError](t, err)
			return
		}
		logs, err := openSealedLogs(b)
		if err == nil {
			var l raft.Log
			for i := logs.first; err == nil && i <= logs.last; i++ {
				err = logs.get(i, &l)
			}
		}
		if err != nil {
			asError[*CorruptError](t, err)
		}
		if err := b.StoreLog(seal(entry(1 << 40))); err != nil {
			asError[*CorruptError](t, err)
		}
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
}

func FuzzRecord(f *testing.F) {
	path := filepath.Join(f.TempDir(), "r")
	if err := writeRecord(path, "meta", dirFormat, []byte(`{"a":1}`)); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("quorumlock meta 2 00000000\n"))
	f.Add([]byte("quorumlock meta 99999999999999999999 0\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		format, body, err := readRecord(path, "meta")
		if err == nil && (format != dirFormat || recordSum("meta", format, body) == 0 && len(body) == 0) {
			t.Errorf("accepted format %d, %q", format, body)
		}
		if err != nil && format <= dirFormat {
			asError[*CorruptError](t, err)
		}
	})
}

// The mark is a file that the error names: without it the directory is as it was. One that cannot be read still counts.
func TestTheMarkIsAFile(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Cluster: "c"}
	s := openAgain(t, nil, opt)
	id := s.ServerID()
	if err := errors.Join(s.Condemn("its state differs"), s.Close()); err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(opt.Dir, condemnedName)
	if err := os.WriteFile(mark, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var marked *CondemnedError
	if _, err := Open(context.Background(), opt); !errors.As(err, &marked) || marked.Mark != mark {
		t.Fatalf("a mark that cannot be read: %v", err)
	}
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	if s = openAgain(t, nil, opt); s.ServerID() != id {
		t.Error("another server id")
	}
	s.Close()
}
