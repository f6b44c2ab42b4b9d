package store

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// wantFormer checks what a start has found out, and that it has a nonce of its own, which it returns.
func wantFormer(t testing.TB, s *Store, former string, why error) string {
	t.Helper()
	got, err := s.Former()
	if got != former || !errors.Is(err, why) || (got == "") == (err == nil) {
		t.Fatalf("former %q, %v; want %q, %v", got, err, former, why)
	}
	nonce := s.Incarnation()
	if len(nonce) != 32 || nonce == former {
		t.Fatalf("nonce %q", nonce)
	}
	return nonce
}

func TestProof(t *testing.T) {
	here := place{Boot: "b", Device: 1, Inode: 2}
	tests := []struct {
		name  string
		found *mark
		why   error
	}{
		{"none", nil, ErrNoFormer},
		{"no nonce", &mark{place: here}, ErrNoFormer},
		{"the same", &mark{"n", here}, nil},
		{"another boot", &mark{"n", place{"c", 1, 2}}, errRebooted},
		{"another device", &mark{"n", place{"b", 2, 2}}, errCopied},
		{"another inode", &mark{"n", place{"b", 1, 3}}, errCopied},
		{"nowhere", &mark{Incarnation: "n"}, errRebooted},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			i := newIncarnation(test.found, here, func(mark) error { return nil })
			if !errors.Is(i.why, test.why) || (i.why == nil) != (test.why == nil) {
				t.Errorf("why %v, want %v", i.why, test.why)
			}
			if want := test.why == nil; (i.former == "n") != want || (i.former == "") == want {
				t.Errorf("former %q", i.former)
			}
		})
	}
}

func onDisk() Options { return Options{Disk: NewDisk(), Cluster: "c", Incarnation: true} }

func TestDiskRestarts(t *testing.T) {
	tests := []struct {
		name string
		do   func(d *Disk)
		why  error
	}{
		{"close", func(*Disk) {}, nil},
		{"kill -9", (*Disk).Crash, nil},
		{"reboot", (*Disk).Reboot, errRebooted},
		{"remade lock file", func(d *Disk) { d.Crash(); d.RemakeLock() }, ErrNoFormer},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opt := onDisk()
			s := mustOpen(t, opt)
			first := wantFormer(t, s, "", ErrNoFormer)
			test.do(opt.Disk)
			mustClose(t, s)
			if test.why != nil {
				first = ""
			}
			s = mustOpen(t, opt)
			second := wantFormer(t, s, first, test.why)
			mustClose(t, s)
			wantFormer(t, mustOpen(t, opt), second, nil)
		})
	}
}

// TestDiskCopy: a copy is the same member with the same memory, but knows nothing of the original's process, even if that one lives.
func TestDiskCopy(t *testing.T) {
	opt := onDisk()
	s := mustOpen(t, opt)
	nonce := wantFormer(t, s, "", ErrNoFormer)
	mustAppend(t, s, 1, 9)
	mustSnapshot(t, s, 5, "content")
	if err := errors.Join(s.Stable().Set([]byte("k"), []byte("v")), s.SetIdentity(Identity{ClusterID: "x", Promise: []byte("p")})); err != nil {
		t.Fatal(err)
	}
	disk := opt.Disk.Copy()
	copied := mustOpen(t, Options{Disk: disk, Cluster: "c", Incarnation: true})
	wantFormer(t, copied, "", errCopied)
	wantLog(t, copied, 1, 9)
	value, err := copied.Stable().Get([]byte("k"))
	list, errList := copied.Snapshots().List()
	if id := copied.Identity(); string(value) != "v" || err != nil || len(list) != 1 || errList != nil || id.ClusterID != "x" || !bytes.Equal(id.Promise, []byte("p")) {
		t.Errorf("value %q (%v), snapshots %v (%v), identity %+v", value, err, list, errList, id)
	}
	if copied.ServerID() != s.ServerID() {
		t.Error("another server id")
	}
	mustAppend(t, copied, 10, 12)
	if err := copied.Stable().Set([]byte("k"), []byte("w")); err != nil {
		t.Fatal(err)
	}
	wantLog(t, s, 1, 9)
	if value, err := s.Stable().Get([]byte("k")); string(value) != "v" || err != nil {
		t.Errorf("the original's value is %q, %v", value, err)
	}
	mustClose(t, s)
	s = mustOpen(t, opt)
	wantFormer(t, s, nonce, nil)
	// Copies of copies, and copies made later.
	for _, d := range []*Disk{disk.Copy(), opt.Disk.Copy(), disk.Copy().Copy()} {
		wantFormer(t, mustOpen(t, Options{Disk: d, Cluster: "c", Incarnation: true}), "", errCopied)
	}
}

func TestNoIncarnation(t *testing.T) {
	tests := []struct {
		name string
		opt  Options
		why  error
	}{
		{"not asked for", Options{Disk: NewDisk()}, errNotAsked},
		{"nothing kept", Options{Incarnation: true}, errNoDir},
	}
	for _, test := range tests {
		s := mustOpen(t, test.opt)
		if former, why := s.Former(); s.Incarnation() != "" || former != "" || why != test.why {
			t.Errorf("%s: nonce %q, former %q, %v", test.name, s.Incarnation(), former, why)
		}
	}
}

// provable are the forms on which a former start can be proven over.
func provable(t *testing.T) map[string]Options {
	forms := map[string]Options{"disk": onDisk()}
	if opt, ok := provableDir(t); ok {
		forms["directory"] = opt
	}
	return forms
}

// TestEachStartKnowsTheOneBefore: also over starts that do not ask, or fail, whose sessions nobody can end in place: the last one that asked is over as ever.
func TestEachStartKnowsTheOneBefore(t *testing.T) {
	for name, opt := range provable(t) {
		t.Run(name, func(t *testing.T) {
			var seen []string
			former, why := "", ErrNoFormer
			restart := func() {
				s := mustOpen(t, opt)
				former, why = wantFormer(t, s, former, why), nil
				if slices.Contains(seen, former) {
					t.Fatal("the nonce was used before")
				}
				seen = append(seen, former)
				mustAppend(t, s, uint64(len(seen)), uint64(len(seen)))
				mustClose(t, s)
			}
			restart()
			restart()

			silent := opt
			silent.Incarnation = false
			mustClose(t, mustOpen(t, silent))
			restart()

			refusing, refusal := opt, errors.New("refused")
			refusing.Admit = func(Identity) error { return refusal }
			if _, err := Open(context.Background(), refusing); !errors.Is(err, refusal) {
				t.Fatalf("open: %v", err)
			}
			restart()

			cancelled, cancel := context.WithCancel(context.Background())
			cancel()
			if _, err := Open(cancelled, opt); !errors.Is(err, context.Canceled) {
				t.Fatalf("open: %v", err)
			}
			restart()
		})
	}
}

// TestNoStartWithoutItsMark: a start whose mark cannot be written does not begin, and the one before is still known.
func TestNoStartWithoutItsMark(t *testing.T) {
	opt := onDisk()
	s := mustOpen(t, opt)
	first := wantFormer(t, s, "", ErrNoFormer)
	mustClose(t, s)
	m, err := opt.Disk.open(opt, true)
	if err != nil {
		t.Fatal(err)
	}
	m.incarnation.begin = func() error { return errDisk }
	logged := Options{Logger: hclog.NewNullLogger(), StallAfter: defaultStallAfter}
	if _, err := newStore(context.Background(), logged, m); !errors.Is(err, errDisk) {
		t.Errorf("open: %v", err)
	}
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	wantFormer(t, mustOpen(t, opt), first, nil)
}
