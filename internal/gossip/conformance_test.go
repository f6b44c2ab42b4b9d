//go:build !wasip1

package gossip

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestThreeFindEachOther(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a, b, c := p.three()
		for _, n := range []*instance{a, b, c} {
			for _, m := range []*instance{a, b, c} {
				got, _ := n.member(m.id)
				want := Member{ServerID: m.id, Addr: m.host + ":7000", Meta: Meta{Name: "name-" + m.id, Boot: m.boot, Expect: 3}}
				if got != want {
					t.Errorf("%s sees %+v, want %+v", n.id, got, want)
				}
			}
			if n.changeCount() == 0 {
				t.Errorf("%s was not told of any change", n.id)
			}
		}
		if addr, ok := a.Lookup("nobody"); ok {
			t.Errorf("Lookup of an unknown id gives %q", addr)
		}
		p.never(30*time.Second, "a quiet pool changes", func() bool { return !sees("a b c", a, b, c) })
	})
}

func TestMetaReachesAll(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a, b, c := p.three()
		want := Meta{Name: "x", Zone: "z", ClusterID: "id", Version: 7, Expect: 5, HasState: true, Boot: b.boot}
		before := c.changeCount()
		if err := b.SetMeta(want); err != nil {
			t.Fatal(err)
		}
		if m, _ := b.member("b"); m.Meta != want {
			t.Errorf("own view after SetMeta is %+v", m.Meta)
		}
		p.within(2*time.Second, "new metadata everywhere", func() bool {
			x, _ := a.member("b")
			y, _ := c.member("b")
			return x.Meta == want && y.Meta == want
		})
		if c.changeCount() == before {
			t.Error("OnChange was not called for new metadata")
		}
		// A newcomer gets the new one too, and a second change follows the first.
		d := p.start("h4", "d")
		want.Zone = "z2"
		if err := b.SetMeta(want); err != nil {
			t.Fatal(err)
		}
		p.within(3*time.Second, "newest metadata at a newcomer", func() bool { m, _ := d.member("b"); return m.Meta == want })
	})
}

func TestHugeMetaIsRefused(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a, b, _ := p.three()
		good, _ := a.member("a")
		var tooLarge *MetaTooLargeError
		err := a.SetMeta(Meta{Name: strings.Repeat("x", 600)})
		if !errors.As(err, &tooLarge) || tooLarge.Size <= tooLarge.Limit {
			t.Fatalf("SetMeta of 600 bytes: %v", err)
		}
		p.never(3*time.Second, "refused metadata shows", func() bool { m, _ := b.member("a"); return m != good })
		// As large as can be still travels.
		meta := good.Meta
		for a.SetMeta(meta) == nil {
			meta.Name += "x"
		}
		meta.Name = meta.Name[:len(meta.Name)-1]
		p.within(3*time.Second, "largest metadata arrives", func() bool { m, _ := b.member("a"); return m.Meta == meta })

		_, err = p.open(Options{Endpoint: a.ep, ServerID: "z", Meta: Meta{Zone: strings.Repeat("x", 600)}})
		if !errors.As(err, &tooLarge) {
			t.Errorf("opening with 600 bytes: %v", err)
		}
	})
}

func TestLeave(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a, b, c := p.three()
		start := time.Now()
		if err := c.Leave(); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > 1500*time.Millisecond {
			t.Errorf("Leave took %v", d)
		}
		p.within(time.Second, "leave is known", func() bool { return sees("a b", a, b) })
		if err := c.Leave(); err != nil {
			t.Errorf("second Leave: %v", err)
		}
		p.never(20*time.Second, "who left came back", func() bool { return !sees("a b", a, b) })
		p.close(c)
		if err := errors.Join(c.Close(), c.Leave()); err != nil {
			t.Errorf("second Close, Leave after Close: %v", err)
		}
		if addr, ok := a.Lookup("c"); !ok || addr != "h3:7000" {
			t.Errorf("Lookup of who left: %q, %v", addr, ok)
		}
	})
}

func TestLeaveAlone(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a := p.start("h1", "a")
		start := time.Now()
		if err := a.Leave(); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > 1200*time.Millisecond {
			t.Errorf("Leave of one alone took %v", d)
		}
	})
}

