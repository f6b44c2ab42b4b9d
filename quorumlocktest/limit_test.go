package quorumlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// recorder takes the failures of a cluster that are meant to come.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failures)
}

// hangs runs f, which waits for what never comes, and returns what the limit reported, and after how much fake time f returned.
func hangs(t *testing.T, limit time.Duration, n int, f func(c *quorumlocktest.Cluster)) (report string, after time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		start := time.Now()
		c := quorumlocktest.New(r, n, quorumlocktest.TimeLimit(limit))
		f(c)
		after = time.Since(start)
		all := r.all()
		if len(all) != 1 {
			t.Fatalf("failures: %q", all)
		}
		report = all[0]
	})
	return report, after
}

func requireIn(t *testing.T, report string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(report, part) {
			t.Errorf("lacks %q:\n%s", part, report)
		}
	}
}

// Two that each hold what the other one wants: the report says so, and both calls return.
func TestTimeLimitReportsADeadlock(t *testing.T) {
	const limit = 2 * time.Minute
	report, after := hangs(t, limit, 3, func(c *quorumlocktest.Cluster) {
		ends := make(chan error, 2)
		for i, names := range [][2]string{{"a", "b"}, {"b", "a"}} {
			go func() {
				note := quorumlock.Note(fmt.Sprint("caller ", i))
				ends <- quorumlock.NewMutex(c.Node(i), names[0], note).Do(context.Background(), func(context.Context, quorumlock.Token) error {
					time.Sleep(time.Second)
					h, err := quorumlock.NewMutex(c.Node(i), names[1], note).Lock(context.Background())
					if err == nil {
						t.Errorf("%q was granted", h.Name())
					}
					return err
				})
			}()
		}
		for range 2 {
			if err := <-ends; !errors.Is(err, quorumlock.ErrClosed) {
				t.Errorf("a call ended with %v", err)
			}
		}
	})
	if after != limit {
		t.Errorf("ended after %v", after)
	}
	requireIn(t, report, "after 2m0s of fake time", "TimeLimit", "leads\n", "is up\n",
		"  \"a\"\n    held by node-0 since 2000-01-01T00:00:", "(caller 0), exclusive, session ", "    waited for by node-1 since 2000-01-01T00:00:",
		"(caller 1), exclusive", "  \"b\"\n    held by node-1 since ")
}

// What a hanging test can be at otherwise: permits, readers, many waiters, instances that are down, no quorum.
func TestTimeLimitReportsTheRest(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name  string
		f     func(c *quorumlocktest.Cluster) error
		parts []string
	}{
		{"permits", func(c *quorumlocktest.Cluster) error {
			gpu := quorumlock.NewSemaphore(c.Node(0), "gpu", 5)
			if _, err := gpu.Acquire(ctx, 3); err != nil {
				return err
			}
			_, err := gpu.Acquire(ctx, 4)
			return err
		}, []string{"\"gpu\", semaphore with 3 of 5 permits in use\n", "held by node-0", "3 permits", "waited for by node-0", "4 permits"}},
		{"many", func(c *quorumlocktest.Cluster) error {
			index := quorumlock.NewRWMutex(c.Node(0), "index")
			for range 10 {
				if _, err := index.RLock(ctx); err != nil {
					return err
				}
			}
			ends := make(chan error, 20)
			for range cap(ends) {
				go func() { _, err := index.Lock(ctx); ends <- err }()
			}
			var err error
			for range cap(ends) {
				err = <-ends
			}
			return err
		}, []string{"shared", "and 2 more hold it", "and 12 more wait for it"}},
		{"many locks", func(c *quorumlocktest.Cluster) error {
			var h *quorumlock.Hold
			for i := range 60 {
				var err error
				if h, err = quorumlock.NewMutex(c.Node(0), fmt.Sprintf("k%02d", i)).Lock(ctx); err != nil {
					return err
				}
			}
			<-h.Done()
			return h.Err()
		}, []string{"\"k49\"", "  and more\n"}},
		{"no quorum", func(c *quorumlocktest.Cluster) error {
			c.Crash(1)
			c.Crash(2)
			return c.Node(0).Ready(ctx)
		}, []string{"instance 1 is down", "instance 2 is down", "as instance 0 knows them:\n  none\n"}},
		{"nobody", func(c *quorumlocktest.Cluster) error {
			for i := range c.Size() {
				c.Crash(i)
			}
			time.Sleep(time.Hour)
			return quorumlock.ErrClosed
		}, []string{"instance 2 is down\nno instance can tell"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			report, _ := hangs(t, 2*time.Minute, 3, func(cl *quorumlocktest.Cluster) {
				if err := c.f(cl); !errors.Is(err, quorumlock.ErrClosed) {
					t.Errorf("the call ended with %v", err)
				}
			})
			requireIn(t, report, c.parts...)
		})
	}
}

// A test that is over in time hears nothing of the limit, and does not wait for it.
func TestTimeLimitOfATestThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		t.Cleanup(func() { // runs after the cluster's own
			if took := time.Since(start); took > 3*time.Minute {
				t.Errorf("over after %v", took)
			}
		})
		c := quorumlocktest.New(t, 3, quorumlocktest.TimeLimit(2*time.Hour))
		lock(t, c.Node(0), time.Second)
	})
}

// Without an option the limit is an hour; 0 is none. The clusters are small and their sessions long, since the hours
// cost real time.
func TestDefaultTimeLimit(t *testing.T) {
	long := quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.SessionTTL = quorumlock.MaxSessionTTL })
	for _, c := range []struct {
		opts []quorumlocktest.Option
		want int // reports
	}{
		{nil, 1},
		{[]quorumlocktest.Option{quorumlocktest.TimeLimit(0)}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{TB: t}
			start := time.Now()
			cl := quorumlocktest.New(r, 1, append(c.opts, long)...)
			select {
			case <-cl.Node(0).Done():
			case <-time.After(61 * time.Minute):
			}
			if took := time.Since(start); len(r.all()) != c.want || c.want == 1 && took != time.Hour {
				t.Errorf("after %v: %q", took, r.all())
			}
		})
	}
}
