package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// wantFormer checks what a start has found out, that it has a nonce of its own, which it returns, and confirms the end of the former one.
func wantFormer(t testing.TB, s *Store, former string, why error) string {
	t.Helper()
	var want []string
	if former != "" {
		want = []string{former}
	}
	got, err := s.Formers()
	if !slices.Equal(got, want) || !errors.Is(err, why) || (len(got) == 0) == (err == nil) {
		t.Fatalf("formers %q, %v; want %q, %v", got, err, want, why)
	}
	nonce := s.Incarnation()
	if len(nonce) != 32 || nonce == former {
		t.Fatalf("nonce %q", nonce)
	}
	if err := s.FormersEnded(); err != nil {
		t.Fatalf("formers ended: %v", err)
	}
	return nonce
}

// wantFormers is for starts of which several have not been confirmed; it confirms none.
func wantFormers(t testing.TB, s *Store, want ...string) {
	t.Helper()
	if got, err := s.Formers(); err != nil || !slices.Equal(got, want) {
		t.Fatalf("formers %q, %v; want %q", got, err, want)
	}
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
		{"the same", &mark{"n", []string{"l", "m"}, here}, nil},
		{"another boot", &mark{"n", []string{"l", "m"}, place{"c", 1, 2}}, errRebooted},
		{"another device", &mark{"n", []string{"l", "m"}, place{"b", 2, 2}}, errCopied},
		{"another inode", &mark{"n", []string{"l", "m"}, place{"b", 1, 3}}, errCopied},
		{"nowhere", &mark{Incarnation: "n", Former: []string{"m"}}, errRebooted},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var left mark
			i := newIncarnation(test.found, here, func(m mark) error { left = m; return nil })
			if !errors.Is(i.why, test.why) || (i.why == nil) != (test.why == nil) {
				t.Errorf("why %v, want %v", i.why, test.why)
			}
			var want []string
			if test.why == nil {
				want = []string{"l", "m", "n"}
			}
			if err := i.begin(); err != nil || !slices.Equal(i.formers, want) || !slices.Equal(left.Former, want) {
				t.Errorf("formers %q, in the mark %q, want %q (%v)", i.formers, left.Former, want, err)
			}
			if err := i.settle(); err != nil || len(left.Former) != 0 || left.Incarnation != i.nonce || left.place != here {
				t.Errorf("settled, the mark is %+v (%v)", left, err)
			}
		})
	}
}

// TestFormersAreBounded: a loop of starts that reach nobody keeps its beginning, where locks may be held, and what a lock file can hold in one page.
func TestFormersAreBounded(t *testing.T) {
	here := place{Boot: "00000000-0000-0000-0000-000000000000", Device: 1 << 60, Inode: 1 << 60}
	var m *mark
	var first []string
	for range 2 * maxFormers {
		i := newIncarnation(m, here, func(left mark) error { m = &left; return nil })
		if err := i.begin(); err != nil {
			t.Fatal(err)
		}
		if (i.dropped != "") != (len(first) > maxFormers) {
			t.Errorf("start %d dropped %q", len(first)+1, i.dropped)
		}
		if want := first[:min(len(first), maxFormers)]; !slices.Equal(i.formers, want) {
			t.Fatalf("start %d has the formers %q, want %q", len(first)+1, i.formers, want)
		}
		first = append(first, i.nonce)
	}
	holder := Holder{PID: 1 << 30, Host: strings.Repeat("h", 255), Started: time.Now()}
	content, err := json.Marshal(struct {
		Holder
		Mark *mark `json:"mark"`
	}{holder, m})
	if err != nil || len(content) > 4096 {
		t.Errorf("%d bytes, %v", len(content), err)
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
		if formers, why := s.Formers(); s.Incarnation() != "" || formers != nil || why != test.why {
			t.Errorf("%s: nonce %q, formers %q, %v", test.name, s.Incarnation(), formers, why)
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

// TestUnconfirmedStartsAddUp: a start that dies before the former one's end is confirmed leaves both to the next; what is confirmed is told to nobody any more.
func TestUnconfirmedStartsAddUp(t *testing.T) {
	for name, opt := range provable(t) {
		t.Run(name, func(t *testing.T) {
			var chain []string
			for range 4 {
				s := mustOpen(t, opt)
				if len(chain) > 0 {
					wantFormers(t, s, chain...)
				}
				chain = append(chain, s.Incarnation())
				mustClose(t, s)
			}
			silent := opt
			silent.Incarnation = false
			mustClose(t, mustOpen(t, silent))

			s := mustOpen(t, opt)
			wantFormers(t, s, chain...)
			if err := s.FormersEnded(); err != nil {
				t.Fatal(err)
			}
			wantFormers(t, s, chain...) // this start's own answer does not change under its caller
			last := s.Incarnation()
			mustClose(t, s)
			wantFormer(t, mustOpen(t, opt), last, nil)
		})
	}
}

// TestACopyKnowsNoFormers: however many starts a mark names, elsewhere it proves none of them over, and the chain begins anew.
func TestACopyKnowsNoFormers(t *testing.T) {
	opt := onDisk()
	for range 3 {
		mustClose(t, mustOpen(t, opt))
	}
	there := Options{Disk: opt.Disk.Copy(), Cluster: "c", Incarnation: true}
	s := mustOpen(t, there)
	nonce := wantFormer(t, s, "", errCopied)
	mustClose(t, s)
	wantFormer(t, mustOpen(t, there), nonce, nil)
	opt.Disk.Reboot()
	wantFormer(t, mustOpen(t, opt), "", errRebooted)
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
