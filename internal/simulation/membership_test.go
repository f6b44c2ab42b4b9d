package simulation_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/simulation"
)

// TestMembership plays deploys, scaling and changes of addresses under traffic:
//
//	go test -v ./internal/simulation -run Membership                             the share of every change
//	go test -v ./internal/simulation -run Membership -args -deployments 350      so many in all
//	go test -v ./internal/simulation -run Membership/moved -args -seed S -tries 20   one again and again
func TestMembership(t *testing.T) {
	plans := simulation.Deployments()
	count := *deployments
	switch {
	case count > 0:
	case *seed > 0:
		count = len(plans)
	case testing.Short() || raceEnabled:
		count = 2
	default:
		plans = slices.DeleteFunc(plans, func(p simulation.Deployment) bool { return p.Costly })
		count = len(plans)
	}
	total := &deployed{began: time.Now(), first: max(1, *seed), plans: make(map[string]*planned)}
	t.Run("plan", func(t *testing.T) {
		for k := range count {
			plan, seed := plans[k%len(plans)], total.first+uint64(k/len(plans))
			for range *tries {
				t.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(plan.Name, " ", "-"), seed), func(t *testing.T) {
					t.Parallel()
					o := simulation.Outcome{Seed: seed}
					var longest time.Duration
					defer func() { total.add(plan.Name, &o, longest, t.Failed()) }()
					longest = simulation.RunDeployment(t, &o, plan)
				})
			}
		}
	})
	fmt.Print(total)
}

// deployed sums up.
type deployed struct {
	began time.Time
	first uint64

	mu    sync.Mutex
	names []string
	plans map[string]*planned
}

type planned struct {
	runs, grants int
	virtual      time.Duration
	longest      time.Duration
	seed         uint64 // of the longest wait
	bad          []uint64
}

func (d *deployed) add(name string, o *simulation.Outcome, longest time.Duration, failed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.plans[name]
	if p == nil {
		p = &planned{}
		d.plans[name], d.names = p, append(d.names, name)
	}
	p.runs++
	if failed {
		p.bad = append(p.bad, o.Seed)
	}
	if o.Report == nil {
		return
	}
	p.virtual += o.Virtual
	p.grants += o.Report.Grants
	if longest > p.longest {
		p.longest, p.seed = longest, o.Seed
	}
}

func (d *deployed) String() string {
	var b strings.Builder
	runs, bad := 0, 0
	slices.Sort(d.names)
	for _, name := range d.names {
		p := d.plans[name]
		runs, bad = runs+p.runs, bad+len(p.bad)
		fmt.Fprintf(&b, "%-36s %3d schedules, %6.1f virtual minutes, %7d grants, longest wait %v (seed %d)", name, p.runs, p.virtual.Minutes(), p.grants, p.longest, p.seed)
		if len(p.bad) > 0 {
			fmt.Fprintf(&b, ", violations with seeds %v", p.bad)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%d schedules from seed %d on in %v, schedules with violations: %d\n", runs, d.first, time.Since(d.began).Round(time.Second), bad)
	return b.String()
}
