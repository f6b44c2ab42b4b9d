//go:build unix

package redisfence_test

import (
	"strconv"
	"testing"
)

// What the fence costs: the same command bare, and in the script.
func BenchmarkSet(b *testing.B) {
	c, f := start(b)
	b.Run("bare", func(b *testing.B) {
		ctx := under(b, 1)
		for i := range b.N {
			must(b, c.Set(ctx, string(data(resource)), strconv.Itoa(i), 0).Err())
		}
	})
	b.Run("fenced", func(b *testing.B) {
		ctx := under(b, 1)
		for i := range b.N {
			_, err := f.Do(ctx, resource, set(strconv.Itoa(i)))
			must(b, err)
		}
	})
}
