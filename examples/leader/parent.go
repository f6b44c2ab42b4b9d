package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock"
)

const (
	startBound = 10 * time.Second // from the start to the first leader
	stopBound  = 15 * time.Second // from SIGTERM to the exit
	starts     = 2                // how often the start is tried if ports are taken
)

// errAddressTaken is the one failure of a start that is worth another try: somebody took a port between its choice and its use.
var errAddressTaken = errors.New("a port was taken by another program")

// demo directs the demonstration: it starts the instances, does bad things to them, and checks what comes of it. It knows of them
// what any outsider does: their HTTP answers, the ledger, and how they exit.
type demo struct {
	options
	line      *timeline
	ledger    *ledger
	ledgerURL string
	dir       string
	procs     []*process
	lost      context.CancelCauseFunc // ends everything: an instance went by itself

	deployment deployment
}

// runDemo plays the demonstration, or the deploy, or with -keep only the start and the stop, and prints the last line if
// everything was as it must be.
func runDemo(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if canPause != nil {
		return canPause
	}
	// The kernel ends the children with the thread that started them, not with the process (see dieWithParent).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	d := &demo{options: o, line: newTimeline(stdout), ledger: newLedger()}
	err := d.run(ctx)
	var verdict string
	if err == nil {
		verdict, err = d.judge()
	}
	if err != nil {
		d.line.say(fatal, "failed", "%v", err)
		d.showOutputs(stderr)
		return err
	}
	fmt.Fprintln(d.line, verdict)
	return nil
}

// judge gives the last line.
func (d *demo) judge() (string, error) {
	if d.deploying {
		return d.deployment.judge(d.line)
	}
	v := d.ledger.view()
	return fmt.Sprintf("ok: %d leaders, tokens strictly rising, %d stale writes refused, %.1f s",
		len(v.terms()), len(v.refused), time.Since(d.line.start).Seconds()), nil
}

func (d *demo) run(ctx context.Context) (err error) {
	if d.dir, err = os.MkdirTemp("", "leader-"); err != nil {
		return fmt.Errorf("data directories: %w", err)
	}
	if !d.keep {
		defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	}
	url, endLedger, err := startLedger(d.ledger, loopback)
	if err != nil {
		return err
	}
	defer endLedger()
	d.ledgerURL = url
	defer d.destroy()

	running, err := d.start(ctx)
	if err != nil {
		return err
	}
	switch {
	case d.keep:
		err = d.watch(running)
	case d.deploying:
		err = d.deploy(running)
	default:
		err = d.play(running)
	}
	if err != nil {
		return errors.Join(err, d.verify()) // the ledger may know why
	}
	// An interrupt has ended ctx, with -keep as it is meant to.
	if err := d.stopAll(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return d.verify()
}

// start starts the instances and waits for the first leader. The context that it gives ends, with the cause, when an
// instance goes unexpectedly.
func (d *demo) start(ctx context.Context) (context.Context, error) {
	d.line.say(plain, "start", "%d instances, session TTL %v, ledger at %s", d.expect, d.ttl, d.ledgerURL)
	for try := 1; ; try++ {
		running, err := d.launch(ctx, try)
		if err == nil || try == starts || !errors.Is(err, errAddressTaken) {
			return running, err
		}
		d.line.say(trouble, "start again", "%v", err)
		d.destroy()
		d.procs = nil
	}
}

func (d *demo) launch(ctx context.Context, try int) (running context.Context, err error) {
	running, d.lost = context.WithCancelCause(ctx)
	defer func() {
		if err != nil {
			d.lost(err)
		}
	}()
	addrs, err := freeAddrs(2 * d.expect)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(d.dir, fmt.Sprintf("try-%d", try)) // a start that failed may have left half a founding behind
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directories: %w", err)
	}
	nodes, webs := addrs[:d.expect], addrs[d.expect:]
	for i := range d.expect {
		name := fmt.Sprintf("web-%d", i+1)
		p, err := startProcess(processOptions{
			name: name, addr: nodes[i], web: webs[i], dir: d.dataDir(dir, name), ledger: d.ledgerURL, join: nodes, expect: d.expect, ttl: d.ttl,
			callers: d.load(), echo: d.echo(),
		})
		if err != nil {
			return nil, err
		}
		d.procs = append(d.procs, p)
		go d.mourn(p)
	}
	return running, d.awaitFirstLeader(running)
}

// echo is where the children's output goes as it comes, nil for nowhere.
func (d *demo) echo() io.Writer {
	if !d.verbose {
		return nil
	}
	return d.line
}

// mourn waits for the end of an instance, and ends the demonstration if it was not expected. With -keep it is somebody's
// experiment.
func (d *demo) mourn(p *process) {
	<-p.exited
	switch {
	case p.ending.Load():
	case p.cmd.ProcessState.ExitCode() == exitAddressInUse:
		d.lost(fmt.Errorf("%s: %w", p.name, errAddressTaken))
	case d.keep && p.serving.Load():
		d.line.say(trouble, "gone", "%s: %v", p.name, p.err)
	default:
		d.lost(fmt.Errorf("%s ended by itself: %v", p.name, p.err))
	}
}

