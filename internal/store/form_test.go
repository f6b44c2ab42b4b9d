package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/hashicorp/raft"
)

// form is one of the things a Store can stand on.
type form struct {
	name    string
	lasting bool
	opts    func(t *testing.T) Options // the same place for the life of one test
}

var forms = []form{
	{"dir", true, func(t *testing.T) Options { return Options{Dir: t.TempDir(), Cluster: "c"} }},
	{"segments", true, func(t *testing.T) Options { return Options{Dir: t.TempDir(), Segments: true, Cluster: "c"} }},
	{"disk", true, func(*testing.T) Options { return Options{Disk: NewDisk(), Cluster: "c"} }},
	{"memory", false, func(*testing.T) Options { return Options{Cluster: "c"} }},
}

func eachForm(t *testing.T, test func(t *testing.T, f form, opt Options)) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) { test(t, f, f.opts(t)) })
	}
}

func mustOpen(t testing.TB, opt Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func entry(index uint64) *raft.Log {
	return &raft.Log{Index: index, Term: 3, Type: raft.LogCommand, Data: fmt.Appendf(nil, "command %d", index)}
}

func entries(from, to uint64) []*raft.Log {
	var list []*raft.Log
	for i := from; i <= to; i++ {
		list = append(list, entry(i))
	}
	return list
}

func mustAppend(t testing.TB, s *Store, from, to uint64) {
	t.Helper()
	if err := s.Logs().StoreLogs(entries(from, to)); err != nil {
		t.Fatalf("append %d to %d: %v", from, to, err)
	}
}

// getLog reads through Guard, as a failed read ends the goroutine.
func getLog(s *Store, index uint64) (*raft.Log, error) {
	var l raft.Log
	err := s.Guard(func() error { return s.Logs().GetLog(index, &l) })
	return &l, err
}

// wantBounds checks both ends, and that every entry between them can be read from below the cache and none beyond.
func wantBounds(t testing.TB, s *Store, from, to uint64) {
	t.Helper()
	first, err := s.Logs().FirstIndex()
	if err != nil || first != from {
		t.Fatalf("first index %d, %v; want %d", first, err, from)
	}
	last, err := s.Logs().LastIndex()
	if err != nil || last != to {
		t.Fatalf("last index %d, %v; want %d", last, err, to)
	}
	var l raft.Log
	for i := from; i <= to && to != 0; i++ {
		if err := s.logs.sealed.get(i, &l); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
	if first != 0 {
		if err := s.logs.sealed.base.GetLog(first-1, &l); err != raft.ErrLogNotFound {
			t.Fatalf("entry %d is still stored: %v", first-1, err)
		}
	}
	if err := s.logs.sealed.base.GetLog(last+1, &l); err != raft.ErrLogNotFound {
		t.Fatalf("entry %d is still stored: %v", last+1, err)
	}
}

// wantLog is wantBounds for entries made by entry.
func wantLog(t testing.TB, s *Store, from, to uint64) {
	t.Helper()
	wantBounds(t, s, from, to)
	for i := max(from, 1); i <= to; i++ {
		l, err := getLog(s, i)
		if err != nil || string(l.Data) != fmt.Sprintf("command %d", i) || l.Index != i || l.Term != 3 || l.Extensions != nil {
			t.Fatalf("entry %d: %+v, %v", i, l, err)
		}
	}
	for _, i := range []uint64{from - 1, to + 1} {
		if i != ^uint64(0) {
			if _, err := getLog(s, i); err != raft.ErrLogNotFound { // raft compares with ==
				t.Fatalf("entry %d outside: %v", i, err)
			}
		}
	}
}

// anyTransport encodes addresses; raft's file snapshots want one.
var _, anyTransport = raft.NewInmemTransport("a")

var someConfiguration = raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a"}}}

func mustSnapshot(t testing.TB, s *Store, index uint64, content string) string {
	t.Helper()
	sink, err := s.Snapshots().Create(1, index, 3, someConfiguration, 1, anyTransport)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(sink, content); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	return sink.ID()
}

func asError[E error](t testing.TB, err error) E {
	t.Helper()
	var want E
	if !errors.As(err, &want) {
		t.Fatalf("got %v (%T), want a %T", err, err, want)
	}
	return want
}
