//go:build !wasip1

package gossip

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/quiet"
	"github.com/quorumlock/quorumlock/transport"
)

// S90: datagrams between two of three members, or of two, are lost one way or both, for five minutes. Nobody leaves anybody's
// view, so nobody hears of changes; each of the two is told once what is wrong, and once that it is over. That the fault bites
// is what the warning shows, and the control: of a sound network none is told.
func TestS90DatagramsAreLost(t *testing.T) {
	for _, size := range []int{2, 3} {
		for name, cut := range map[string]func(net *transport.Memory, loss float64){
			"one way": func(net *transport.Memory, loss float64) { net.SetLoss("h1", "h2", loss) },
			"both ways": func(net *transport.Memory, loss float64) {
				net.SetLoss("h1", "h2", loss)
				net.SetLoss("h2", "h1", loss)
			},
			"control": func(*transport.Memory, float64) {},
		} {
			t.Run(fmt.Sprintf("%s of %d", name, size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &pool{t: t, open: NewMemberlist, net: transport.NewMemory(1), log: &logLines{}}
					defer p.closeAll()
					blockDatagrams(t, p, size, name != "control", func(loss float64) { cut(p.net, loss) })
				})
			})
		}
	}
}

func blockDatagrams(t *testing.T, p *pool, size int, bites bool, lose func(loss float64)) {
	var ids []string
	for i := range size {
		ids = append(ids, fmt.Sprint("m", i+1))
		p.start(fmt.Sprint("h", i+1), ids[i])
	}
	all := strings.Join(ids, " ")
	p.within(5*time.Second, "they find each other", func() bool { return sees(all, p.nodes...) })
	time.Sleep(10 * time.Second)
	changes := 0
	for _, n := range p.nodes {
		changes += n.changeCount()
	}
	lose(1)
	time.Sleep(5 * time.Minute)
	synctest.Wait()
	if !sees(all, p.nodes...) {
		t.Errorf("not all see %s", all)
	}
	for _, n := range p.nodes {
		changes -= n.changeCount()
	}
	if changes != 0 {
		t.Errorf("%d changes were told", -changes)
	}
	want := 0
	if bites {
		want = 2
	}
	if lines := p.log.with("datagrams do not get through"); len(lines) != want {
		t.Errorf("warned %d times, want %d: %q", len(lines), want, lines)
	}
	lose(0)
	p.within(30*time.Second, "the end is told", func() bool { return len(p.log.with("datagrams get through again")) == want })
}

// A lossy network is no blocked one: nobody is told that it is, as long as some get through.
func TestLossIsNotTakenForABlockedPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{t: t, open: NewMemberlist, net: transport.NewMemory(1), log: &logLines{}}
		defer p.closeAll()
		p.three()
		p.net.SetLoss("*", "*", 0.1)
		time.Sleep(5 * time.Minute)
		if lines := p.log.with("datagrams do not get through"); len(lines) != 0 {
			t.Errorf("%q", lines)
		}
	})
}

// S62: members of two clusters have each other's addresses, as after an address was given away. What they refuse of each other
// is counted, and told once a minute by each, not once for each member, address and attempt.
func TestS62MeetingAnotherClusterIsToldOnceAMinute(t *testing.T) {
	const minutes = 3
	for name, foreign := range map[string]func(*Options){
		"other name": func(o *Options) { o.Cluster = "other" },
		"other id":   func(o *Options) { o.Meta.ClusterID = "two" },
	} {
		t.Run(name, func(t *testing.T) {
			eachForm(t, func(t *testing.T, p *pool) {
				seeds := func(o *Options) {
					o.Meta.ClusterID, o.Seeds = "one", []string{"h1:7000", "h2:7000", "h3:7000", "h4:7000"}
				}
				for i := range 4 {
					change := []func(*Options){seeds}
					if i >= 2 {
						change = append(change, foreign)
					}
					p.start(fmt.Sprint("h", i+1), string(rune('a'+i)), change...)
				}
				ours, theirs := p.nodes[:2], p.nodes[2:]
				p.within(5*time.Second, "own ones", func() bool { return sees("a b", ours...) && sees("c d", theirs...) })
				others := []string{"refused gossip", "refused a gossip member", "can not join", "label"}
				before := make(map[string]int) // seeds that were not there yet
				for _, words := range others {
					before[words] = len(p.log.with(words))
				}
				p.never(minutes*time.Minute, "clusters merged", func() bool { return !sees("a b", ours...) || !sees("c d", theirs...) })
				told := len(p.log.with("met another cluster"))
				if told < len(p.nodes) || told > len(p.nodes)*(minutes+1) {
					t.Errorf("%d lines of %d instances in %d minutes", told, len(p.nodes), minutes)
				}
				for _, words := range others {
					if lines := p.log.with(words)[before[words]:]; len(lines) > 0 {
						t.Errorf("%d lines more, as %q", len(lines), lines[0])
					}
				}
			})
		})
	}
}

// S97: a process that advertises a loopback address is not seen by one on another machine, for whom the address is its own
// machine; nor the other way round.
func TestS97LoopbackIsNotSeenElsewhere(t *testing.T) {
	for _, c := range []struct {
		own, peer string
		ok        bool
	}{
		{"127.0.0.1:7000", "127.0.0.2:7001", true},
		{"127.0.0.1:7000", "[::1]:7001", true},
		{"localhost:7000", "127.0.0.1:7001", true},
		{"127.0.0.1:7000", "10.0.0.1:7000", false},
		{"10.0.0.1:7000", "127.0.0.1:7000", false},
		{"[::1]:7000", "[2001:db8::1]:7000", false},
		{"100.64.0.7:7000", "[::ffff:127.0.0.1]:7000", false},
		{"localhost:7000", "203.0.113.5:7000", false},
		{"100.64.0.7:7000", "[2001:db8::1]:7000", true},
		{"web-1.internal:7000", "10.0.0.1:7000", true},
		{"web-1.internal:7000", "127.0.0.1:7000", true}, // what the name stands for is not known here
	} {
		a, b := record{addr: c.own}, record{addr: c.peer}
		if err := a.admits(b); (err == nil) != c.ok {
			t.Errorf("%s and %s: %v", c.own, c.peer, err)
		}
	}
}

// S97: a name among the seeds turns out to stand for other machines while this node advertises a loopback address: it does not
// go there, and says what to set.
func TestS97LoopbackGoesNowhereElse(t *testing.T) {
	log := &logLines{}
	s := &seeds{
		names: []string{"svc:7000", "127.0.0.1:7001"}, log: log.logger(), own: "127.0.0.1:7000", lines: &quiet.Limiter{},
		resolve: literallyAs("10.0.0.1", "127.0.0.9"),
	}
	if got := fmt.Sprint(s.addresses(t.Context())); got != "[127.0.0.1:7001 127.0.0.9:7000]" {
		t.Errorf("goes to %s", got)
	}
	if lines := log.with("Config.Advertise"); len(lines) != 1 {
		t.Errorf("told %q", lines)
	}
	s.own = "10.0.0.2:7000"
	if got := len(s.addresses(t.Context())); got != 3 {
		t.Errorf("%d addresses where the own one is no loopback address", got)
	}
}

// literallyAs answers every name with the hosts.
func literallyAs(hosts ...string) func(context.Context, string) ([]string, error) {
	return func(context.Context, string) ([]string, error) { return hosts, nil }
}
