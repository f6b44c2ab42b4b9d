package locktable

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// restored is the table rebuilt from the records of its snapshot.
func restored(t testing.TB, table *Table) *Table {
	t.Helper()
	next, err := rebuild(recordsOf(table.Snapshot()))
	if err != nil {
		t.Fatal(err)
	}
	next.limits = table.limits
	return next
}

// records are a snapshot in the hand, to be tampered with.
type records struct {
	header   Header
	sessions []SessionRecord
	claims   []ClaimRecord
	finished []FinishedRecord
	lost     []LostRecord
	audit    []AuditRecord
	limits   []LimitRecord
}

func recordsOf(s *Snapshot) records {
	return records{
		s.Header(), slices.Collect(s.Sessions()), slices.Collect(s.Claims()), slices.Collect(s.Finished()), slices.Collect(s.Lost()),
		slices.Collect(s.Audit()), slices.Collect(s.Limits()),
	}
}

func rebuild(r records) (*Table, error) {
	b := NewBuilder(r.header)
	addAll(r.sessions, b.Session)
	addAll(r.claims, b.Claim)
	addAll(r.finished, b.Finished)
	addAll(r.lost, b.Lost)
	addAll(r.audit, b.Audit)
	addAll(r.limits, b.Limit)
	return b.Table()
}

// addAll ignores the errors: a Builder that failed once stays failed, and Table tells.
func addAll[T any](records []T, add func(T) error) {
	for _, r := range records {
		_ = add(r)
	}
}

// records are the model's state as a snapshot carries it.
func (m *model) records() records {
	r := records{audit: m.audit}
	for _, s := range m.sessions {
		r.sessions = append(r.sessions, s.SessionRecord)
		for _, f := range s.finished {
			r.finished = append(r.finished, f)
		}
		for _, l := range s.lost {
			r.lost = append(r.lost, LostRecord{s.ID, l})
		}
	}
	for _, c := range m.claims {
		r.claims = append(r.claims, *c)
	}
	slices.SortFunc(r.sessions, func(a, b SessionRecord) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(r.claims, func(a, b ClaimRecord) int {
		return cmp.Or(cmp.Compare(a.Names[0], b.Names[0]), cmp.Compare(a.Pos, b.Pos))
	})
	slices.SortFunc(r.finished, func(a, b FinishedRecord) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Seq, b.Seq))
	})
	slices.SortFunc(r.lost, func(a, b LostRecord) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Lost.Rev, b.Lost.Rev))
	})
	for _, sem := range m.semaphores {
		r.limits = append(r.limits, *sem)
	}
	slices.SortFunc(r.limits, func(a, b LimitRecord) int { return cmp.Compare(a.Name, b.Name) })
	r.header = Header{
		m.cluster, m.counter, m.index, m.level, m.maxTTL, m.quarantine, len(r.sessions), len(r.claims), len(r.finished), len(r.lost), len(r.audit), len(r.limits),
	}
	return r
}

// sameRecords holds all records of a table against the model's.
func sameRecords(got, want records) error {
	if got.header != want.header {
		return fmt.Errorf("header\n got %+v\nwant %+v", got.header, want.header)
	}
	return cmp.Or(
		same("sessions", got.sessions, want.sessions),
		same("claims", got.claims, want.claims),
		same("finished", got.finished, want.finished),
		same("lost", got.lost, want.lost),
		same("audit", got.audit, want.audit),
		same("limits", got.limits, want.limits),
	)
}

// same compares two values of which an absent list and an empty one are the same.
func same[T any](what string, got, want []T) error {
	if len(got) == 0 && len(want) == 0 || reflect.DeepEqual(got, want) {
		return nil
	}
	return fmt.Errorf("%s\n got %+v\nwant %+v", what, got, want)
}
