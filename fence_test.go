package quorumlock

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
)

func TestTokenText(t *testing.T) {
	const token = Token(1<<53 - 1)
	b, err := json.Marshal(map[string]Token{"token": token})
	if err != nil || string(b) != `{"token":"9007199254740991"}` {
		t.Fatalf("marshalled %s, %v", b, err)
	}
	var back map[string]Token
	if err := json.Unmarshal(b, &back); err != nil || back["token"] != token {
		t.Errorf("read back %v, %v", back, err)
	}
	for _, bad := range []string{"", "0", "-1", "+1", "01", " 1", "1 ", "1.0", "1e3", "9223372036854775808", "x"} {
		if v, err := ParseToken(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseToken(%q) = %v, %v", bad, v, err)
		}
	}
}

func TestGuardRefusesStaleTokens(t *testing.T) {
	var g Guard
	wrote := 0
	write := func() error { wrote++; return nil }
	if err := g.Do("ledger", 5, write); err != nil {
		t.Fatal(err)
	}
	if err := g.Do("ledger", 5, write); err != nil {
		t.Errorf("the holder writes again: %v", err)
	}
	if err := g.Check("ledger", 7); err != nil {
		t.Fatal(err)
	}
	err := g.Do("ledger", 5, write)
	var stale *StaleTokenError
	if !errors.Is(err, ErrStaleToken) || !errors.As(err, &stale) || stale.Token != 5 || stale.Highest != 7 {
		t.Errorf("stale write: %v", err)
	}
	if err := g.Do("other", 1, write); err != nil {
		t.Errorf("resources are apart: %v", err)
	}
	if err := g.Do("ledger", 0, write); !errors.Is(err, ErrInvalid) {
		t.Errorf("token zero: %v", err)
	}
	if wrote != 3 {
		t.Errorf("%d writes ran, want 3", wrote)
	}
}

// A write that fails has claimed the resource all the same: what it did before it failed is not known here.
func TestGuardCountsFailedWrites(t *testing.T) {
	var g Guard
	failed := errors.New("disk full")
	if err := g.Do("r", 9, func() error { return failed }); err != failed {
		t.Fatal(err)
	}
	if err := g.Check("r", 8); !errors.Is(err, ErrStaleToken) {
		t.Errorf("after a failed write of 9, 8 got %v", err)
	}
}

// Judging and writing are one step: no write of a lower token ends after one of a higher token has begun.
func TestGuardOrdersConcurrentWrites(t *testing.T) {
	var g Guard
	var last Token
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range 500 {
				token := Token(1 + n*8 + i)
				err := g.Do("r", token, func() error {
					if token < last {
						t.Errorf("%v written after %v", token, last)
					}
					last = token
					return nil
				})
				if err != nil && !errors.Is(err, ErrStaleToken) {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if g.Highest("r") != last {
		t.Errorf("highest %v, last %v", g.Highest("r"), last)
	}
}
