package store

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// Whoever reads along sees every byte, and decides whether a snapshot is kept. Its refusal, early or at the end, is not the disk's failure.
func TestSnapshotIsKeptOnlyIfItIsAccepted(t *testing.T) {
	bad := errors.New("not what it should be")
	verify := func(r io.Reader) error {
		var first [4]byte
		if _, err := io.ReadFull(r, first[:]); err != nil {
			return err
		}
		switch string(first[:]) {
		case "soon":
			return bad
		case "fine":
			return nil // without the rest
		}
		all, err := io.ReadAll(r)
		if err == nil && strings.HasSuffix(string(all), "bad") {
			err = bad
		}
		return err
	}
	eachForm(t, func(t *testing.T, _ form, opt Options) {
		opt.VerifySnapshot = verify
		s := mustOpen(t, opt)
		want := 0
		for _, test := range []struct {
			pieces []string
			kept   bool
		}{
			{[]string{"fine", "whatever", "comes"}, true},
			{[]string{"all ", "of it", "good"}, true},
			{[]string{"all ", "of it", "bad"}, false},
			{[]string{"soon", "over", "over"}, false},
			{[]string{"x"}, false},
			{nil, false},
		} {
			sink, err := s.Snapshots().Create(1, uint64(10+want), 3, someConfiguration, 1, anyTransport)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range test.pieces {
				if err == nil {
					_, err = io.WriteString(sink, p)
				}
			}
			if err == nil {
				err = sink.Close()
			} else if cancel := sink.Cancel(); cancel != nil {
				t.Errorf("%q: cancel: %v", test.pieces, cancel)
			}
			if test.kept {
				want++
			}
			if refused := (*RefusedError)(nil); test.kept != (err == nil) || err != nil && !errors.As(err, &refused) {
				t.Errorf("%q: %v", test.pieces, err)
			}
			if list, err := s.Snapshots().List(); err != nil || len(list) != want || s.Failed() != nil {
				t.Fatalf("%q: %d snapshots instead of %d, %v, failed %v", test.pieces, len(list), want, err, s.Failed())
			}
		}
	})
}

// A mark that cannot be written is nothing to the latch, and a store that has failed still takes one.
func TestMarkDoesNotConcernTheLatch(t *testing.T) {
	d := NewDisk()
	var told []error
	s := mustOpen(t, Options{Disk: d, OnFail: func(err error) { told = append(told, err) }})
	d.FailCondemn(errDisk)
	if err := s.Condemn("differs"); !errors.Is(err, errDisk) || s.Failed() != nil || len(told) > 0 {
		t.Errorf("%v, failed %v, told %v", err, s.Failed(), told)
	}
	d.FailCondemn(nil)
	d.FailNextWrite(errDisk)
	if err := s.SetIdentity(Identity{ClusterID: "x"}); err == nil || s.Failed() == nil {
		t.Fatal("the fault did not bite")
	}
	if err := s.Condemn("differs"); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
	if _, err := Open(t.Context(), Options{Disk: d}); err == nil {
		t.Error("a marked disk is opened")
	}
}
