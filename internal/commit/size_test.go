package commit

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Size must not be less than what a command takes in an entry, whatever field comes to it: each is filled here with the most that takes room.
func TestSizeIsAnUpperBound(t *testing.T) {
	var c locktable.Command
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(strings.Repeat("x", 300))
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{strings.Repeat("n", 200), strings.Repeat("m", 200)}))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int64:
			f.SetInt(math.MaxInt64)
			if f.Type() == reflect.TypeFor[time.Duration]() {
				f.SetInt(int64(math.MaxInt64 / int64(time.Millisecond) * int64(time.Millisecond)))
			}
		case reflect.Uint8, reflect.Uint32, reflect.Uint64:
			f.SetUint(math.MaxUint64 >> (64 - f.Type().Bits()))
		default:
			t.Fatalf("field %s: how large is a %v?", v.Type().Field(i).Name, f.Kind())
		}
	}
	alone := len(wire.AppendBatch(nil, 0, nil))
	if took := len(wire.AppendBatch(nil, 0, []*locktable.Command{&c})) - alone; took > Size(&c) {
		t.Errorf("takes %d bytes, estimated at %d", took, Size(&c))
	} else {
		t.Logf("takes %d bytes, estimated at %d", took, Size(&c))
	}
}
