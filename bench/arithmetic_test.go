//go:build unix

package main

import (
	"errors"
	"testing"
	"time"
)

func at(ms int) instant { return instant(time.Duration(ms) * time.Millisecond) }

func TestInTurn(t *testing.T) {
	sorted, err := inTurn([]grant{{Client: 2, Granted: at(30), Released: at(40)}, {Client: 1, Granted: at(10), Released: at(30)}})
	if err != nil || sorted[0].Client != 1 {
		t.Errorf("%v, %v", sorted, err)
	}
	_, err = inTurn([]grant{{Client: 1, Granted: at(10), Released: at(30)}, {Client: 2, Granted: at(29), Released: at(40)}})
	if !errors.Is(err, errOverlap) {
		t.Errorf("an overlap was taken for %v", err)
	}
}

func TestTurns(t *testing.T) {
	for name, c := range map[string]struct {
		grants      []grant
		again, late float64
	}{
		"in order": {[]grant{{Client: 1, Asked: at(0)}, {Client: 2, Asked: at(60)}, {Client: 3, Asked: at(120)}}, 0, 0},
		"again":    {[]grant{{Client: 1, Asked: at(0)}, {Client: 1, Asked: at(1)}, {Client: 2, Asked: at(2)}}, 50, 0},
		// The first had begun 51 ms after the second, who waited meanwhile.
		"overtaken":       {[]grant{{Client: 1, Asked: at(51)}, {Client: 2, Asked: at(0)}}, 0, 50},
		"about as early":  {[]grant{{Client: 1, Asked: at(50)}, {Client: 2, Asked: at(0)}}, 0, 0},
		"by two in a row": {[]grant{{Client: 1, Asked: at(100)}, {Client: 2, Asked: at(100)}, {Client: 3, Asked: at(99)}, {Client: 4, Asked: at(0)}}, 0, 75},
	} {
		again, late := turns(c.grants)
		if again != c.again || late != c.late {
			t.Errorf("%s: %v %% again, %v %% late", name, again, late)
		}
	}
}

func TestOutage(t *testing.T) {
	granted := func(ms ...int) (list []grant) {
		for _, m := range ms {
			list = append(list, grant{Granted: at(m)})
		}
		return list
	}
	for name, c := range map[string]struct {
		grants []grant
		want   time.Duration
	}{
		"a pause from the kill on":        {granted(98, 99, 1100, 1101), time.Second},
		"what was decided at the kill":    {granted(99, 101, 103, 1100, 1101), time.Second},
		"unsorted, of several":            {granted(1100, 99, 1102, 103), time.Second},
		"a short pause before a long one": {granted(99, 300, 1600, 1601), 1500 * time.Millisecond},
	} {
		if got, err := outage(c.grants, at(100)); got != c.want || err != nil {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	for name, grants := range map[string][]grant{"none after": granted(1, 2), "none before": granted(101, 102)} {
		if d, err := outage(grants, at(100)); err == nil {
			t.Errorf("%s: %v", name, d)
		}
	}
}

func TestShareOf(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 64, 256, 2001} {
		sum, least, most := 0, n, 0
		for i := range workers {
			share := shareOf(n, i)
			sum, least, most = sum+share, min(least, share), max(most, share)
		}
		if sum != n || most-least > 1 {
			t.Errorf("of %d: sum %d, from %d to %d", n, sum, least, most)
		}
	}
}

func TestHistogram(t *testing.T) {
	a, b := newHistogram(), newHistogram()
	for i := range 99 {
		a.record(time.Duration(i+1) * time.Millisecond)
	}
	b.record(time.Hour) // beyond the range
	encoded, err := b.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.merge(encoded); err != nil {
		t.Fatal(err)
	}
	if err := a.merge(nil); err != nil { // of a worker without clients
		t.Fatal(err)
	}
	if a.count() != 100 {
		t.Errorf("%d values", a.count())
	}
	if p := a.quantile(50); p < 49.9 || p > 50.1 {
		t.Errorf("p50 %v ms", p)
	}
	if p := a.quantile(100); p < 119e3 || p > 121e3 {
		t.Errorf("most %v ms", p)
	}
	if err := a.merge([]byte("no histogram")); err == nil {
		t.Error("took anything")
	}
}
