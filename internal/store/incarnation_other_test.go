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
	if formers, why := s.Formers(); s.Incarnation() != "" || formers != nil || !errors.Is(why, errors.ErrUnsupported) {
		t.Errorf("nonce %q, formers %q, %v", s.Incarnation(), formers, why)
	}
}
