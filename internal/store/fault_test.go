package store

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

var errDisk = errors.New("disk is on fire")

// writesOf lists every kind of write a Store makes.
var writesOf = map[string]func(s *Store) error{
	"append": func(s *Store) error {
		last, err := s.Logs().LastIndex()
		if err != nil {
			return err
		}
		return s.Logs().StoreLog(entry(last + 1))
	},
	"delete":   func(s *Store) error { return s.Logs().DeleteRange(1, 1) },
	"stable":   func(s *Store) error { return s.Stable().SetUint64([]byte("n"), 1) },
	"vote":     func(s *Store) error { return vote(s, 4, "x") },
	"identity": func(s *Store) error { return s.SetIdentity(Identity{ClusterID: "y"}) },
	"create": func(s *Store) error {
		_, err := s.Snapshots().Create(1, 1, 1, someConfiguration, 1, anyTransport)
		return err
	},
	"term": func(s *Store) error {
		return s.Guard(func() error { return s.Stable().SetUint64([]byte(keyCurrentTerm), 9) })
	},
}

func vote(s *Store, term uint64, candidate string) error {
	if err := s.Stable().SetUint64([]byte(keyLastVoteTerm), term); err != nil {
		return err
	}
	return s.Stable().Set([]byte(keyLastVoteCand), []byte(candidate))
}

// TestFirstFailureIsTheLast: whichever write fails, once, OnFail runs once and first, and no write and no read of raft's goes
// through ever after.
func TestFirstFailureIsTheLast(t *testing.T) {
	for name, write := range writesOf {
		t.Run(name, func(t *testing.T) {
			d := NewDisk()
			var failures []error
			var s *Store
			s = mustOpen(t, Options{Disk: d, OnFail: func(err error) {
				if !errors.Is(s.Failed(), err) {
					t.Errorf("Failed() in OnFail: %v", s.Failed())
				}
				failures = append(failures, err)
			}})
			mustAppend(t, s, 1, 3)
			if err := vote(s, 3, "x"); err != nil {
				t.Fatal(err)
			}
			d.FailNextWrite(errDisk)
			if err := write(s); !errors.Is(err, errDisk) && s.Failed() == nil {
				t.Fatalf("first failing write: %v", err)
			}
			if len(failures) != 1 || !errors.Is(failures[0], errDisk) {
				t.Fatalf("OnFail got %v", failures)
			}
			for other, write := range writesOf {
				if err := write(s); err == nil {
					t.Errorf("%s succeeded after the failure", other)
				}
			}
			if _, err := getLog(s, 1); !errors.Is(err, errDisk) {
				t.Errorf("read: %v", err)
			}
			if _, err := s.Stable().GetUint64([]byte(keyLastVoteTerm)); !errors.Is(err, errDisk) {
				t.Errorf("vote: %v", err)
			}
			if len(failures) != 1 {
				t.Errorf("OnFail got %v", failures)
			}
			mustClose(t, s)
			mustOpen(t, Options{Disk: d}) // the fault was one write's; nothing else was harmed
		})
	}
}

func TestSnapshotFailures(t *testing.T) {
	steps := map[string]func(sink raft.SnapshotSink) error{
		"write": func(sink raft.SnapshotSink) error { _, err := sink.Write([]byte("x")); return err },
		"close": func(sink raft.SnapshotSink) error { return sink.Close() },
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			d := NewDisk()
			s := mustOpen(t, Options{Disk: d})
			sink, err := s.Snapshots().Create(1, 1, 1, someConfiguration, 1, anyTransport)
			if err != nil {
				t.Fatal(err)
			}
			d.FailNextWrite(errDisk)
			if err := step(sink); !errors.Is(err, errDisk) || !errors.Is(s.Failed(), errDisk) {
				t.Fatalf("%v, failed %v", err, s.Failed())
			}
			if err := sink.Close(); err == nil {
				t.Error("closed after a failure")
			}
			_ = sink.Cancel()
			mustClose(t, s)
			if list, err := mustOpen(t, Options{Disk: d}).Snapshots().List(); err != nil || len(list) != 0 {
				t.Errorf("an unfinished snapshot is listed: %v, %v", list, err)
			}
		})
	}
}

// TestNobodyLearnsBeforeOnFail holds OnFail up: neither the writer that failed nor any other caller gets its error meanwhile.
func TestNobodyLearnsBeforeOnFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		release := make(chan struct{})
		s := mustOpen(t, Options{Disk: d, OnFail: func(error) { <-release }})
		d.FailWrites(errDisk)
		var mu sync.Mutex
		var told int
		for range 3 {
			for name, call := range map[string]func() error{
				"write": func() error { return s.Logs().StoreLog(entry(1)) },
				"read":  func() error { _, err := s.Stable().Get([]byte("k")); return err },
				"list":  func() error { _, err := s.Snapshots().List(); return err },
			} {
				go func() {
					err := call()
					for err == nil || err.Error() == "not found" { // until the failure is known
						time.Sleep(time.Millisecond)
						err = call()
					}
					if !errors.Is(err, errDisk) {
						t.Errorf("%s: %v", name, err)
					}
					mu.Lock()
					defer mu.Unlock()
					told++
				}()
			}
		}
		time.Sleep(time.Second)
		mu.Lock()
		if told != 0 || s.Failed() == nil {
			t.Errorf("%d callers were told before OnFail returned; failed: %v", told, s.Failed())
		}
		mu.Unlock()
		close(release)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if told != 9 {
			t.Errorf("%d callers were told", told)
		}
	})
}

