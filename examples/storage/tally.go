//go:build unix

package main

import (
	"errors"
	"fmt"
	"strings"
)

// acknowledged are the entries that the service said to have written to one ledger. Each is unique.
type acknowledged []string

// tally is what became of all jobs, by what the workers were told.
type tally struct {
	fenced, unfenced acknowledged
	refused          int
}

func (t *tally) add(results []jobResult) {
	for _, r := range results {
		t.unfenced = append(t.unfenced, r.Entry) // which refuses nobody
		if r.Refused != nil {
			t.refused++
			continue
		}
		t.fenced = append(t.fenced, r.Entry)
	}
}

// lost counts the entries that the ledger does not have: each an update that a later write has undone.
func (a acknowledged) lost(lines map[string]int) (n int) {
	for _, entry := range a {
		if lines[entry] == 0 {
			n++
		}
	}
	return n
}

// checkNoMore is an error if the ledger has an entry twice, or one that was not acknowledged.
func (a acknowledged) checkNoMore(lines map[string]int) error {
	known := make(map[string]bool, len(a))
	for _, entry := range a {
		known[entry] = true
	}
	var errs []error
	for entry, n := range lines {
		if n > 1 || !known[entry] {
			errs = append(errs, fmt.Errorf("the ledger has %q %d times; acknowledged: %v", entry, n, known[entry]))
		}
	}
	return errors.Join(errs...)
}

func lines(ledger []byte) map[string]int {
	count := make(map[string]int)
	for line := range strings.Lines(string(ledger)) {
		count[strings.TrimSuffix(line, "\n")]++
	}
	return count
}

// verdict is what a run has come to.
type verdict struct {
	refused                  int // stale writes, by the fence
	lostFenced, lostUnfenced int // acknowledged updates
}

// compare counts what is lost. A ledger that has more than was acknowledged is an error.
func (t *tally) compare(fencedLedger, unfencedLedger []byte) (verdict, error) {
	in, out := lines(fencedLedger), lines(unfencedLedger)
	v := verdict{refused: t.refused, lostFenced: t.fenced.lost(in), lostUnfenced: t.unfenced.lost(out)}
	return v, errors.Join(t.fenced.checkNoMore(in), t.unfenced.checkNoMore(out))
}

// check is nil if the fence kept everything, and the same faults without it did not.
func (v verdict) check() error {
	var errs []error
	if v.lostFenced > 0 {
		errs = append(errs, fmt.Errorf("%d updates were lost behind the fence", v.lostFenced))
	}
	if v.refused < 1 {
		errs = append(errs, errors.New("no stale write was refused, so nothing is shown"))
	}
	if v.lostUnfenced < 1 {
		errs = append(errs, errors.New("nothing was lost without the fence, so nothing is shown"))
	}
	return errors.Join(errs...)
}

func (v verdict) String() string {
	return fmt.Sprintf("ok: stale writes refused %d, lost updates %d (unfenced control: %d)", v.refused, v.lostFenced, v.lostUnfenced)
}
