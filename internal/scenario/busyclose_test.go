package scenario_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// A node is closed, or ends at once, at many moments of a crowd of requests: each time nothing of it stays, though raft may forget at its end what it was asked for. (A goroutine that stays
// fails the bubble.) The sole voter commits fastest, so there the most lies between its log and its state machine.
func TestEndBesideACrowdOfRequests(t *testing.T) {
	const moments, crowd = 60, 400
	for name, end := range map[string]func(t *testing.T, c *quorumlocktest.Cluster){
		"close": func(t *testing.T, c *quorumlocktest.Cluster) {
			if err := c.Stop(c.Leader()); err != nil {
				t.Errorf("close: %v", err)
			}
		},
		"crash": func(_ *testing.T, c *quorumlocktest.Cluster) { c.Crash(c.Leader()) },
	} {
		for _, size := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				t.Parallel()
				for i := range moments / size {
					synctest.Test(t, func(t *testing.T) {
						c := quorumlocktest.New(t, size)
						n := c.Node(c.Leader())
						var answers atomic.Int64
						moment := make(chan struct{})
						for range crowd {
							go func() {
								ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
								defer cancel()
								for err := error(nil); err == nil; {
									_, err = n.Inspect(ctx, "k")
									if answers.Add(1) == int64(20*i+1) {
										close(moment)
									}
									if h, lockErr := quorumlock.NewMutex(n, "k").TryLock(ctx); lockErr == nil {
										_ = h.Unlock()
									}
								}
							}()
						}
						<-moment
						end(t, c)
						time.Sleep(6 * time.Second)
					})
				}
			})
		}
	}
}
