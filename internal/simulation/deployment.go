package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// This file plays what happens to the instances of a service on ordinary days, deploys and scaling and new addresses, under traffic for which all of it has to be unnoticeable:
// calls wait a little, no call fails, and what is held stays held.

const (
	patientBound = time.Minute      // of a Lock; one that ends by it has failed
	leaveBound   = 30 * time.Second // a service's grace at its end
	settleBound  = 3 * time.Minute  // within which the group has its voters again
	mostFollowed = 8                // instances whose view of the log is noted; the others are many and the same
)

// Deployment is what is done to the instances.
type Deployment struct {
	Name  string
	Waits time.Duration // the longest that a Lock of a name that nobody else wants may take
	size  func(rng *rand.Rand) int
	disks func(rng *rand.Rand) bool
	play  func(*deployment)

	Costly bool // it takes as much processor time as ten of the others
}

// deployment is one run.
type deployment struct {
	*schedule
	plan    *Deployment
	outside *instance // a client that nothing is done to

	mu      sync.Mutex
	longest time.Duration
	locks   int
	moved   int // instances that came, went or moved
}

// RunDeployment plays one deployment with the choices of o.Seed, and fails the test for every violation of it.
func RunDeployment(t *testing.T, o *Outcome, plan Deployment, opts ...quorumlocktest.Option) (longest time.Duration) {
	t.Helper()
	var d *deployment
	defer func() {
		if d != nil {
			o.Virtual = d.lasted
			o.judge(t, d.history)
			longest = d.longest
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		d = newDeployment(t, o, &plan, opts)
		defer func() { d.lasted = time.Since(d.started) }()
		d.run()
	})
	return 0
}

func newDeployment(t *testing.T, o *Outcome, plan *Deployment, more []quorumlocktest.Option) *deployment {
	d := &deployment{schedule: begin(t, o), plan: plan}
	d.rng = rand.New(rand.NewPCG(o.Seed, 2))
	size, disks := plan.size(d.rng), plan.disks(d.rng)
	d.Kind = Kind{Size: size, Voters: 3, Memory: !disks, Gentle: true, Snapshot: []uint64{0, 500, 20_000}[d.rng.IntN(3)]}
	if size >= 5 && d.rng.IntN(2) == 0 {
		d.Voters = 5
	}
	o.Kind = d.Kind
	lag := []time.Duration{200 * time.Microsecond, 2 * time.Millisecond, 20 * time.Millisecond}[d.rng.IntN(3)]
	opts := []quorumlocktest.Option{
		quorumlocktest.Seed(o.Seed), quorumlocktest.SnapshotBytes(d.Snapshot), quorumlocktest.HashEvery(hashEvery), quorumlocktest.Latency(lag),
		quorumlocktest.JoinByName(), quorumlocktest.NotReady(), quorumlocktest.Configure(func(i int, cfg *quorumlock.Config) {
			cfg.Voters, cfg.Expect = d.Voters, size
			if i == size {
				cfg.Role, cfg.Expect, cfg.SessionTTL = quorumlock.RoleClient, 0, quorumlock.MaxSessionTTL
			}
		}),
	}
	if d.Memory {
		opts = append(opts, quorumlocktest.InMemory())
	}
	d.c = quorumlocktest.New(t, size+1, append(opts, more...)...)
	d.c.WaitReady()
	for i := range size + 1 {
		d.enlist(i)
	}
	d.outside, d.moved = d.instances[size], 0
	if disks && d.rng.IntN(2) == 0 {
		for i := range size {
			d.c.Disk(i).Slow(time.Duration(d.rng.IntN(20)) * time.Millisecond)
		}
	}
	return d
}

// run plays the plan while a hold from outside lasts from the beginning to the end.
func (d *deployment) run() {
	kept := d.keep()
	time.Sleep(5 * time.Second)
	d.plan.play(d)
	d.wellAgain()
	time.Sleep(5 * time.Second)
	close(d.quit)
	d.endsWithin("the last calls", patientBound, d.workers.Wait)
	d.looseNothing(kept)
	d.live()
	d.ghosts()
	d.c.CheckState()
	if d.longest > d.plan.Waits {
		d.t.Errorf("a Lock of a name that nobody else wanted took %v, bound %v", d.longest, d.plan.Waits)
	}
	if d.moved == 0 || d.locks == 0 {
		d.t.Errorf("%d instances came or went under %d locks: nothing was tested", d.moved, d.locks)
	}
}

// keep takes a lock that is to outlast everything.
func (d *deployment) keep() *holding {
	a := d.claim("outside/kept", d.outside, quorumlock.Exclusive, "kept")
	h, err := d.ask(a, quorumlock.NewMutex(d.outside.node, "kept", a.options()...).Lock)
	if err != nil {
		d.t.Fatalf("lock from outside: %v", err)
	}
	return h
}

func (d *deployment) looseNothing(kept *holding) {
	if err := kept.hold.Err(); err != nil {
		d.t.Errorf("the hold of a client that nothing was done to was lost: %v", err)
	}
	d.release(kept)
}

