package arg_test

import (
	"net/http"
	"testing"

	"github.com/quorumlock/quorumlock/fence/internal/arg"
)

func TestIsNil(t *testing.T) {
	for name, v := range map[string]any{"nothing": nil, "pointer": (*int)(nil), "function": http.HandlerFunc(nil), "map": http.Header(nil)} {
		if !arg.IsNil(v) {
			t.Errorf("%s is not nil", name)
		}
	}
	for name, v := range map[string]any{"zero": 0, "struct": struct{}{}, "pointer": new(int), "function": http.HandlerFunc(http.NotFound)} {
		if arg.IsNil(v) {
			t.Errorf("%s is nil", name)
		}
	}
}
