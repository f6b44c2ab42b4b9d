package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock"
)

const (
	playBound     = 58 * time.Second // all acts together, with the least TTL
	takeOverExtra = 10 * time.Second // beyond the TTL, if the raft leader goes with the lock's holder
	lateBound     = 3 * time.Second  // from SIGCONT to the late write
	rejoinBound   = 10 * time.Second // from SIGCONT until the instance knows who leads
)

// play does to the service what it is made for.
func (d *demo) play(ctx context.Context) error {
	bound := playBound + 6*(d.ttl-quorumlock.MinSessionTTL) - time.Since(d.line.start)
	ctx, cancel := within(ctx, bound, "the demonstration did not come to its end")
	defer cancel()
	if err := d.pauseLeader(ctx); err != nil {
		return err
	}
	return d.killLeader(ctx)
}

// moments are how long after an accepted write the leader is stopped, one for each try.
//
// A write comes late only if the process is stopped between its question whether it still leads and its write, that is,
// while it prepares. The preparation begins when the answer to the write before has reached it, and takes 100 ms; so these
// moments lie within it unless the machine is very busy. Stopped anywhere else, the leader asks first when it goes on, sees
// that it leads no more, and writes nothing: right too, but nothing for the ledger to refuse. Then it is done again at
// another moment.
var moments = []time.Duration{30 * time.Millisecond, 50 * time.Millisecond, 15 * time.Millisecond}

func (d *demo) pauseLeader(ctx context.Context) error {
	for _, moment := range moments {
		late, err := d.pauseOnce(ctx, moment)
		if late || err != nil {
			return err
		}
		d.line.say(plain, "no late write", "it was stopped outside its work; once more, at another moment")
	}
	return fmt.Errorf("no stale write in %d pauses", len(moments))
}

// pauseOnce stops the leader for longer than its lease, lets it go on beside its successor, and tells whether a late write
// of it was refused.
func (d *demo) pauseOnce(ctx context.Context, moment time.Duration) (late bool, err error) {
	old, err := d.stopAtWork(ctx, moment)
	if err != nil {
		return false, err
	}
	p := d.process(old.Instance)
	next, err := d.succeed(ctx, old)
	if err != nil {
		return false, err
	}
	accepted := d.ledger.view().accepted(old.Token)
	if err := p.resume(); err != nil {
		return false, err
	}
	p.frozen = false
	d.line.say(trouble, "resume", "%s goes on (SIGCONT), in the belief that it leads", p.name)
	if late, err = d.awaitLateWrite(ctx, old, accepted); err != nil {
		return false, err
	}
	return late, d.awaitRejoin(ctx, p, next)
}

// stopAtWork stops the leader a moment after one of its writes.
func (d *demo) stopAtWork(ctx context.Context, moment time.Duration) (term, error) {
	ctx, cancel := within(ctx, startBound, "no leader at work")
	defer cancel()
	old, err := d.leader(ctx)
	if err != nil {
		return term{}, err
	}
	before := d.ledger.view().accepted(old.Token)
	if err := d.ledger.await(ctx, func(v ledgerView) bool { return v.accepted(old.Token) > before }); err != nil {
		return term{}, fmt.Errorf("waiting for the next write of %s: %w", old.Instance, err)
	}
	sleep(ctx, moment)
	p := d.process(old.Instance)
	if err := p.pause(); err != nil {
		return term{}, err
	}
	p.frozen = true
	d.line.say(trouble, "pause", "%s is stopped (SIGSTOP), at work, until its lease is over", p.name)
	return old, nil
}

// succeed waits until another leads and writes.
func (d *demo) succeed(ctx context.Context, old term) (term, error) {
	ctx, cancel := within(ctx, d.ttl+takeOverExtra, "no successor of "+old.Instance)
	defer cancel()
	next, err := d.takeOver(ctx, old)
	if err != nil {
		return term{}, err
	}
	if next.Instance == old.Instance {
		return term{}, fmt.Errorf("%s succeeded itself", old.Instance)
	}
	return next, d.awaitWrites(ctx, next)
}

