package scenario_test

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// Holds taken by Lock may be unlocked while their session closes, one after the other, in any number: each tells how it ended, and nothing panics.
func TestUnlocksBesideClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		s, err := c.Node(0).NewSession(context.Background(), 0)
		if err != nil {
			t.Fatal(err)
		}
		var holds []*quorumlock.Hold
		for _, name := range []string{"a", "b", "c"} {
			holds = append(holds, lockIn(t, s, name, time.Second))
		}
		c.Isolate(0) // so that Close takes its time
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		time.Sleep(100 * time.Millisecond)
		for _, h := range holds {
			go func() { _ = h.Unlock() }()
			time.Sleep(time.Millisecond)
		}
		<-closed
		for _, h := range holds {
			if h.Err() == nil {
				t.Errorf("%q is held after Close", h.Name())
			}
		}
		c.Heal()
		for _, h := range holds {
			becomesFree(t, c, h.Name(), 15*time.Second)
		}
		c.CheckState()
	})
}
