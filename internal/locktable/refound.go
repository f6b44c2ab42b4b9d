package locktable

import (
	"errors"
	"fmt"
	"time"
)

// Refounding makes of the state of one cluster the first state of another: after the loss of a majority, and from a backup.
type Refounding struct {
	ClusterID string // of the new cluster
	// Counter is at least the highest token that was ever granted, known to this state or not. The new counter is at least this
	// one, and the state's own.
	Counter Rev
	Index   uint64 // log index of the new state, at least that of the state refounded
}

// Those who held a lock before stop believing in it 0.8 TTL after their last answer by their own clocks, whose rates differ from
// ours by less than 1.25: see DESIGN.md, section 5. The margin is for what is between the last look of a holder at its clock and
// what it does then.
const quarantineMargin = 5 * time.Second

// Refounded is the first state of the new cluster. Nobody holds or waits for anything in it: sessions, claims, and what was
// remembered of them are gone, since the state may lack what was acknowledged after it. What was decided for good stays: the
// limits of semaphores that a command set, the audit records, the feature level. The counter is raised, so that every new token
// exceeds every old one. Then there is a quarantine, for nobody tells the old holders anything: 1.25 times the longest TTL and a
// margin, and the longest lock delay that was wanted after a hold, since all holds end here against their holders' will.
func (s *Snapshot) Refounded(r Refounding) (*Table, error) {
	h := s.Header()
	switch {
	case h.ClusterID == "":
		return nil, errors.New("refound: the state is of no cluster")
	case r.ClusterID == "" || r.ClusterID == h.ClusterID:
		return nil, fmt.Errorf("refound: %q is not the id of another cluster", r.ClusterID)
	case r.Counter < 0 || r.Counter > maxFirstRev:
		return nil, fmt.Errorf("refound: counter %d is out of range", r.Counter)
	case r.Index < h.Index:
		return nil, fmt.Errorf("refound: index %d is before the state's own, %d", r.Index, h.Index)
	}
	quarantine := Quarantine{Rev: max(h.Counter, r.Counter) + 1, Index: r.Index, Wait: s.quarantineWait()}
	limits := s.limitRecordsSet()
	b := NewBuilder(Header{
		ClusterID: r.ClusterID, Counter: quarantine.Rev, Index: r.Index, Level: h.Level, MaxTTL: h.MaxTTL, Quarantine: quarantine,
		Audit: h.Audit, Limits: len(limits),
	})
	for a := range s.Audit() {
		_ = b.Audit(a) // the builder keeps its first error
	}
	for _, l := range limits {
		_ = b.Limit(l)
	}
	t, err := b.Table()
	if err != nil {
		return nil, fmt.Errorf("refound: %w", err)
	}
	return t, nil
}

// quarantineWait counts the delays of holds and of those that have ended already. A quarantine that goes on was made for such
// delays, too, and starts anew.
func (s *Snapshot) quarantineWait() time.Duration {
	var longest time.Duration
	for c := range s.Claims() {
		if c.Grant != 0 {
			longest = max(longest, c.Delay)
		}
	}
	return max(s.maxTTL+s.maxTTL/4+quarantineMargin+longest, s.quarantine.Wait)
}

func (s *Snapshot) limitRecordsSet() []LimitRecord {
	var set []LimitRecord
	for l := range s.Limits() {
		if l.Set {
			set = append(set, l)
		}
	}
	return set
}

func (q Quarantine) drain() Drain { return Drain{Grant: q.Rev, Wait: q.Wait, Index: q.Index} }

func (x *step) endQuarantine(c *Command) Result {
	if c.Term != x.term || c.RenewIndex != x.quarantine.Index {
		return Result{Code: CodeStale}
	}
	x.eff.Drains = append(x.eff.Drains, Drain{Grant: x.quarantine.Rev, Wait: x.quarantine.Wait})
	x.quarantine = Quarantine{}
	return Result{Code: CodeOK}
}
