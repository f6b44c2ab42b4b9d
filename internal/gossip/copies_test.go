//go:build !wasip1

package gossip

import (
	"slices"
	"testing"
	"time"
)

func TestCopiedDataDirectory(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a, _, c := p.three()
		copied := p.start("h4", "c")
		want := [3]string{"c", "h3:7000", "h4:7000"}
		p.within(3*time.Second, "both processes learn of it", func() bool {
			return slices.Contains(c.told(), want) && slices.Contains(copied.told(), want)
		})
		time.Sleep(20 * time.Second)
		for _, n := range []*instance{a, c, copied} {
			if got := n.told(); len(got) > 1 {
				t.Errorf("%s at %s was told %d times: %v", n.id, n.host, len(got), got)
			}
		}
		if len(p.log.with("copied")) == 0 {
			t.Error("nothing logged")
		}
	})
}

// TestAllBelieveInTheOriginal: while a copy lives, whichever of the two a member met first, and after the copy's gossip has fallen silent without a word.
func TestAllBelieveInTheOriginal(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a, b, c := p.three()
		copied := p.start("h4", "c")
		believed := func(nodes ...*instance) func() bool {
			return func() bool {
				return !slices.ContainsFunc(nodes, func(n *instance) bool { return !n.seesAt("c", "h3:7000") })
			}
		}
		p.within(3*time.Second, "both processes learn of it", func() bool { return len(c.told()) > 0 && len(copied.told()) > 0 })
		p.within(2*time.Second, "the original is believed", believed(a, b))
		p.never(40*time.Second, "the copy was believed", func() bool { return !believed(a, b)() })
		// A newcomer that knows nobody but the copy.
		d := p.start("h5", "d", func(o *Options) { o.Seeds = []string{"h4:7000"} })
		p.within(20*time.Second, "a newcomer believes in the original", believed(d))
		p.never(20*time.Second, "the copy was believed", func() bool { return !believed(a, b, d)() })
		if err := copied.Close(); err != nil { // its address stays, as it does when a host keeps the process
			t.Fatal(err)
		}
		p.never(40*time.Second, "the silence was taken for the original's", func() bool { return !believed(a, b, d)() || !sees("a b c d", a, b, d) })
	})
}

// TestACopyThatIsGoneAgain: nobody has to wait for the copy's death to be noticed, even if it came and went before all had asked it.
func TestACopyThatIsGoneAgain(t *testing.T) {
	for _, after := range []time.Duration{0, 20 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			eachForm(t, func(t *testing.T, p *pool) {
				a, b, _ := p.three()
				for range 3 {
					copied := p.start("h4", "c")
					time.Sleep(after)
					p.kill(copied)
				}
				time.Sleep(2500 * time.Millisecond) // a question goes out once a second
				p.never(40*time.Second, "the copy was believed", func() bool {
					return !a.seesAt("c", "h3:7000") || !b.seesAt("c", "h3:7000")
				})
			})
		})
	}
}

// TestTheCopyThatIsMetFirst: the original cannot be reached when the copy comes, so all take the copy for its successor, until the original is back.
func TestTheCopyThatIsMetFirst(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		a, b, c := p.three()
		p.net.Isolate("h3")
		p.within(15*time.Second, "gone", func() bool { return sees("a b", a, b) })
		copied := p.start("h4", "c")
		p.within(5*time.Second, "the copy is taken for its successor", func() bool { return a.seesAt("c", "h4:7000") && b.seesAt("c", "h4:7000") })
		p.net.HealAll()
		p.within(20*time.Second, "the original is believed", func() bool { return a.seesAt("c", "h3:7000") && b.seesAt("c", "h3:7000") })
		want := [3]string{"c", "h3:7000", "h4:7000"}
		p.within(5*time.Second, "both are told", func() bool { return slices.Contains(c.told(), want) && slices.Contains(copied.told(), want) })
		if err := copied.Close(); err != nil {
			t.Fatal(err)
		}
		p.never(40*time.Second, "the copy was believed", func() bool { return !a.seesAt("c", "h3:7000") || !b.seesAt("c", "h3:7000") })
	})
}

// TestStartedOverrulesTheClock: on a machine whose clock is behind, a copy does not pass for the original.
func TestStartedOverrulesTheClock(t *testing.T) {
	eachForm(t, func(t *testing.T, p *pool) {
		later := time.Now().Add(time.Hour)
		a, b := p.start("h1", "a"), p.start("h2", "b")
		c := p.start("h3", "c", func(o *Options) { o.Started = later })
		copied := p.start("h4", "c", func(o *Options) { o.Started = later.Add(time.Millisecond) })
		time.Sleep(time.Second)
		third := p.start("h5", "d")
		want := [3]string{"c", "h3:7000", "h4:7000"}
		p.within(5*time.Second, "both are told", func() bool { return slices.Contains(c.told(), want) && slices.Contains(copied.told(), want) })
		p.within(5*time.Second, "the original is believed", func() bool {
			return a.seesAt("c", "h3:7000") && b.seesAt("c", "h3:7000") && third.seesAt("c", "h3:7000")
		})
	})
}
