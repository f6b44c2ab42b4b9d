package router

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// BenchmarkDo measures what the router adds to an answer that comes at once, from this node or from another one that leads.
func BenchmarkDo(b *testing.B) {
	for _, leader := range []string{self, "n2"} {
		b.Run(map[bool]string{true: "local", false: "remote"}[leader == self], func(b *testing.B) { benchmarkDo(b, leader) })
	}
}

func benchmarkDo(b *testing.B, leader string) {
	changed := make(chan struct{})
	r := New(Env{
		Self:   self,
		Local:  func(context.Context, *locktable.Command) (locktable.Result, error) { return locktable.Result{}, nil },
		Leader: func() (Peer, <-chan struct{}) { return Peer{ID: leader, Addr: "h:1"}, changed },
		Others: func() []Peer { return nil },
		Call:   func(context.Context, Peer, wire.ProposeRequest) (wire.ProposeReply, error) { return done(), nil },
		Why:    func() string { return "" },
	})
	defer r.Wait()
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	cmd := &locktable.Command{Op: locktable.OpClaim, Session: 7, Seq: 3, Names: []string{"job"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Do(ctx, cmd, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