func TestCorruptEntryFellsLatch(t *testing.T) {
	eachForm(t, func(t *testing.T, f form, opt Options) {
		var failed error
		opt.OnFail = func(err error) { failed = err }
		s := mustOpen(t, opt)
		mustAppend(t, s, 1, 3)
		damage := *entry(2)
		damage.Data = []byte("Command 2")
		damage.Extensions = seal(entry(2)).Extensions
		if err := errors.Join(s.medium.logs.DeleteRange(2, 3), s.medium.logs.StoreLogs([]*raft.Log{&damage, seal(entry(3))})); err != nil {
			t.Fatal(err)
		}
		if err := s.Logs().StoreLogs(entries(4, cachedEntries+4)); err != nil { // out of the cache
			t.Fatal(err)
		}
		_, err := getLog(s, 2)
		if e := asError[*CorruptError](t, err); e.What != "log entry 2" || !errors.Is(failed, errChecksum) {
			t.Errorf("%v; OnFail got %v", err, failed)
		}
		if !f.lasting {
			return
		}
		mustClose(t, s)
		opt.OnFail = nil
		if s, err := Open(context.Background(), opt); err == nil {
			t.Logf("the damage lies before the entries that Open checks")
			mustClose(t, s)
		}
	})
}

func TestOpenFindsCorruptEntry(t *testing.T) {
	for _, index := range []uint64{1, 5, 9} {
		d := NewDisk()
		s := mustOpen(t, Options{Disk: d})
		mustAppend(t, s, 1, 9)
		mustClose(t, s)
		if !d.Corrupt(index) || d.Corrupt(10) {
			t.Fatal("the fault did not bite")
		}
		_, err := Open(context.Background(), Options{Disk: d})
		asError[*CorruptError](t, err)
		if _, err := Open(context.Background(), Options{Disk: d}); errors.As(err, new(*InUseError)) {
			t.Error("a failed Open keeps the disk")
		}
	}
}

func TestChecksumCoversEverything(t *testing.T) {
	base := raft.Log{Index: 7, Term: 2, Type: raft.LogCommand, Data: []byte("data"), Extensions: []byte("ext")}
	changes := map[string]func(l *raft.Log){
		"index":           func(l *raft.Log) { l.Index = 8 },
		"term":            func(l *raft.Log) { l.Term++ },
		"type":            func(l *raft.Log) { l.Type = raft.LogNoop },
		"data":            func(l *raft.Log) { l.Data = []byte("dbta") },
		"data cut":        func(l *raft.Log) { l.Data = l.Data[:3] },
		"data moved":      func(l *raft.Log) { l.Data = []byte("dat"); l.Extensions = append([]byte("a"), l.Extensions...) },
		"extensions":      func(l *raft.Log) { l.Extensions[0] ^= 1 },
		"sum":             func(l *raft.Log) { l.Extensions[len(l.Extensions)-1] ^= 1 },
		"extensions gone": func(l *raft.Log) { l.Extensions = nil },
		"another's place": func(l *raft.Log) { *l = *seal(&raft.Log{Index: 8, Term: 2}) },
	}
	for name, change := range changes {
		l := seal(&base)
		if change(l); unseal(7, l) == nil {
			t.Errorf("%s: passed", name)
		}
	}
	if err := unseal(7, seal(&base)); err != nil {
		t.Error(err)
	}
	if _, err := unsealValue([]byte("b"), sealValue([]byte("a"), []byte("v"))); err == nil {
		t.Error("a value passes under another key")
	}
}

func TestCloseLetsHungWriteGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]func(*Disk, *Store){
			"close": func(_ *Disk, s *Store) { mustClose(t, s) },
			"crash": func(d *Disk, _ *Store) { d.Crash() },
		} {
			d := NewDisk()
			s := mustOpen(t, Options{Disk: d})
			d.HangWrites(true)
			done := make(chan error)
			go func() { done <- s.Logs().StoreLog(entry(1)) }()
			time.Sleep(time.Second)
			end(d, s)
			if err := <-done; !errors.Is(err, ErrClosed) && !errors.Is(err, ErrCrashed) {
				t.Errorf("%s: %v", name, err)
			}
			if s.Failed() != nil {
				t.Errorf("%s felled the latch: %v", name, s.Failed())
			}
			d.HangWrites(false)
			mustClose(t, s)
			wantLog(t, mustOpen(t, Options{Disk: d}), 0, 0)
		}
	})
}

// TestCrashCutsTheOldStoreOff: after a crash the disk belongs to the next Store, and the old one changes and sees nothing.
func TestCrashCutsTheOldStoreOff(t *testing.T) {
	d := NewDisk()
	old := mustOpen(t, Options{Disk: d, OnFail: func(err error) { t.Errorf("latch fell: %v", err) }})
	mustAppend(t, old, 1, 3)
	sink, err := old.Snapshots().Create(1, 3, 3, someConfiguration, 1, anyTransport)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(context.Background(), Options{Disk: d})
	if e := asError[*InUseError](t, err); e.Holder.PID == 0 {
		t.Errorf("holder %v", e.Holder)
	}
	d.Crash()
	next := mustOpen(t, Options{Disk: d})
	for name, write := range writesOf {
		if err := write(old); !errors.Is(err, ErrCrashed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := io.WriteString(sink, "x"); !errors.Is(err, ErrCrashed) {
		t.Errorf("sink write: %v", err)
	}
	if err := sink.Close(); !errors.Is(err, ErrCrashed) {
		t.Errorf("sink close: %v", err)
	}
	wantLog(t, next, 1, 3)
	mustClose(t, old)
	mustAppend(t, next, 4, 4) // closing the old one did not free the disk
	_, err = Open(context.Background(), Options{Disk: d})
	asError[*InUseError](t, err)
}
