// Package snaptest has what tests need of stores of snapshots: the suite that every snapshots.Store has to pass, and one
// in memory with faults to order.
package snaptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/snapshots"
)

// Test runs the suite. open gives a store that is empty; it is called several times.
func Test(t *testing.T, open func(t *testing.T) snapshots.Store) {
	for name, test := range map[string]func(*testing.T, snapshots.Store){
		"objects come and go":                   testLife,
		"sizes":                                 testSizes,
		"nothing is replaced":                   testExists,
		"one of many creates":                   testRace,
		"what fails leaves nothing":             testFailure,
		"what is given up leaves nothing":       testCancel,
		"nothing is seen before it is complete": testWhole,
		"other names are refused":               testNames,
		"lists":                                 testList,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func bound(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func create(t *testing.T, s snapshots.Store, name string, content []byte) {
	t.Helper()
	err := s.Create(bound(t), name, func(w io.Writer) error { _, err := w.Write(content); return err })
	if err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
}

func content(t *testing.T, s snapshots.Store, name string) []byte {
	t.Helper()
	r, err := s.Open(bound(t), name)
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	b, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return b
}

func list(t *testing.T, s snapshots.Store, prefix string) []snapshots.Object {
	t.Helper()
	objects, err := s.List(bound(t), prefix)
	if err != nil {
		t.Fatalf("list %q: %v", prefix, err)
	}
	return objects
}

// absent checks that neither way shows an object.
func absent(t *testing.T, s snapshots.Store, name string) {
	t.Helper()
	r, err := s.Open(bound(t), name)
	if !errors.Is(err, snapshots.ErrNotFound) {
		t.Errorf("open %s: %v, %v", name, r, err)
	}
	if found := list(t, s, ""); len(found) > 0 {
		t.Errorf("listed: %+v", found)
	}
}

func testLife(t *testing.T, s snapshots.Store) {
	absent(t, s, "a.b")
	if err := s.Remove(bound(t), "a.b"); err != nil {
		t.Errorf("remove what is not there: %v", err)
	}
	for _, text := range []string{"first", "another"} { // what was removed may be made again
		create(t, s, "a.b", []byte(text))
		if got := content(t, s, "a.b"); string(got) != text {
			t.Errorf("%q instead of %q", got, text)
		}
		found := list(t, s, "")
		if len(found) != 1 || found[0].Name != "a.b" || found[0].Size != int64(len(text)) || time.Since(found[0].Modified).Abs() > time.Minute {
			t.Errorf("listed: %+v", found)
		}
		r, err := s.Open(bound(t), "a.b")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil { // unread
			t.Errorf("close: %v", err)
		}
		if err := s.Remove(bound(t), "a.b"); err != nil {
			t.Fatal(err)
		}
		absent(t, s, "a.b")
	}
}

func testSizes(t *testing.T, s snapshots.Store) {
	for i, size := range []int{0, 1, 4096, 6<<20 + 5} {
		want := bytes.Repeat([]byte("quorumlock"), size/10+1)[:size]
		name := fmt.Sprintf("size-%d", i)
		err := s.Create(bound(t), name, func(w io.Writer) error {
			for rest := want; len(rest) > 0; {
				n := min(len(rest), 100_003)
				if _, err := w.Write(rest[:n]); err != nil {
					return err
				}
				rest = rest[n:]
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if got := content(t, s, name); !bytes.Equal(got, want) {
			t.Errorf("%d bytes came back as %d others", size, len(got))
		}
	}
}

func testExists(t *testing.T, s snapshots.Store) {
	create(t, s, "name", []byte("first"))
	err := s.Create(bound(t), "name", func(w io.Writer) error { _, err := w.Write([]byte("second")); return err })
	if !errors.Is(err, snapshots.ErrExists) {
		t.Errorf("create again: %v", err)
	}
	if got := content(t, s, "name"); string(got) != "first" {
		t.Errorf("it was replaced by %q", got)
	}
}

func testRace(t *testing.T, s snapshots.Store) {
	const writers = 8
	var all sync.WaitGroup
	errs := make([]error, writers)
	ctx := bound(t)
	for i := range writers {
		all.Go(func() {
			errs[i] = s.Create(ctx, "name", func(w io.Writer) error { _, err := fmt.Fprintf(w, "writer %d", i); return err })
		})
	}
	all.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			t.Errorf("both %d and %d created it", won, i)
		case err == nil:
			won = i
		case !errors.Is(err, snapshots.ErrExists):
			t.Errorf("writer %d: %v", i, err)
		}
	}
	if got, want := content(t, s, "name"), fmt.Sprintf("writer %d", won); string(got) != want {
		t.Errorf("it holds %q, and %q was acknowledged", got, want)
	}
}

func testFailure(t *testing.T, s snapshots.Store) {
	broken := errors.New("broken")
	for _, size := range []int{0, 10, 6 << 20} {
		err := s.Create(bound(t), "name", func(w io.Writer) error {
			if _, err := w.Write(make([]byte, size)); err != nil {
				return err
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", size, err)
		}
		absent(t, s, "name")
	}
	create(t, s, "name", []byte("all the same"))
}

func testCancel(t *testing.T, s snapshots.Store) {
	ctx, cancel := context.WithCancel(bound(t))
	err := s.Create(ctx, "name", func(w io.Writer) error {
		_, err := w.Write([]byte("some"))
		cancel()
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended while it was written: %v", err)
	}
	absent(t, s, "name")
	called := false
	if err := s.Create(ctx, "name", func(io.Writer) error { called = true; return ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Errorf("ended before: %v (write called: %v)", err, called)
	}
	if _, err := s.Open(ctx, "name"); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
	if _, err := s.List(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("list: %v", err)
	}
	if err := s.Remove(ctx, "name"); !errors.Is(err, context.Canceled) {
		t.Errorf("remove: %v", err)
	}
	absent(t, s, "name")
}

func testWhole(t *testing.T, s snapshots.Store) {
	err := s.Create(bound(t), "name", func(w io.Writer) error {
		absent(t, s, "name")
		if _, err := w.Write(make([]byte, 6<<20)); err != nil {
			return err
		}
		absent(t, s, "name")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, s, "name"); len(got) != 6<<20 {
		t.Errorf("%d bytes", len(got))
	}
}

func testNames(t *testing.T, s snapshots.Store) {
	for _, name := range []string{"", ".", "..", ".hidden", "a/b", "../a", `a\b`, "a b", "ä", "a\x00", string(bytes.Repeat([]byte("a"), 251))} {
		if err := s.Create(bound(t), name, func(io.Writer) error { return nil }); !errors.Is(err, snapshots.ErrName) {
			t.Errorf("create %q: %v", name, err)
		}
		if _, err := s.Open(bound(t), name); !errors.Is(err, snapshots.ErrName) {
			t.Errorf("open %q: %v", name, err)
		}
		if err := s.Remove(bound(t), name); !errors.Is(err, snapshots.ErrName) {
			t.Errorf("remove %q: %v", name, err)
		}
	}
	if found := list(t, s, ""); len(found) > 0 {
		t.Errorf("listed: %+v", found)
	}
}

func testList(t *testing.T, s snapshots.Store) {
	names := []string{"a.2", "b.1", "a.10", "~c", "a", "A.1", "a.1"}
	for _, name := range names {
		create(t, s, name, []byte(name))
	}
	for prefix, want := range map[string][]string{
		"": {"A.1", "a", "a.1", "a.10", "a.2", "b.1", "~c"}, "a.": {"a.1", "a.10", "a.2"}, "a.1": {"a.1", "a.10"}, "~": {"~c"}, "none": nil,
	} {
		var got []string
		for _, o := range list(t, s, prefix) {
			got = append(got, o.Name)
			if o.Size != int64(len(o.Name)) {
				t.Errorf("%+v", o)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("with %q: %q, want %q", prefix, got, want)
		}
	}
}
