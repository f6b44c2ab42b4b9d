//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// mostCallers is how many callers lock and unlock at once, each a lock of its own.
const mostCallers = 16

// measurement is what callers saw who locked and unlocked without a fault and without waiting for each other.
type measurement struct {
	Callers   int
	Cycles    int
	Took      time.Duration
	Median    time.Duration // of acquiring alone
	Values    int           // grants that were told apart by a random value
	Ascending int           // of them, those that a fence would accept which takes the value for a token
}

func (m measurement) perSecond() float64 { return float64(m.Cycles) / m.Took.Seconds() }

// measure lets callers lock and unlock for d, after one cycle of each that is not counted.
func measure(ctx context.Context, l locker, callers int, d time.Duration) (measurement, error) {
	logs := make([]callerLog, callers)
	for i := range logs {
		logs[i].name = fmt.Sprintf("measure-%d", i)
		if err := logs[i].cycle(ctx, l); err != nil {
			return measurement{}, err
		}
		logs[i] = callerLog{name: logs[i].name}
	}
	began := time.Now()
	var all sync.WaitGroup
	for i := range logs {
		all.Go(func() {
			for time.Since(began) < d && logs[i].err == nil {
				logs[i].err = logs[i].cycle(ctx, l)
			}
		})
	}
	all.Wait()
	return gather(logs, time.Since(began))
}

func gather(logs []callerLog, took time.Duration) (measurement, error) {
	m := measurement{Callers: len(logs), Took: took}
	var waits []time.Duration
	for _, l := range logs {
		if l.err != nil {
			return measurement{}, l.err
		}
		waits = append(waits, l.waits...)
		m.Values += l.values
		m.Ascending += l.ascending
	}
	if len(waits) == 0 {
		return measurement{}, errors.New("measured nothing: no lock was taken in time")
	}
	slices.Sort(waits)
	m.Cycles, m.Median = len(waits), waits[len(waits)/2]
	return m, nil
}

// callerLog is what one caller saw.
type callerLog struct {
	name      string
	waits     []time.Duration
	values    int
	ascending int
	highest   string
	err       error
}

func (c *callerLog) cycle(ctx context.Context, l locker) error {
	began := time.Now()
	h, err := l.acquire(ctx, c.name, false)
	if err != nil {
		return err
	}
	c.waits = append(c.waits, time.Since(began))
	if v := h.value(); v != "" {
		c.note(v)
	}
	return h.release(ctx)
}

// note asks what a fence would do that accepts a value which is not lower than those before.
func (c *callerLog) note(value string) {
	c.values++
	if value >= c.highest {
		c.highest = value
		c.ascending++
	}
}
