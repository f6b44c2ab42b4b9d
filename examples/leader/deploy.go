package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
)

const (
	deployBound  = 58 * time.Second // the whole rolling replacement
	replaceBound = 20 * time.Second // one instance
	maxPause     = 2 * time.Second  // that a caller may notice
	loadCallers  = 3                // of each instance, beside the job
)

// deployment is what is measured while all instances are replaced.
type deployment struct {
	all     trafficReport   // of the instances that have gone, and in the end of all
	changes []time.Duration // pauses of the callers while the leader of the cluster was stopped
}

// deploy replaces all instances, one after the other, under load. Without directories the new one comes first, under
// another name and address, and the old one leaves for good, as in a Kubernetes Deployment; with them each instance is
// stopped and started again as itself, as in a StatefulSet.
func (d *demo) deploy(ctx context.Context) error {
	ctx, cancel := within(ctx, deployBound, "the deploy did not come to its end")
	defer cancel()
	for i, left := 0, slices.Clone(d.procs); len(left) > 0; i++ {
		old, err := d.nextToGo(ctx, left)
		if err != nil {
			return err
		}
		if err := d.replace(ctx, old, len(d.procs)+1); err != nil {
			return fmt.Errorf("replace %s: %w", old.name, err)
		}
		left = slices.DeleteFunc(left, func(p *process) bool { return p == old })
	}
	return d.settle(ctx)
}

