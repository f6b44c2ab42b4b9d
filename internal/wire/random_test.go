package wire

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// newRand is a generator whose seed stands in the log of a failed test.
func newRand(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// fill sets every field of v to something random, zero half of the time. It goes through the type, so a field that somebody adds
// to it later is filled too, and a round trip fails until it is encoded.
func fill(rng *rand.Rand, v reflect.Value) {
	if rng.IntN(2) == 0 {
		v.SetZero()
		return
	}
	fillFull(rng, v)
}

func fillFull(rng *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(number(rng, 64)))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(number(rng, v.Type().Bits()))
	case reflect.String:
		v.SetString(randomString(rng))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillFull(rng, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+rng.IntN(4), 4))
		for i := range v.Len() {
			fill(rng, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(rng, v.Field(i))
		}
	default:
		panic("random_test.go cannot fill a " + v.Type().String())
	}
}

// number is not zero and has any magnitude, so that all lengths of a varint occur.
func number(rng *rand.Rand, bits int) uint64 {
	v := rng.Uint64() >> (64 - bits) >> rng.IntN(bits)
	if rng.IntN(8) == 0 {
		v = uint64(math.MaxUint64) >> (64 - bits)
	}
	return max(v, 1)
}

func randomString(rng *rand.Rand) string {
	b := make([]byte, 1+rng.IntN(20))
	if rng.IntN(8) == 0 {
		b = make([]byte, 100+rng.IntN(100)) // around the length at which a frame needs two bytes
	}
	for i := range b {
		b[i] = byte(rng.UintN(256))
	}
	return string(b)
}

func random[T any](rng *rand.Rand) T {
	var v T
	fillFull(rng, reflect.ValueOf(&v).Elem())
	return v
}

func randomCommand(rng *rand.Rand) locktable.Command {
	c := random[locktable.Command](rng)
	c.Op = locktable.Op(1 + rng.UintN(uint(lastOp)))
	c.Mode = locktable.Mode(rng.UintN(uint(lastMode) + 1))
	if c.Op == locktable.OpLevel {
		c.Level = rng.Uint32N(Level + 1)
	}
	return c
}
