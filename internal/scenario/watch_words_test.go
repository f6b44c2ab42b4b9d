package scenario_test

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/watch"
)

// An event says in the words of the rest of the API whose it is, on whichever node it is read, also when the holder's process
// is gone by then; and a prefix is bytes, not a path.
func TestWordsOfAnEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		before, err := c.Node(0).Inspect(context.Background(), "job-x")
		if err != nil {
			t.Fatal(err)
		}
		holder := c.Node(2)
		lockIn(t, holder, "job-", time.Second)
		h, err := quorumlock.NewSemaphore(holder, "job-xyz", 5, quorumlock.Note("words")).Acquire(context.Background(), 3)
		if err != nil {
			t.Fatal(err)
		}
		id := holder.ID()
		c.Crash(2)
		for i := range 2 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			var kinds []watch.Kind
			for e, err := range c.Node(i).WatchFrom(ctx, "job-x", before.Rev) {
				if err != nil {
					t.Fatalf("node %d: %v after %v", i, err, kinds)
				}
				if e.Name != "job-xyz" || e.Node != "node-2" || e.ServerID != id || e.Mode != quorumlock.Permits || e.Permits != 3 || e.Note != "words" {
					t.Errorf("node %d: %+v", i, e)
				}
				if kinds = append(kinds, e.Kind); e.Kind == watch.Expired {
					break
				}
			}
			cancel()
			if len(kinds) != 2 || kinds[0] != watch.Granted {
				t.Errorf("node %d: %v", i, kinds)
			}
		}
		if err := h.Err(); err == nil {
			t.Error("the holder did not lose it: the crash did not bite")
		}
	})
}
