//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// W4: the leader is killed while clients of the other workers lock and unlock, each its own lock, without a deadline.
var leaderWork = &workload{key: "W4", breaks: true, run: runLeader,
	fits: func(s *system, _ extent) bool { return s.embedded || s == etcdSystem || s == zooKeeper }}

var (
	leaderLost   = &measure{title: "W4 kill -9 of the leader until the next grant", unit: "s"}
	leaderErrors = &measure{title: "W4 errors that a caller saw meanwhile", unit: "errors"}
)

const leaderBefore = time.Second // of undisturbed work

func runLeader(ctx context.Context, r *rig, e extent, note noting) error {
	if err := r.clients(ctx, 2*workers, usualTTL); err != nil {
		return err
	}
	start := now().add(leadTime)
	o := order{Verb: verbCycle, Name: r.lockName(), Own: true, Log: true, Retry: true,
		Start: start, Count: start, End: start.add(leaderBefore + e.after)}
	type result struct {
		answers []answer
		errs    []error
	}
	done := make(chan result, 1)
	go func() {
		answers, errs := r.asked(ctx, func(int) order { return o })
		done <- result{answers, errs}
	}()
	until(ctx, start.add(leaderBefore))
	killed, err := r.service.killLeader(ctx)
	if err != nil {
		err = fmt.Errorf("kill the leader: %w", err)
	}
	res := <-done
	for i, asked := range res.errs {
		switch killed := r.system.embedded && i == r.leads; {
		case killed && asked == nil:
			err = errors.Join(err, errors.New("the leader outlived its kill"))
		case !killed || !errors.Is(asked, errGone):
			err = errors.Join(err, asked)
		}
	}
	if err != nil {
		return err
	}
	c, err := joined(res.answers)
	if err != nil {
		return err
	}
	d, err := outage(c.grants, killed)
	if err != nil {
		return err
	}
	note(leaderLost, "", d.Seconds())
	note(leaderErrors, "", float64(c.failed))
	return nil
}

// outage is the time from a kill to the end of the longest pause between two grants after it, whoever got them: what was already decided at the kill is granted still.
func outage(grants []grant, killed instant) (time.Duration, error) {
	var at []instant
	for _, g := range grants {
		if g.Granted > killed {
			at = append(at, g.Granted)
		}
	}
	if len(at) == 0 || len(at) == len(grants) {
		return 0, fmt.Errorf("of %d grants %d came after the kill", len(grants), len(at))
	}
	slices.Sort(at)
	last, longest, end := killed, time.Duration(-1), killed
	for _, a := range at {
		if d := a.sub(last); d > longest {
			longest, end = d, a
		}
		last = a
	}
	return end.sub(killed), nil
}