func (d *demo) awaitFirstLeader(ctx context.Context) error {
	ctx, cancel := within(ctx, startBound, "no leader")
	defer cancel()
	for _, p := range d.procs {
		if err := poll(ctx, func() error { return d.inQuorum(ctx, p) }); err != nil {
			return err
		}
		p.serving.Store(true)
	}
	d.line.say(good, "quorum formed", "%s", names(d.procs))
	first, err := d.takeOver(ctx, term{})
	if err != nil {
		return err
	}
	return d.awaitWrites(ctx, first)
}

// inQuorum is nil once an instance is healthy and sees all instances as voters.
func (d *demo) inQuorum(ctx context.Context, p *process) error {
	if err := p.get(ctx, "/healthz", nil); err != nil {
		return err
	}
	var members []quorumlock.Member
	if err := p.get(ctx, "/members", &members); err != nil {
		return err
	}
	voters := 0
	for _, m := range members {
		if m.Voter {
			voters++
		}
	}
	if voters != d.expect {
		return fmt.Errorf("%s sees %d voters of %d", p.name, voters, d.expect)
	}
	return nil
}

// takeOver waits for a leader with a higher token than old's: one whose write the ledger has accepted, and on whom the
// cluster agrees.
func (d *demo) takeOver(ctx context.Context, old term) (term, error) {
	began := time.Now()
	newer := func(v ledgerView) bool { return v.last().Token > old.Token }
	if err := d.ledger.await(ctx, newer); err != nil {
		return term{}, err
	}
	next, err := d.leader(ctx)
	if err != nil {
		return term{}, err
	}
	if old.Token == 0 {
		d.line.say(good, "leader", "%s, token %v", next.Instance, next.Token)
	} else {
		d.line.say(good, "leader", "%s, token %v, higher by %d; %.1f s later", next.Instance, next.Token, next.Token-old.Token,
			time.Since(began).Seconds())
	}
	return next, nil
}

// leader is the present leader: who wrote last, if a living instance names the same one.
func (d *demo) leader(ctx context.Context) (term, error) {
	var now term
	err := poll(ctx, func() error {
		var view leaderView
		if err := d.askAny(ctx, "/leader", &view); err != nil {
			return err
		}
		last := d.ledger.view().last()
		if view.Leader != last.Instance || view.Token != last.Token {
			return fmt.Errorf("%q leads with token %v, but %q wrote last with token %v",
				view.Leader, view.Token, last.Instance, last.Token)
		}
		now = term{Token: last.Token, Instance: last.Instance}
		return nil
	})
	return now, err
}

// askAny asks the first instance that answers. Those that are stopped are not asked.
func (d *demo) askAny(ctx context.Context, path string, v any) error {
	var errs []error
	for _, p := range d.procs {
		if !p.alive() || p.frozen {
			continue
		}
		err := p.get(ctx, path, v)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, errors.New("nobody answers"))...)
}

// shownWrites is how many writes of a leader are waited for before the next thing happens.
const shownWrites = 5

func (d *demo) awaitWrites(ctx context.Context, t term) error {
	enough := func(v ledgerView) bool { return v.accepted(t.Token) >= shownWrites }
	if err := d.ledger.await(ctx, enough); err != nil {
		return fmt.Errorf("waiting for writes of %s: %w", t.Instance, err)
	}
	d.line.say(plain, "writes accepted", "%d by %s", d.ledger.view().accepted(t.Token), t.Instance)
	return nil
}

// stopAll stops what is left as a deployment would, all at once. The leader is told last: it gives the lock back when nobody
// waits for it any more.
func (d *demo) stopAll(ctx context.Context) error {
	ctx, cancel := within(ctx, stopBound, "no clean stop")
	defer cancel()
	left := slices.DeleteFunc(slices.Clone(d.procs), func(p *process) bool { return !p.alive() })
	if err := d.checkAcknowledged(ctx, left); err != nil {
		return err
	}
	leads := d.ledger.view().last().Instance
	slices.SortStableFunc(left, func(a, b *process) int { return order(a.name == leads) - order(b.name == leads) })
	d.line.say(plain, "stop", "SIGTERM to %s", names(left))
	for _, p := range left {
		p.ending.Store(true)
		if err := p.terminate(); err != nil {
			return err
		}
	}
	for _, p := range left {
		if err := p.wait(ctx); err != nil {
			return fmt.Errorf("stop %s: %w", p.name, err)
		}
	}
	for _, p := range d.procs {
		if p.leftBehind() {
			return fmt.Errorf("%s left a process behind", p.name)
		}
	}
	d.line.say(good, "stopped", "%s: exit status 0, nothing left behind", names(left))
	return nil
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

// destroy ends all children, whatever state they are in.
func (d *demo) destroy() {
	for _, p := range d.procs {
		p.destroy()
	}
}

func (d *demo) showOutputs(w io.Writer) {
	if d.verbose {
		return // shown already
	}
	for _, p := range d.procs {
		for _, line := range p.output.tail() {
			fmt.Fprintln(w, line)
		}
	}
}

func (d *demo) living() int {
	n := 0
	for _, p := range d.procs {
		if p.alive() {
			n++
		}
	}
	return n
}

func (d *demo) process(name string) *process {
	i := slices.IndexFunc(d.procs, func(p *process) bool { return p.name == name })
	return d.procs[i]
}

func names(procs []*process) string {
	var list []string
	for _, p := range procs {
		list = append(list, p.name)
	}
	return strings.Join(list, ", ")
}
