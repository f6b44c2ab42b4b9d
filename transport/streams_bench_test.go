//go:build unix

package transport

import (
	"io"
	"testing"
)

// BenchmarkStream sends a message there and back on a raw stream, as raft's are: the limit of what a call can be.
func BenchmarkStream(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"64B", 64}, {"64KiB", 64 << 10}} {
		b.Run(size.name, func(b *testing.B) { benchStream(b, size.bytes) })
	}
}

func benchStream(b *testing.B, size int) {
	ours, theirs, stop := benchStreams(b)
	defer stop()
	echoed := make(chan error, 1)
	go func() {
		_, err := io.Copy(theirs, theirs)
		echoed <- err
	}()
	out, in := make([]byte, size), make([]byte, size)
	b.SetBytes(int64(2 * size))
	b.ReportAllocs()
	before := cpuTime()
	for b.Loop() {
		if _, err := ours.Write(out); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(ours, in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
	_ = ours.Close()
	<-echoed
}

func benchStreams(b *testing.B) (ours, theirs Conn, stop func()) {
	listen := func(id string) Endpoint {
		e, err := TCP().Listen(Config{Addr: "127.0.0.1:0", Cluster: "c", ServerID: id})
		if err != nil {
			b.Fatal(err)
		}
		return e
	}
	ea, eb := listen("a"), listen("b")
	ours, err := ea.Dial(b.Context(), KindCall, eb.Addr(), "b")
	if err != nil {
		b.Fatal(err)
	}
	if theirs, err = eb.Accept(KindCall); err != nil {
		b.Fatal(err)
	}
	return ours, theirs, func() {
		_ = theirs.Close()
		_ = ea.Close()
		_ = eb.Close()
	}
}

// BenchmarkPush tells a node of a grant, on the connection on which its calls arrive, and waits until it has heard.
func BenchmarkPush(b *testing.B) {
	listen := func(id string) Endpoint {
		e, err := TCP().Listen(Config{Addr: "127.0.0.1:0", Cluster: "c", ServerID: id})
		if err != nil {
			b.Fatal(err)
		}
		return e
	}
	leader, waiter := listen("leader"), listen("waiter")
	heard := make(chan struct{}, 1)
	serves := NewCalls(leader, echo, nil, CallOptions{})
	calls := NewCalls(waiter, nil, func(Peer, Method, []byte) { heard <- struct{}{} }, CallOptions{})
	defer func() {
		_ = calls.Close()
		_ = serves.Close()
		_ = waiter.Close()
		_ = leader.Close()
	}()
	grant := make([]byte, 32)
	if _, err := calls.Call(b.Context(), leader.Addr(), "leader", 1, grant); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !serves.Push("waiter", 1, grant) {
			b.Fatal("not pushed")
		}
		<-heard
	}
}
