//go:build !wasip1

package store

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

func copiedDirStartsLater(t *testing.T, ahead time.Time, later func(*testing.T, *Store, *Store)) {
	opt := Options{Dir: t.TempDir(), Cluster: "c"}
	mustClose(t, mustOpen(t, opt))
	lock, err := lockDir(context.Background(), opt.Dir)
	if err != nil {
		t.Fatal(err)
	}
	killed := Holder{PID: 1, Host: "h", Started: ahead} // by a clock that has been set back since
	if err := errors.Join(lock.announce(killed), closeUnreleased(lock)); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, opt)
	if !s.Started().After(ahead) {
		t.Errorf("%v comes after %v", s.Started(), ahead)
	}
	there := Options{Dir: t.TempDir(), Cluster: "c"}
	if err := os.CopyFS(there.Dir, os.DirFS(opt.Dir)); err != nil {
		t.Fatal(err)
	}
	later(t, s, mustOpen(t, there))
}