func TestSilentDeath(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a, b, c := p.three()
		before := a.changeCount()
		p.kill(c)
		p.within(10*time.Second, "death is seen", func() bool { return sees("a b", a, b) })
		if a.changeCount() == before {
			t.Error("OnChange was not called for a death")
		}
		p.never(30*time.Second, "the dead came back", func() bool { return !sees("a b", a, b) })
		time.Sleep(4 * time.Minute)
		if addr, ok := a.Lookup("c"); !ok || addr != "h3:7000" {
			t.Errorf("Lookup of the dead after 4 min: %q, %v", addr, ok)
		}
		// A host that is down for long must not fill the log: one line in 30 s from each of the two, and its end.
		if n := len(p.log.with("h3:7000")); n > 2*(2*5+3) {
			t.Errorf("%d log lines about one dead peer in 5 min", n)
		}
	})
}

func TestRestartAtOnceElsewhere(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a, b, c := p.three()
		p.kill(c)
		time.Sleep(100 * time.Millisecond) // the others still believe in the old one
		if !sees("a b c", a, b) {
			t.Fatal("the death was seen too early for this test to mean anything")
		}
		again := p.start("h4", "c")
		p.within(6*time.Second, "new address is believed", func() bool { return a.seesAt("c", "h4:7000") && b.seesAt("c", "h4:7000") })
		if m, _ := a.member("c"); m.Meta.Boot != again.boot {
			t.Errorf("address of the new process with the metadata of the old one: %+v", m)
		}
		p.within(10*time.Second, "views settle", func() bool { return sees("a b c", a, b, again) })
		p.never(30*time.Second, "the new address is lost again", func() bool {
			return !a.seesAt("c", "h4:7000") || !b.seesAt("c", "h4:7000") || !sees("a b c", a, b, again)
		})
		for _, n := range []*instance{a, b, again} {
			if got := n.told(); len(got) > 0 {
				t.Errorf("a restart was reported as a conflict: %v", got)
			}
		}
		p.kill(again)
		p.within(10*time.Second, "its death is seen", func() bool { return sees("a b", a, b) })
	})
}

func TestRestartLaterElsewhere(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a, b, c := p.three()
		p.kill(c)
		p.within(10*time.Second, "death is seen", func() bool { return sees("a b", a, b) })
		again := p.start("h4", "c")
		p.within(3*time.Second, "new address", func() bool { return a.seesAt("c", "h4:7000") && b.seesAt("c", "h4:7000") })
		p.within(3*time.Second, "views", func() bool { return sees("a b c", a, b, again) })
	})
}

func TestRestartInPlace(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a, b, c := p.three()
		p.kill(c)
		again := p.start("h3", "c")
		p.within(6*time.Second, "new boot", func() bool {
			x, _ := a.member("c")
			y, _ := b.member("c")
			return x.Meta.Boot == again.boot && y.Meta.Boot == again.boot
		})
	})
}

func TestPartitionHeals(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a, b, c := p.three()
		p.net.Isolate("h3")
		p.within(15*time.Second, "halves", func() bool { return sees("a b", a, b) && sees("c", c) })
		time.Sleep(70 * time.Second)
		if !sees("a b", a, b) || !sees("c", c) {
			t.Fatal("the partition did not hold")
		}
		p.net.HealAll()
		p.within(15*time.Second, "views equal", func() bool { return sees("a b c", a, b, c) })
	})
}

func TestPartitionHealsWithoutSeeds(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		noSeeds := func(o *Options) { o.Seeds = nil }
		a, b := p.start("h1", "a", noSeeds), p.start("h2", "b", noSeeds)
		p.never(5*time.Second, "found each other by magic", func() bool { return !sees("a", a) || !sees("b", b) })
		a.Learn("b", "h2:7000")
		if addr, ok := a.Lookup("b"); !ok || addr != "h2:7000" {
			t.Errorf("Lookup of a learned one: %q, %v", addr, ok)
		}
		p.within(2*time.Second, "learned address is joined", func() bool { return sees("a b", a, b) })
		p.net.Isolate("h2")
		p.within(15*time.Second, "apart", func() bool { return sees("a", a) && sees("b", b) })
		time.Sleep(2 * time.Minute)
		p.net.HealAll()
		p.within(15*time.Second, "together", func() bool { return sees("a b", a, b) })
	})
}

func TestForeignNameRefused(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a, b := p.start("h1", "a"), p.start("h2", "b")
		x := p.start("h3", "x", func(o *Options) { o.Cluster = "other" })
		p.within(3*time.Second, "own ones", func() bool { return sees("a b", a, b) })
		p.never(20*time.Second, "clusters merged", func() bool { return !sees("a b", a, b) || !sees("x", x) })
	})
}

