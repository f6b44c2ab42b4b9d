package conformance

import (
	"testing"
)

// What the fence costs against a server in this process: a fenced write is two requests (GET, PUT); so is the bare one here
// (DELETE, PUT).
func BenchmarkPut(b *testing.B) {
	s := store(b, inMemory(b).addr, 1)
	bucket := open(b, s)
	payload := make([]byte, 10<<10)
	b.Run("bare", func(b *testing.B) {
		ctx := under(b, 1)
		for range b.N {
			must(b, s.Delete(ctx, "bare"))
			must(b, s.Create(ctx, "bare", payload))
		}
	})
	b.Run("fenced", func(b *testing.B) {
		ctx := under(b, 1)
		for range b.N {
			must(b, bucket.Put(ctx, resource, payload))
		}
	})
}
