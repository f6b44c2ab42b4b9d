package locktable

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

var (
	commandsFlag = flag.Int("commands", 0, "random commands to compare with the model (default 200,000; 20,000 with -short, 6,000 with -race)")
	seedFlag     = flag.Uint64("seed", 0, "the one seed to compare with the model (default: as many as the commands need)")

	raceDetector bool
)

// perSeed is how many commands one table lives. It is short, so that a failing script is soon shrunk.
const perSeed = 2_000

// trialLimits alternate from seed to seed. The first are reached all the time.
var trialLimits = []limits{
	{sessions: 6, claims: 24, finished: 8, lost: 3, audit: 5, limits: 1},
	{sessions: 12, claims: 60, finished: 64, lost: 8, audit: 20, limits: 3},
	{sessions: 20, claims: 90, finished: 999, lost: 99, audit: 99, limits: 99},
}

// everyRecords is the size of a state up to which each command is followed by a restore; a state k times as large is restored at each k-th
// command, or the largest states would take all the time. Most states are smaller.
const everyRecords = 100

// TestModel compares answers, effects and state of two tables with the model: one lives on, the other is rebuilt from its snapshot after
// each command (see everyRecords). Both must have the same hash.
func TestModel(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // the states are small and short-lived
	n := *commandsFlag
	switch {
	case n == 0 && raceDetector:
		n = 6_000
	case n == 0 && testing.Short():
		n = 20_000
	case n == 0:
		n = 200_000
	}
	first, last := uint64(1), uint64((n+perSeed-1)/perSeed)
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	began, done, seen := time.Now(), 0, tally{}
	for seed := first; seed <= last; seed++ {
		script, err := explore(seed, perSeed, seen)
		if done += len(script); err != nil {
			short := shrink(script, limitsOf(seed), nil)
			t.Fatalf("seed %d, command %d (-args -seed %d): %v\n%v", seed, done, seed, err, short)
		}
	}
	t.Logf("seeds %d to %d: %d commands, %d restores, %v", first, last, done, seen["restored"], time.Since(began).Round(time.Millisecond))
	if done >= 20_000 {
		requireCoverage(t, done, seen)
	}
}

func limitsOf(seed uint64) limits { return trialLimits[seed%uint64(len(trialLimits))] }

// tally counts what came up in a run: each operation with each of its answers, and the restores.
type tally map[string]int

// explore makes up the commands of one seed while they are applied, because they depend on the answers so far. It returns them all as
// far as the first that went wrong.
func explore(seed uint64, n int, seen tally) (recording, error) {
	return newTrial(limitsOf(seed)).explore(seed, n, seen)
}

func (tr *trial) explore(seed uint64, n int, seen tally) (recording, error) {
	g := newChaos(seed)
	tr.lazy = seed%2 == 0
	var all recording
	losses := rand.New(rand.NewPCG(seed, perSeed)) // apart from the commands, which are the same with and without
	for len(all) < n {
		before := tr.restored
		c := g.command()
		if g.counter != 0 && losses.IntN(1500) == 0 {
			c = &Command{Op: opRefound, ClusterID: fmt.Sprint("r", g.index), Rev: max(0, g.counter+Rev(losses.IntN(200)-100))}
			g.spoiled[c] = true // no command that a log can have
		}
		if refused := Check(c) != nil; refused != g.spoiled[c] {
			return all, fmt.Errorf("%s: malformed %v, want %v", describe(c), refused, g.spoiled[c])
		}
		s := scripted{index: g.index, term: g.term, c: c, counter: g.counter, base: g.base(c)}
		var err error
		s.result, s.effects, err = tr.apply(s.index, s.term, c)
		all = append(all, s)
		if err != nil {
			return all, err
		}
		switch {
		case c.Op == opRefound:
			g.refounded(s.result.Rev)
			seen["refounded"]++
		case c.Op <= OpAct:
			seen[c.Op.String()+" "+s.result.Code.String()]++
		}
		seen["restored"] = seen["restored"] + tr.restored - before
		g.advance(s.result, &s.effects)
	}
	return all, nil
}

// trial is one life of the two tables beside the model.
type trial struct {
	model       *model
	table, twin *Table
	tamper      func(c *Command, r *Result)       // plants a fault in the table's answers, to see whether it is found
	plant       func(t *Table, c *Command) func() // plants one in its state around a command
	lazy        bool                              // snapshots of the table are rare, so that its trees are written in place as well
	applied     int
	restored    int
	due         int // number of the command after which the states are compared and the twin is restored
	last        Rev

	kept        *Snapshot // an old snapshot, which must not change
	keptRecords records   // what it held; the hash alone would not read every tree
}