// nextToGo is the leader of the cluster if it is an old instance still, since its end is the one that callers might notice.
func (d *demo) nextToGo(ctx context.Context, left []*process) (*process, error) {
	lead, err := d.groupLeader(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(left, func(p *process) bool { return p.name == lead }); i >= 0 {
		return left[i], nil
	}
	return left[0], nil
}

// groupLeader names the instance that leads the cluster, which need not be the one that leads the job.
func (d *demo) groupLeader(ctx context.Context) (name string, err error) {
	err = poll(ctx, func() error {
		var members []quorumlock.Member
		if err := d.askAny(ctx, "/members", &members); err != nil {
			return err
		}
		i := slices.IndexFunc(members, func(m quorumlock.Member) bool { return m.Leader })
		if i < 0 {
			return errors.New("nobody leads the cluster")
		}
		name = members[i].Name
		return nil
	})
	return name, err
}

// replace puts a new process in the place of an old one.
func (d *demo) replace(ctx context.Context, old *process, number int) error {
	ctx, cancel := within(ctx, replaceBound, "not done")
	defer cancel()
	if d.dirs {
		if err := d.retire(ctx, old); err != nil {
			return err
		}
		_, err := d.enter(ctx, old.options)
		return err
	}
	fresh, err := d.newcomer(number)
	if err != nil {
		return err
	}
	if _, err := d.enter(ctx, fresh); err != nil {
		return err
	}
	return d.retire(ctx, old)
}

// newcomer is how an instance is started that has not been there before: by the addresses of those that run, which a DNS
// name would give.
func (d *demo) newcomer(number int) (processOptions, error) {
	addrs, err := freeAddrs(2)
	if err != nil {
		return processOptions{}, err
	}
	o := d.procs[0].options
	o.name, o.addr, o.web, o.join = fmt.Sprintf("web-%d", number), addrs[0], addrs[1], nil
	for _, p := range d.procs {
		if p.alive() {
			o.join = append(o.join, p.options.addr)
		}
	}
	return o, nil
}

// enter starts an instance and waits until it is ready: what a deployment looks at before it goes on.
func (d *demo) enter(ctx context.Context, o processOptions) (*process, error) {
	begun := time.Now()
	p, err := startProcess(o)
	if err != nil {
		return nil, err
	}
	d.procs = append(d.procs, p)
	go d.mourn(p)
	if err := poll(ctx, func() error { return p.get(ctx, "/healthz", nil) }); err != nil {
		return nil, err
	}
	p.serving.Store(true)
	d.line.say(good, "ready", "%s, after %.1f s", p.name, time.Since(begun).Seconds())
	return p, nil
}

// retire stops an instance in order and measures what the others notice of it.
func (d *demo) retire(ctx context.Context, old *process) error {
	if err := d.checkAcknowledged(ctx, []*process{old}); err != nil {
		return err
	}
	lead, err := d.groupLeader(ctx)
	if err != nil {
		return err
	}
	job := d.ledger.view().last()
	begun := time.Now()
	old.ending.Store(true)
	if err := old.terminate(); err != nil {
		return err
	}
	d.line.say(plain, "SIGTERM", "%s%s%s", old.name,
		either(old.name == lead, ", leader of the cluster"), either(old.name == job.Instance, ", doing the job"))
	if job.Instance == old.name {
		if _, err := d.takeOver(ctx, term{Token: job.Token, Instance: job.Instance}); err != nil {
			return err
		}
	}
	if err := old.wait(ctx); err != nil {
		return err
	}
	gone := time.Now()
	if old.leftBehind() {
		return fmt.Errorf("%s left a process behind", old.name)
	}
	return d.account(ctx, old, lead == old.name, begun, gone)
}

func either(yes bool, text string) string {
	if yes {
		return text
	}
	return ""
}

// account says what the callers of all instances noticed while an old one went.
func (d *demo) account(ctx context.Context, old *process, led bool, begun, gone time.Time) error {
	last, err := old.lastReport()
	if err != nil {
		return err
	}
	d.deployment.all.add(&last)
	seen, err := d.traffic(ctx)
	if err != nil {
		return err
	}
	pause := seen.pause(begun, gone)
	if led {
		d.deployment.changes = append(d.deployment.changes, pause)
	}
	d.line.say(good, "gone", "%s, %d ms after SIGTERM; the longest call meanwhile took %s",
		old.name, gone.Sub(begun).Milliseconds(), shown(pause))
	return nil
}

// shown is a pause for people.
func shown(pause time.Duration) string {
	if pause < slowWait {
		return fmt.Sprintf("less than %d ms", slowWait.Milliseconds())
	}
	return fmt.Sprintf("%d ms", pause.Milliseconds())
}

// traffic is the report of all instances that live and of those that have gone. A living one that does not answer is an error.
func (d *demo) traffic(ctx context.Context) (trafficReport, error) {
	sum := d.deployment.all
	for _, p := range d.procs {
		if !p.alive() {
			continue
		}
		var r trafficReport
		if err := p.get(ctx, "/traffic", &r); err != nil {
			return sum, err
		}
		sum.add(&r)
	}
	return sum, nil
}

// settle waits until the new instances are what the old ones were.
func (d *demo) settle(ctx context.Context) error {
	for _, p := range d.procs {
		if !p.alive() {
			continue
		}
		if err := poll(ctx, func() error { return d.inQuorum(ctx, p) }); err != nil {
			return err
		}
	}
	how := "replaced"
	if d.dirs {
		how = "restarted in place"
	}
	d.line.say(good, "deployed", "all %d instances are %s, and voters", d.expect, how)
	sum, err := d.traffic(ctx)
	d.deployment.all = sum
	return err
}

// judge sums the deploy up. It is an error if a caller noticed more than is promised.
func (d *deployment) judge(line *timeline) (string, error) {
	sum := &d.all
	line.say(plain, "calls", "%d answered; %d changes of the cluster's leader in order, median pause %s",
		sum.Calls-sum.Failed, len(d.changes), shown(median(d.changes)))
	switch {
	case sum.Failed > 0:
		return "", fmt.Errorf("%d of %d calls failed: %q", sum.Failed, sum.Calls, sum.Failures)
	case sum.Calls == 0 || len(d.changes) == 0:
		return "", fmt.Errorf("nothing was tried: %d calls, %d changes of the leader", sum.Calls, len(d.changes))
	case sum.Longest > maxPause:
		return "", fmt.Errorf("longest pause %v: %v is the most that is allowed", sum.Longest, maxPause)
	}
	return fmt.Sprintf("ok: 0 failed calls, longest pause %d ms", sum.Longest.Milliseconds()), nil
}

// lastReport is what an instance that has ended said of its calls, as the only thing on its standard output.
func (p *process) lastReport() (trafficReport, error) {
	var r trafficReport
	if err := json.Unmarshal(p.said.Bytes(), &r); err != nil {
		return r, fmt.Errorf("%s: last report %q: %w", p.name, p.said.String(), err)
	}
	return r, nil
}

// load is how many callers an instance has.
func (d *demo) load() int {
	if d.deploying {
		return loadCallers
	}
	return 0
}

// dataDir is where an instance keeps its data, "" in memory.
func (d *demo) dataDir(base, name string) string {
	if d.deploying && !d.dirs {
		return ""
	}
	return filepath.Join(base, name)
}
