//go:build !wasip1

package store

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestACondemnedStoreIsNotOpenedAgain(t *testing.T) {
	for name, opt := range lastingForms(t) {
		t.Run(name, func(t *testing.T) {
			s := openAgain(t, nil, opt)
			if err := s.Condemn("its state differs"); err != nil {
				t.Fatal(err)
			}
			if err := s.SetIdentity(Identity{ClusterID: "x"}); err != nil {
				t.Errorf("the open store does not go on: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				var marked *CondemnedError
				if _, err := Open(context.Background(), opt); !errors.As(err, &marked) || !strings.Contains(err.Error(), "its state differs") {
					t.Fatalf("open: %v", err)
				}
			}
		})
	}
}

func TestARetiredStoreIsFreeOfItsMark(t *testing.T) {
	for name, opt := range lastingForms(t) {
		t.Run(name, func(t *testing.T) {
			s := openAgain(t, nil, opt)
			if err := errors.Join(s.Condemn("its state differs"), s.Retire()); err != nil {
				t.Fatal(err)
			}
			s = openAgain(t, openAgain(t, s, opt), opt)
			s.Close()
		})
	}
}
