//go:build !linux

package store

import (
	"errors"
	"runtime"
	"testing"
)

func provableDir(*testing.T) (Options, bool) { return Options{}, false }

func TestUnsupportedSystem(t *testing.T) {
	if runtime.GOOS == "wasip1" {
		t.Skip("there are no data directories at all")
	}
	s := mustOpen(t, Options{Dir: t.TempDir(), Incarnation: true})
	if former, why := s.Former(); s.Incarnation() != "" || former != "" || !errors.Is(why, errors.ErrUnsupported) {
		t.Errorf("nonce %q, former %q, %v", s.Incarnation(), former, why)
	}
}
