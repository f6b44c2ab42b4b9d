package commit

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// BenchmarkDo measures the batcher over a log that takes 0.1 ms for an entry, whatever it holds.
func BenchmarkDo(b *testing.B) {
	for _, callers := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { benchmarkDo(b, callers, 100*time.Microsecond) })
	}
	b.Run("instant", func(b *testing.B) { benchmarkDo(b, 1, 0) })
}

// BenchmarkRenewals fills entries with renewals of as many sessions as wait together; none waits for the timer then.
func BenchmarkRenewals(b *testing.B) {
	benchmark(b, 1024, 100*time.Microsecond, func(s locktable.SessionID) *locktable.Command {
		return &locktable.Command{Op: locktable.OpRenew, Session: s}
	})
}

func benchmarkDo(b *testing.B, callers int, write time.Duration) { benchmark(b, callers, write, word) }

func benchmark(b *testing.B, callers int, write time.Duration, command func(locktable.SessionID) *locktable.Command) {
	var entries atomic.Int64
	results := make([]locktable.Result, 256)
	propose := func(cmds []*locktable.Command) func() ([]locktable.Result, error) {
		entries.Add(1)
		return func() ([]locktable.Result, error) {
			// Yielding, because a sleep of 0.1 ms takes a millisecond on some systems.
			for start := time.Now(); write > 0 && time.Since(start) < write; {
				runtime.Gosched()
			}
			return results[:len(cmds)], nil
		}
	}
	batcher := New(Env{Propose: propose}, Options{})
	defer batcher.Stop(nil)
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error, callers)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range callers {
		go func() {
			cmd := command(locktable.SessionID(i + 1))
			for left.Add(-1) >= 0 {
				if _, err := batcher.Do(b.Context(), cmd); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range callers {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/float64(entries.Load()), "commands/entry")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
}
