package wire

import (
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// A renewal in a message is the command that its node would have sent alone.
func TestRenewalIsACommand(t *testing.T) {
	v := Renewal{Session: goldenSession, Since: goldenRev}
	c := v.Command()
	if c.Op != locktable.OpRenew || c.Session != v.Session || c.Since != v.Since {
		t.Errorf("%+v", c)
	}
	if err := locktable.Check(&c); err != nil {
		t.Error(err)
	}
}

// As many as may be in one message are read; one more is refused, in both directions.
func TestMaxRenewals(t *testing.T) {
	for n, want := range map[int]error{MaxRenewals: nil, MaxRenewals + 1: ErrMalformed} {
		request := RenewRequest{Renewals: make([]Renewal, n)}
		if m, err := DecodeRenewRequest(AppendRenewRequest(nil, &request)); !errors.Is(err, want) || err == nil && len(m.Renewals) != n {
			t.Errorf("request for %d: %d, %v", n, len(m.Renewals), err)
		}
		reply := RenewReply{Status: StatusDone, Results: make([]locktable.Result, n)}
		if m, err := DecodeRenewReply(AppendRenewReply(nil, &reply)); !errors.Is(err, want) || err == nil && len(m.Results) != n {
			t.Errorf("reply of %d: %d, %v", n, len(m.Results), err)
		}
	}
}