func newTrial(l limits) *trial {
	tr := &trial{model: newModel(l), table: New(), twin: New()}
	tr.table.limits, tr.twin.limits = l, l
	return tr
}

// apply applies one command to all three and returns the table's answer, and an error if they differ in anything.
func (tr *trial) apply(index, term uint64, c *Command) (Result, Effects, error) {
	if c.Op == opRefound {
		return tr.refound(index, c)
	}
	var want, got, gotTwin Effects
	wall := int64(index)*1000 - int64(index%7)*300
	wantResult := tr.model.apply(index, term, wall, c, &want)
	after := func() {}
	if tr.plant != nil {
		after = tr.plant(tr.table, c)
	}
	r := applyLent(tr.table, index, term, wall, c, &got)
	after()
	twinResult := tr.twin.Apply(index, term, wall, c, &gotTwin)
	if tr.tamper != nil {
		tr.tamper(c, &r)
	}
	tr.applied++
	err := cmp.Or(
		sameAnswer("the table", r, got, wantResult, want),
		sameAnswer("the table restored before", twinResult, gotTwin, wantResult, want),
		tr.checkRevisions(got.Events),
		tr.checkState(),
		tr.checkReads(c),
	)
	if err != nil {
		err = fmt.Errorf("%s: %w", describe(c), err)
	}
	return r, got, err
}

// applyLent takes the Names slice back after the call, as a caller with one buffer for all commands does.
func applyLent(table *Table, index, term uint64, wall int64, c *Command, eff *Effects) Result {
	lent := *c
	lent.Names = slices.Clone(c.Names)
	r := table.Apply(index, term, wall, &lent, eff)
	for i := range lent.Names {
		lent.Names[i] = "overwritten"
	}
	return r
}

func sameAnswer(who string, got Result, gotEff Effects, want Result, wantEff Effects) error {
	if len(got.Lost) == 0 && len(want.Lost) == 0 {
		got.Lost, want.Lost = nil, nil
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("answer of %s\n got %+v\nwant %+v", who, got, want)
	}
	if !reflect.DeepEqual(gotEff, wantEff) {
		return fmt.Errorf("effects in %s\n got %+v\nwant %+v", who, gotEff, wantEff)
	}
	return nil
}

// checkRevisions: from event to event they rise by one.
func (tr *trial) checkRevisions(events []Event) error {
	for _, e := range events {
		if tr.last != 0 && e.Rev != tr.last+1 {
			return fmt.Errorf("event revision %d after %d", e.Rev, tr.last)
		}
		tr.last = e.Rev
	}
	return nil
}

// checkState restores the twin and compares all that can be seen of the states.
func (tr *trial) checkState() error {
	if tr.applied < tr.due {
		return nil
	}
	r := recordsOf(tr.twin.Snapshot())
	tr.due = tr.applied + 1 + (len(r.claims)+len(r.finished)+len(r.lost))/everyRecords
	if err := sameRecords(r, tr.model.records()); err != nil {
		return err
	}
	next, err := rebuild(r)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	next.limits = tr.twin.limits
	tr.twin = next
	tr.restored++
	if tr.lazy && tr.restored%32 != 0 {
		return nil
	}
	return tr.checkTable()
}

// checkTable compares the table that lives on with the one just restored.
func (tr *trial) checkTable() error {
	snap := tr.table.Snapshot()
	if snap.Hash() != tr.twin.Snapshot().Hash() {
		return errors.New("the hash changed by a restore")
	}
	if tr.restored%8 != 0 {
		return nil
	}
	if tr.kept != nil {
		if err := sameRecords(recordsOf(tr.kept), tr.keptRecords); err != nil {
			return fmt.Errorf("an old snapshot changed: %w", err)
		}
	}
	tr.kept, tr.keptRecords = snap, recordsOf(snap)
	return cmp.Or(checkInvariants(tr.table), checkInvariants(tr.twin))
}

// checkReads compares the reads that are no commands, about the command's own session and names.
func (tr *trial) checkReads(c *Command) error {
	token, held := tr.table.GrantOf(c.Session, c.Seq)
	wantToken, wantHeld := tr.model.grantOf(c.Session, c.Seq)
	if token != wantToken || held != wantHeld {
		return fmt.Errorf("GrantOf: %d %v, want %d %v", token, held, wantToken, wantHeld)
	}
	prefix, after := "", ""
	if len(c.Names) > 0 {
		prefix, after = c.Names[0][:len(c.Names[0])/2], c.Names[len(c.Names)-1]
	}
	limit := 1 + tr.applied%4
	return cmp.Or(
		same("names", tr.table.Names(prefix, after, limit), tr.model.names(prefix, after, limit)),
		same("drains", slices.Collect(tr.table.Drains()), tr.model.drains()),
	)
}