// enlist begins to use an instance that has just been started for the first time.
func (d *deployment) enlist(i int) *instance {
	in := &instance{index: i, rate: 1, bad: make(map[string]int)}
	d.schedule.mu.Lock()
	d.instances = append(d.instances, in)
	d.schedule.mu.Unlock()
	d.resume(in)
	for _, name := range []string{fmt.Sprintf("own/%d", i), locks[i%2]} {
		d.workers.Go(func() { d.patient(in, name) })
	}
	return in
}

// resume takes in that an instance runs.
func (d *deployment) resume(in *instance) {
	d.moved++
	if in.index < mostFollowed {
		d.up(in)
		return
	}
	d.schedule.mu.Lock()
	defer d.schedule.mu.Unlock()
	in.starts++
	in.node = d.c.Node(in.index)
}

// patient locks one name again and again on one instance, for as long as that runs.
func (d *deployment) patient(in *instance, name string) {
	rng := rand.New(rand.NewPCG(d.outcome.Seed, uint64(in.index)))
	for !closed(d.quit) {
		node := d.node(in)
		if node == nil {
			if time.Sleep(100 * time.Millisecond); in.left.Load() {
				return
			}
			continue
		}
		d.lockOnce(in, node, name, time.Duration(rng.Int64N(int64(100*time.Millisecond))))
		time.Sleep(time.Duration(rng.Int64N(int64(500 * time.Millisecond))))
	}
}

// lockOnce must succeed, unless the instance goes meanwhile.
func (d *deployment) lockOnce(in *instance, node *quorumlock.Node, name string, length time.Duration) {
	a := d.claim(name, in, quorumlock.Exclusive, name)
	a.client, a.bound = fmt.Sprintf("%d/%s", in.index, name), patientBound
	began := time.Now()
	h, err := d.ask(a, quorumlock.NewMutex(node, name, a.options()...).Lock)
	took := time.Since(began)
	here := d.node(in) == node
	if err != nil {
		if here {
			d.t.Errorf("%v: lock %q on instance %d, which nothing was done to: %v after %v", time.Since(d.started), name, in.index, err, took)
		}
		return
	}
	if here {
		d.took(name, took)
	}
	d.busy(h, length)
	d.leave(h)
	u := h.call()
	err = h.hold.Unlock()
	d.history.Unlocked(done(u), h.ID, outcomeOf(err))
	d.ended(h, "unlock", err)
	if err != nil && d.node(in) == node {
		d.t.Errorf("%v: hold of %q on instance %d, which nothing was done to: %v", time.Since(d.started), name, in.index, err)
	}
}

func (d *deployment) took(name string, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.locks++
	if !slices.Contains(locks, name) {
		d.longest = max(d.longest, took)
	}
}

// some pauses for up to most.
func (d *deployment) some(most time.Duration) { time.Sleep(time.Duration(d.rng.Int64N(int64(most)))) }

// members are the instances that run, the one outside excepted.
func (d *deployment) members() []*instance {
	return slices.DeleteFunc(d.running(), func(in *instance) bool { return in == d.outside })
}

// shuffled is members in any order.
func (d *deployment) shuffled() []*instance {
	list := d.members()
	d.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// grow starts a new instance and waits until it serves.
func (d *deployment) grow() *instance {
	i := d.c.Grow()
	d.ready(i)
	return d.enlist(i)
}

func (d *deployment) ready(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), patientBound)
	defer cancel()
	if err := d.c.Node(i).Ready(ctx); err != nil {
		d.t.Errorf("%v: instance %d is not ready: %v", time.Since(d.started), i, err)
	}
}

// remove has instances leave for good, all at once.
func (d *deployment) remove(list ...*instance) {
	var all sync.WaitGroup
	for _, in := range list {
		d.down(in)
		in.left.Store(true)
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), leaveBound)
			defer cancel()
			d.endsWithin("leave", leaveBound, func() {
				if err := d.c.Leave(ctx, in.index); err != nil {
					d.t.Errorf("%v: leave of instance %d: %v", time.Since(d.started), in.index, err)
				}
			})
		})
	}
	all.Wait()
	d.moved += len(list)
}

// wellAgain waits until the group has as many voters as it can, all of them instances that run.
func (d *deployment) wellAgain() {
	var problem string
	for end := time.Now().Add(settleBound); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		if problem = d.trouble(); problem == "" {
			return
		}
	}
	d.t.Errorf("%v after all is well: %s", settleBound, problem)
}

func (d *deployment) trouble() string {
	in := make(map[string]bool)
	for _, m := range d.members() {
		in[m.node.ID()] = true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	members, err := d.outside.node.Members(ctx)
	if err != nil {
		return err.Error()
	}
	voters, leaders, dead := 0, 0, 0
	for _, m := range members {
		switch {
		case m.Voter && !in[m.ServerID]:
			dead++
		case m.Voter:
			voters++
		}
		if m.Leader {
			leaders++
		}
	}
	want := min(d.Voters, len(in))
	if want < d.Voters && want > 2 && want%2 == 0 && dead == 0 {
		want--
	}
	switch {
	case voters != want || leaders != 1:
		return fmt.Sprintf("%d voters, want %d, and %d leaders", voters, want, leaders)
	case dead > 0 && voters == d.Voters || dead > 1:
		return fmt.Sprintf("%d dead voters are still in the group, beside %d", dead, voters)
	}
	return ""
}
