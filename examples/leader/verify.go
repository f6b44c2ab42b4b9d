package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// checkAcknowledged compares what instances were told with what the ledger has: an accepted write must not be lost.
func (d *demo) checkAcknowledged(ctx context.Context, procs []*process) error {
	for _, p := range procs {
		var own []result
		if err := p.get(ctx, "/results", &own); err != nil {
			if d.keep {
				continue // somebody has stopped it by hand
			}
			return err
		}
		v := d.ledger.view()
		for _, r := range own {
			if have := v.accepted(r.Token); have < r.Accepted {
				return fmt.Errorf("%s was told that %d writes under token %v were accepted; the ledger has %d",
					p.name, r.Accepted, r.Token, have)
			}
		}
	}
	return nil
}

// verify looks at the whole story once more, in the ledger alone.
func (d *demo) verify() error {
	v := d.ledger.view()
	problems := slices.Clone(v.faults)
	for i, e := range v.entries {
		if e.Index != i+1 {
			problems = append(problems, fmt.Errorf("accepted write %d is lost: %d stands in its place", i+1, e.Index))
		}
		if i > 0 && e.Token < v.entries[i-1].Token {
			problems = append(problems, fmt.Errorf("stale write accepted: token %v after %v", e.Token, v.entries[i-1].Token))
		}
	}
	for _, r := range v.refused {
		// Who was paused had written before. A token that is stale when it is first used was granted too low.
		if v.accepted(r.Token) == 0 && !d.keep {
			problems = append(problems, fmt.Errorf("token not rising: %s got %v after %v", r.Instance, r.Token, r.Highest))
		}
	}
	return errors.Join(problems...)
}
