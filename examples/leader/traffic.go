package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
)

// traffic is what a deploy must not disturb: callers of one instance that lock and unlock again and again. The first one
// shares its lock with the first ones of all other instances, each other one has a lock of its own.
type traffic struct {
	node     *quorumlock.Node
	instance string
	callers  int

	mu     sync.Mutex
	report trafficReport
}

// trafficReport is what became of the calls of one instance. A call is a Lock or an Unlock.
type trafficReport struct {
	Calls    int           `json:"calls"`
	Failed   int           `json:"failed"`
	Failures []string      `json:"failures,omitempty"` // the first ones, in words
	Longest  time.Duration `json:"longest"`            // that an acknowledged call took
	Slow     []slowCall    `json:"slow,omitempty"`     // calls that waited for slowWait or longer, the newest maxSlow of them
}

// slowCall is a call that was noticed: when it began and ended, by the wall clock, which processes of one machine share.
type slowCall struct {
	Begun time.Time `json:"begun"`
	Ended time.Time `json:"ended"`
}

const (
	callPatience = 10 * time.Second     // longer than any pause that is allowed, so that a pause is measured and not cut off
	callPause    = 2 * time.Millisecond // between a caller's turns
	slowWait     = 5 * time.Millisecond
	maxSlow      = 2_000
	maxFailures  = 5
)

// run has the callers work until ctx ends. Each then finishes what it has begun, as a service finishes its requests before
// it goes.
func (t *traffic) run(ctx context.Context) {
	var callers sync.WaitGroup
	for i := range t.callers {
		name := "shared"
		if i > 0 {
			name = fmt.Sprintf("%s/%d", t.instance, i)
		}
		callers.Go(func() {
			for mutex := quorumlock.NewMutex(t.node, name); ctx.Err() == nil; {
				t.turn(context.WithoutCancel(ctx), mutex)
				sleep(ctx, callPause)
			}
		})
	}
	callers.Wait()
}

// turn takes the lock and gives it back.
func (t *traffic) turn(ctx context.Context, m *quorumlock.Mutex) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	begun := time.Now()
	hold, err := m.Lock(ctx)
	t.note(begun, err)
	if err != nil {
		return
	}
	begun = time.Now()
	t.note(begun, hold.Unlock())
}

func (t *traffic) note(begun time.Time, err error) {
	ended := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.report
	r.Calls++
	if err != nil {
		if r.Failed++; len(r.Failures) < maxFailures {
			r.Failures = append(r.Failures, err.Error())
		}
		return
	}
	took := ended.Sub(begun)
	r.Longest = max(r.Longest, took)
	if took >= slowWait {
		r.Slow = append(r.Slow, slowCall{begun, ended})
		r.Slow = r.Slow[max(0, len(r.Slow)-maxSlow):]
	}
}

// view is the report so far.
func (t *traffic) view() trafficReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.report
	r.Failures, r.Slow = slices.Clone(r.Failures), slices.Clone(r.Slow)
	return r
}

// pause is the longest wait of a call that was under way at some moment from begin to end, 0 if none was slow.
func (r *trafficReport) pause(begin, end time.Time) time.Duration {
	var longest time.Duration
	for _, c := range r.Slow {
		if c.Ended.After(begin) && c.Begun.Before(end) {
			longest = max(longest, c.Ended.Sub(c.Begun))
		}
	}
	return longest
}

// add takes in the figures of another instance.
func (r *trafficReport) add(other *trafficReport) {
	r.Calls += other.Calls
	r.Failed += other.Failed
	r.Longest = max(r.Longest, other.Longest)
	r.Failures = append(r.Failures, other.Failures...)
	r.Slow = append(r.Slow, other.Slow...)
}

// median is the middle one, the lower of the two for an even number, and 0 for none.
func median[T cmp.Ordered](list []T) T {
	var zero T
	if len(list) == 0 {
		return zero
	}
	return slices.Sorted(slices.Values(list))[(len(list)-1)/2]
}
