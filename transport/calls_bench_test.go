//go:build unix

package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func benchCalls(b *testing.B, callers int, deadline bool) {
	client, server, stop := benchPair(b)
	defer stop()
	payload := make([]byte, 64)
	ctx := context.Background()
	if deadline {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 1<<40)
		defer cancel()
	}
	if _, err := client.Call(ctx, server, "b", 1, payload); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	before := cpuTime()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := client.Call(ctx, server, "b", 1, payload); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/call")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

func benchPair(b *testing.B) (client *Calls, server string, stop func()) {
	listen := func(id string) Endpoint {
		e, err := TCP().Listen(Config{Addr: "127.0.0.1:0", Cluster: "c", ServerID: id})
		if err != nil {
			b.Fatal(err)
		}
		return e
	}
	ea, eb := listen("a"), listen("b")
	sb := NewCalls(eb, func(_ context.Context, _ Peer, _ Method, p []byte) ([]byte, error) { return p, nil }, nil, CallOptions{})
	client = NewCalls(ea, nil, nil, CallOptions{})
	return client, eb.Addr(), func() {
		client.Close()
		sb.Close()
		ea.Close()
		eb.Close()
	}
}

func BenchmarkCall1(b *testing.B)           { benchCalls(b, 1, false) }
func BenchmarkCall1Deadline(b *testing.B)   { benchCalls(b, 1, true) }
func BenchmarkCall64(b *testing.B)          { benchCalls(b, 64, false) }
func BenchmarkCall64Deadline(b *testing.B)  { benchCalls(b, 64, true) }
func BenchmarkCall256Deadline(b *testing.B) { benchCalls(b, 256, true) }

// cpuTime is a measure that other load on the machine distorts less than the elapsed time.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