// awaitLateWrite waits for the ledger's judgement of the old leader's write, if there comes one. From the successor's first
// write on, any more of the old token that is accepted is a write over the successor's.
func (d *demo) awaitLateWrite(ctx context.Context, old term, accepted int) (bool, error) {
	late, cancel := context.WithTimeout(ctx, lateBound)
	defer cancel()
	err := d.ledger.await(late, func(v ledgerView) bool {
		return v.refusals(old.Token) > 0 || v.accepted(old.Token) > accepted || len(v.faults) > 0
	})
	v := d.ledger.view()
	switch {
	case len(v.faults) > 0:
		return false, errors.Join(v.faults...)
	case v.accepted(old.Token) > accepted:
		return false, fmt.Errorf("stale write accepted: %s wrote with token %v after its successor", old.Instance, old.Token)
	case err == nil:
		r := v.refused[len(v.refused)-1]
		d.line.say(good, "write refused", "%s, token %v: the ledger has accepted %v", r.Instance, r.Token, r.Highest)
		return true, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	return false, nil
}

// awaitRejoin waits until the resumed instance knows its successor and all but the leader wait for the lock: it is one like
// the others again.
func (d *demo) awaitRejoin(ctx context.Context, p *process, next term) error {
	ctx, cancel := within(ctx, rejoinBound, p.name+" did not come back")
	defer cancel()
	err := poll(ctx, func() error {
		var view leaderView
		if err := p.get(ctx, "/leader", &view); err != nil {
			return err
		}
		if view.Token < next.Token {
			return fmt.Errorf("%s believes that %q leads with token %v", p.name, view.Leader, view.Token)
		}
		if want := d.living() - 1; view.Waiting < want {
			return fmt.Errorf("%d instances wait for the lock, %d are to", view.Waiting, want)
		}
		return d.inQuorum(ctx, p)
	})
	if err == nil {
		d.line.say(good, "rejoined", "%s stands in the queue again", p.name)
	}
	return err
}

// killLeader kills the leader, as a crash or the OOM killer does, and waits for the next one.
func (d *demo) killLeader(ctx context.Context) error {
	finding, cancel := within(ctx, startBound, "no leader to kill")
	defer cancel()
	old, err := d.leader(finding)
	if err != nil {
		return err
	}
	p := d.process(old.Instance)
	if err := d.checkAcknowledged(finding, []*process{p}); err != nil {
		return err
	}
	p.ending.Store(true)
	if err := p.kill(); err != nil {
		return err
	}
	if err := p.wait(finding); err == nil {
		return errors.New("a killed process exited in peace")
	} else if finding.Err() != nil {
		return err
	}
	d.line.say(trouble, "kill", "%s is gone (SIGKILL)", p.name)
	_, err = d.succeed(ctx, old)
	return err
}

// watch shows a service that runs, and what somebody does to it by hand, until it is interrupted.
func (d *demo) watch(ctx context.Context) error {
	for _, p := range d.procs {
		d.line.say(plain, p.name, "%s/leader  %s/members  pid %d", p.url, p.url, p.cmd.Process.Pid)
	}
	d.line.say(plain, "running", "until interrupted; try kill -STOP, -CONT and -9 on the leader; data in %s", d.dir)
	seen := d.ledger.view()
	for {
		known, refused := seen.last().Token, len(seen.refused)
		news := func(v ledgerView) bool { return v.last().Token > known || len(v.refused) > refused }
		if d.ledger.await(ctx, news) != nil {
			d.line.say(plain, "interrupted", "stopping")
			return nil // in watch nothing else ends ctx: an instance that goes is shown, and the others work on
		}
		seen = d.ledger.view()
		if e := seen.last(); e.Token > known {
			d.line.say(good, "leader", "%s, token %v", e.Instance, e.Token)
		}
		for _, r := range seen.refused[refused:] {
			d.line.say(good, "write refused", "%s, token %v: the ledger has accepted %v", r.Instance, r.Token, r.Highest)
		}
	}
}
