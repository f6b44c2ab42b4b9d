package wal

import (
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
)

var walks = flag.Int("walks", 500, "how many walks of crashes")

// crashes is what a walk of crashes has met.
type crashes struct {
	all      int
	torn     int // the end of a batch was found cut
	survived int // a write that was not answered was there all the same
	lost     int // it was not
	opening  int // in Open
	failed   int // after an error of the disk
}

// TestCrashAnywhere lets the machine or the process die in any step of any write and of any Open, again and again on what the
// crash before has left. What was answered is there, what was not answered is there or not, from its beginning, and what Open has
// shown once is never lost.
func TestCrashAnywhere(t *testing.T) {
	var c crashes
	seeds := *walks
	for seed := range uint64(seeds) {
		c.walk(t, seed)
	}
	t.Logf("%+v", c)
	if c.torn < seeds/10 || c.survived < seeds/10 || c.lost < seeds/10 || c.opening < seeds/10 || c.failed < seeds/10 {
		t.Errorf("some kind of crash hardly ever happened: %+v", c)
	}
}

func (c *crashes) walk(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	fs := newSimFS()
	l, sure := mustCreate(t, fs, testOptions), model{}
	for range 6 {
		fs.stopAt = fs.steps + 1 + rng.IntN(60)
		if rng.IntN(4) == 0 {
			failing := fs.stopAt
			fs.stopAt, fs.fail = 0, func(string, string) error {
				if fs.steps == failing {
					return errDisk
				}
				return nil
			}
		}
		possible := []model{sure}
		for err := error(nil); err == nil; {
			a := randomAct(rng, sure)
			if err = a.do(l); err == nil {
				sure = a.ends[len(a.ends)-1]
				possible = []model{sure}
			} else {
				possible = append(possible, a.ends...)
				c.checkDeath(t, seed, l, err)
			}
		}
		fs = c.reopen(t, seed, rng, fs, possible, &l)
		at := slices.IndexFunc(possible, func(m model) bool { return m.diff(l) == "" })
		if at < 0 {
			t.Fatalf("seed %d: after a crash none of %d states: %s", seed, len(possible), possible[0].diff(l))
		}
		sure = possible[at]
		if at == 0 {
			c.lost++
		} else {
			c.survived++
		}
	}
	_ = l.Close()
}

var errDisk = errors.New("input/output error")

// checkDeath: after its first failure a log takes nothing more.
func (c *crashes) checkDeath(t *testing.T, seed uint64, l *Log, err error) {
	if errors.Is(err, errDisk) {
		c.failed++
	} else if !errors.Is(err, errDead) {
		t.Fatalf("seed %d: %v", seed, err)
	}
	first, last := l.Bounds()
	if again := l.Append(last+1, [][]byte{{1}}); again == nil {
		t.Fatalf("seed %d: a log that has failed takes an entry", seed)
	}
	if f, n := l.Bounds(); f != first || n != last {
		t.Fatalf("seed %d: a log that has failed grows", seed)
	}
	_ = l.Close()
}

// reopen opens what a crash leaves, through further crashes in Open.
func (c *crashes) reopen(t *testing.T, seed uint64, rng *rand.Rand, fs *simFS, possible []model, l **Log) *simFS {
	for {
		c.all++
		fs = fs.crash(rng, loss(rng.IntN(3)))
		c.look(fs)
		if rng.IntN(3) == 0 {
			fs.stopAt = 1 + rng.IntN(12)
		}
		var err error
		if *l, err = Open(fs, testOptions); err == nil {
			break
		}
		if !errors.Is(err, errDead) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		c.opening++
	}
	fs.stopAt = 0
	fs.dead = false
	shown := slices.IndexFunc(possible, func(m model) bool { return m.diff(*l) == "" })
	if shown < 0 {
		return fs // the caller reports it
	}
	later, err := Open(fs.crash(rng, loseAll), testOptions)
	if err != nil {
		t.Fatalf("seed %d: after Open and a crash: %v", seed, err)
	}
	if d := possible[shown].diff(later); d != "" {
		t.Fatalf("seed %d: a crash took what Open had shown: %s", seed, d)
	}
	_ = later.Close()
	return fs
}

// look counts the logs that end in a cut batch.
func (c *crashes) look(fs *simFS) {
	l := &Log{fs: fs.clone(), sectors: testOptions.sectors(), inline: true}
	numbers, _, err := l.list()
	if err != nil {
		return
	}
	if torn, err := l.replay(numbers); err == nil && torn > 0 {
		c.torn++
	}
	_ = l.Close()
}