func TestForeignIDRefused(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		with := func(id string) func(*Options) { return func(o *Options) { o.Meta.ClusterID = id } }
		var met atomic.Value
		note := func(o *Options) { o.OnForeign = func(id string) { met.Store(id) } }
		a, b := p.start("h1", "a", with("one"), note), p.start("h2", "b", with("one"))
		x, y := p.start("h3", "x", with("two")), p.start("h4", "y", with("two"), func(o *Options) { o.Seeds = []string{"h3:7000"} })
		p.within(3*time.Second, "own ones", func() bool { return sees("a b", a, b) && sees("x y", x, y) })
		p.never(20*time.Second, "clusters merged", func() bool { return !sees("a b", a, b) || !sees("x y", x, y) })
		if len(p.log.with("another cluster")) == 0 {
			t.Error("the refusal was not logged")
		}
		if id := met.Load(); id != "two" {
			t.Errorf("told of the foreign cluster %v, want two", id)
		}
		// One that belongs to no cluster yet sees both, and after it has joined one only that.
		n := p.start("h5", "n", func(o *Options) { o.Seeds = []string{"h1:7000", "h3:7000"} })
		p.within(5*time.Second, "undecided sees both", func() bool { return sees("a b n x y", n) })
		if err := n.SetMeta(Meta{ClusterID: "one", Boot: n.boot}); err != nil {
			t.Fatal(err)
		}
		if !sees("a b n", n) {
			t.Errorf("after joining cluster one it sees %q", n.view())
		}
		p.within(40*time.Second, "decided", func() bool { return sees("a b n", a, b, n) && sees("x y", x, y) })
		p.never(20*time.Second, "clusters merged", func() bool { return !sees("a b n", a, b, n) || !sees("x y", x, y) })
	})
}

func TestSeedNameIsResolvedAgain(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		var answer atomic.Value
		answer.Store([]string{})
		byName := func(o *Options) {
			o.Seeds = []string{"locks.example:7000"}
			o.Resolve = func(_ context.Context, host string) ([]string, error) {
				if host != "locks.example" {
					t.Errorf("asked for %q", host)
				}
				if a := answer.Load().([]string); len(a) > 0 {
					return a, nil
				}
				return nil, errors.New("no such host")
			}
		}
		a, b := p.start("h1", "a", byName), p.start("h2", "b", byName)
		p.never(time.Minute, "found without seeds", func() bool { return !sees("a", a) || !sees("b", b) })
		if n := len(p.log.with("can not resolve")); n == 0 || n > 2*3 {
			t.Errorf("%d log lines about a name that does not resolve for a minute, on two instances", n)
		}
		answer.Store([]string{"h9", "h1"}) // one of them is nobody
		p.within(8*time.Second, "found by name", func() bool { return sees("a b", a, b) })
		c := p.start("h3", "c", func(o *Options) { o.Seeds = nil })
		answer.Store([]string{"h3"})
		p.within(8*time.Second, "new answer is used", func() bool { return sees("a b c", a, b, c) })
	})
}

func TestKeys(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		k1, k2, k3 := []byte(strings.Repeat("1", 16)), []byte(strings.Repeat("2", 32)), []byte(strings.Repeat("3", 32))
		keys := func(k ...[]byte) func(*Options) { return func(o *Options) { o.Keys = k } }
		a, b := p.start("h1", "a", keys(k1, k2)), p.start("h2", "b", keys(k2, k1))
		x, y := p.start("h3", "x", keys(k3)), p.start("h4", "y")
		p.within(3*time.Second, "keys in common", func() bool { return sees("a b", a, b) })
		p.never(20*time.Second, "foreign key let in", func() bool { return !sees("a b", a, b) || !sees("x", x) || !sees("y", y) })
		for _, key := range [][]byte{k1, k2, k3} {
			if len(p.log.with(string(key))) > 0 {
				t.Error("a key was logged")
			}
		}
		if _, err := p.open(Options{Endpoint: a.ep, ServerID: "z", Keys: [][]byte{{1, 2, 3}}}); err == nil {
			t.Error("a key of three bytes was accepted")
		}
	})
}

func TestLossyNetwork(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		p.net.SetLoss("*", "*", 0.1)
		p.net.SetDelay("*", "*", time.Millisecond, 5*time.Millisecond)
		var nodes []*instance
		for i, id := range []string{"a", "b", "c", "d", "e"} {
			nodes = append(nodes, p.start("h"+string(rune('1'+i)), id))
		}
		p.within(30*time.Second, "views equal under 10 % loss", func() bool { return sees("a b c d e", nodes...) })
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for name, open := range forms {
		if _, err := open(Options{}); err == nil {
			t.Errorf("%s opened without anything", name)
		}
	}
}
