//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// quorum is three instances of a service with quorumlock in it. Each of them works, and is a member.
type quorum struct {
	*lane
	addrs    []string
	inMemory bool
}

const instances = 3

// startQuorum starts the instances, and waits until all of them vote.
func startQuorum(ctx context.Context, l *lane, inMemory bool) (*quorum, error) {
	s := &quorum{lane: l, inMemory: inMemory}
	var err error
	if s.addrs, err = demokit.FreeAddrs(instances); err != nil {
		return nil, err
	}
	for i := range instances {
		p, err := s.launch(i)
		if err != nil {
			return nil, err
		}
		l.procs = append(l.procs, p)
	}
	_, err = s.whole(ctx)
	return s, err
}

// launch starts one instance in an empty directory.
func (s *quorum) launch(i int) (*process, error) {
	dir := ""
	if !s.inMemory {
		var err error
		if dir, err = s.newDir(); err != nil {
			return nil, err
		}
	}
	return startWorker(s.launcher, workerOptions{
		kind: kindQuorum, name: fmt.Sprintf("instance-%d", i+1), ttl: s.ttl, addr: s.addrs[i], servers: s.addrs, dir: dir,
	})
}

// whole waits until all instances vote, by the word of each, and gives the place of the one that leads.
func (s *quorum) whole(ctx context.Context) (leader int, err error) {
	ctx, cancel := demokit.Within(ctx, startBound, "the instances are not all in the quorum")
	defer cancel()
	err = demokit.Poll(ctx, func() error {
		leads := ""
		for _, p := range s.procs {
			r, err := p.ask(ctx, command{Verb: verbReady})
			if err != nil {
				return err
			}
			if r.Status.Voters != instances {
				return fmt.Errorf("%s sees %d voters", p.name, r.Status.Voters)
			}
			if leads != "" && leads != r.Status.Leader {
				return fmt.Errorf("%s says that %q leads, another %q", p.name, r.Status.Leader, leads)
			}
			leads = r.Status.Leader
		}
		for i, p := range s.procs {
			if p.name == leads {
				leader = i
				return nil
			}
		}
		return errors.New("nobody leads")
	})
	return leader, err
}

// others are the instances beside one.
func (s *quorum) others(i int) (a, b *process) {
	return s.procs[(i+1)%instances], s.procs[(i+2)%instances]
}

// runQuorum does to quorumlock what was done to Redis.
func runQuorum(ctx context.Context, l *lane) ([]row, error) {
	s, err := startQuorum(ctx, l, false)
	if err != nil {
		return nil, err
	}
	l.say(demokit.Plain, "started", "three instances, session TTL %v", l.ttl)
	unheard, err := repeat(ctx, l.rounds, s.killUnheard)
	if err != nil {
		return nil, err
	}
	killed, err := repeat(ctx, l.rounds, s.killGranter)
	if err != nil {
		return nil, err
	}
	paused, err := repeat(ctx, 1, s.pause)
	if err != nil {
		return nil, err
	}
	base := row{system: "quorumlock, 3 instances", keeps: "majority, fsync"}
	return []row{
		base.with("raft leader killed before replication", l.rounds, unheard, expectation{safe: true}),
		base.with("raft leader killed after granting, restarted empty", l.rounds, killed, expectation{safe: true}),
		base.with("holder paused past its lease", 1, paused, expectation{safe: true, stale: true}),
	}, nil
}

// killUnheard asks the leader for the lock while nobody else can hear of it, and kills the leader. Where Redis grants,
// quorumlock has to wait.
func (s *quorum) killUnheard(ctx context.Context, r *room) error {
	i, err := s.whole(ctx)
	if err != nil {
		return err
	}
	leader := s.procs[i]
	a, b := s.others(i)
	if err := errors.Join(a.freeze(), b.freeze()); err != nil {
		return err
	}
	s.say(demokit.Trouble, "replicas lag", "%s leads; %s and %s are frozen (SIGSTOP)", leader.name, a.name, b.name)
	if err := s.work(ctx, r.url, leader); err != nil {
		return err
	}
	if err := demokit.Sleep(ctx, unheardFor); err != nil {
		return err
	}
	if r.view().grant(leader.name) > 0 {
		return fmt.Errorf("%s was granted the lock without a majority", leader.name)
	}
	s.say(demokit.Good, "not granted", "to %s in %v: no majority has heard of it", leader.name, unheardFor)
	leader.kill()
	s.say(demokit.Trouble, "kill", "%s, the raft leader, is gone (SIGKILL); the others go on (SIGCONT)", leader.name)
	if err := errors.Join(a.thaw(), b.thaw()); err != nil {
		return err
	}
	if err := s.passOn(ctx, r, a, b); err != nil {
		return err
	}
	return s.renew(ctx, i)
}

// unheardFor is how long the leader is asked in vain. It is well below the TTL, so that no session ends of it.
const unheardFor = time.Second

// passOn has workers take the lock one after the other.
func (s *quorum) passOn(ctx context.Context, r *room, procs ...*process) error {
	for _, p := range procs {
		if err := s.work(ctx, r.url, p); err != nil {
			return err
		}
		id, err := s.holding(ctx, r.store, p, 0)
		if err != nil {
			return err
		}
		s.say(demokit.Good, "granted", "to %s%s", p.name, r.shownToken(id))
		if err := s.rest(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// renew starts an instance that was killed again, with nothing of what it had, and waits until it votes.
func (s *quorum) renew(ctx context.Context, i int) error {
	began := time.Now()
	p, err := s.launch(i)
	if err != nil {
		return err
	}
	s.replace(s.procs[i], p)
	if _, err := s.whole(ctx); err != nil {
		return err
	}
	s.say(demokit.Plain, "restarted", "%s, with an empty directory, votes again after %.1f s", p.name, time.Since(began).Seconds())
	return nil
}

// killGranter kills the leader under which a lock was granted to another instance, and starts it again with nothing, while
// the lock is held.
func (s *quorum) killGranter(ctx context.Context, r *room) error {
	i, err := s.whole(ctx)
	if err != nil {
		return err
	}
	a, b := s.others(i)
	err = s.faultWhileHeld(ctx, r, a, b, func(ctx context.Context) error {
		s.procs[i].kill()
		s.say(demokit.Trouble, "kill", "%s, the raft leader, is gone (SIGKILL)", s.procs[i].name)
		if err := s.renew(ctx, i); err != nil {
			return err
		}
		return s.work(ctx, r.url, s.procs[i])
	})
	if err != nil {
		return err
	}
	if _, err := s.holding(ctx, r.store, s.procs[i], 0); err != nil {
		return err
	}
	return s.rest(ctx, s.procs[i])
}

// pause stops a holder that does not lead, so that nothing but the hold fails.
func (s *quorum) pause(ctx context.Context, r *room) error {
	i, err := s.whole(ctx)
	if err != nil {
		return err
	}
	a, b := s.others(i)
	return s.pauseHolder(ctx, r, a, b)
}
