package quorumlocktest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

func TestLockHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		first, err := quorumlock.NewMutex(c.Node(0), "k").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		granted := make(chan *quorumlock.Hold)
		go func() {
			h, err := quorumlock.NewMutex(c.Node(1), "k").Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			granted <- h
		}()
		time.Sleep(5 * time.Second)
		if err := first.Err(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := first.Unlock(); err != nil {
			t.Fatal(err)
		}
		second := <-granted
		if second.Token() <= first.Token() {
			t.Errorf("token %v after %v", second.Token(), first.Token())
		}
		t.Logf("hand-over took %v", time.Since(start))
		if err := second.Unlock(); err != nil {
			t.Error(err)
		}
		c.CheckState()
	})
}
