package quorumlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/transport"
)

// otherNode is a node of some version as a renewCaller meets it.
type otherNode struct {
	refuses error // what it answers to one call for many
	status  wire.Status
	err     error

	mu       sync.Mutex
	together int
	alone    []locktable.SessionID
}

func (o *otherNode) caller() *renewCaller {
	return &renewCaller{old: map[string]time.Time{},
		together: func(_ context.Context, _ router.Peer, req wire.RenewRequest) (wire.RenewReply, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.together++
			return wire.RenewReply{Status: wire.StatusDone, Results: make([]locktable.Result, len(req.Renewals))}, o.refuses
		},
		alone: func(_ context.Context, _ router.Peer, req wire.ProposeRequest) (wire.ProposeReply, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.alone = append(o.alone, req.Command.Session)
			if req.Command.Session == 2 && o.status != 0 {
				return wire.ProposeReply{Status: o.status, LeaderID: "n3"}, nil
			}
			if req.Command.Session == 2 && o.err != nil {
				return wire.ProposeReply{}, o.err
			}
			return wire.ProposeReply{Status: wire.StatusDone, Result: locktable.Result{Session: req.Command.Session, Renewed: true}}, nil
		},
	}
}

var threeRenewals = wire.RenewRequest{Hops: 1, Timeout: time.Second, Renewals: []wire.Renewal{{Session: 1}, {Session: 2, Since: 20}, {Session: 3}}}

// A node of an older version, which does not know renewals of many sessions in one call, is asked one by one, and after a while whether it knows them now.
func TestOlderNodeIsAskedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &otherNode{refuses: &transport.RemoteError{Text: "method 13 is not known"}}
		c, old := o.caller(), router.Peer{ID: "n2"}
		call := func() {
			t.Helper()
			reply, err := c.call(t.Context(), old, threeRenewals)
			if err != nil || reply.Status != wire.StatusDone || len(reply.Results) != 3 {
				t.Fatalf("%+v, %v", reply, err)
			}
			for i, res := range reply.Results {
				if res.Session != threeRenewals.Renewals[i].Session || !res.Renewed {
					t.Errorf("renewal %d has the result of session %d", i, res.Session)
				}
			}
			slices.Sort(o.alone)
			if !slices.Equal(o.alone, []locktable.SessionID{1, 2, 3}) {
				t.Errorf("asked for %v", o.alone)
			}
			o.alone = nil
		}
		call()
		time.Sleep(oldFor - time.Second)
		call()
		if o.together != 1 {
			t.Errorf("asked %d times whether it knows such calls", o.together)
		}
		time.Sleep(time.Second)
		call()
		if o.together != 2 {
			t.Errorf("asked %d times whether it knows such calls, want again after %v", o.together, oldFor)
		}
		o.refuses = nil // upgraded
		time.Sleep(oldFor)
		if _, err := c.call(t.Context(), old, threeRenewals); err != nil || len(o.alone) > 0 {
			t.Errorf("%v; one by one: %v", err, o.alone)
		}
	})
}

// Only an answer says that a node is old. One that is not reached, or silent, is not asked a thousand times more.
func TestUnreachedNodeIsNotAskedOneByOne(t *testing.T) {
	for _, err := range []error{&transport.DialError{Err: errors.New("refused")}, &transport.UnknownError{Err: context.DeadlineExceeded}} {
		o := &otherNode{refuses: err}
		c := o.caller()
		for range 2 {
			if _, got := c.call(t.Context(), router.Peer{ID: "n2"}, threeRenewals); got != err {
				t.Errorf("%v, want %v", got, err)
			}
		}
		if o.together != 2 || len(o.alone) > 0 {
			t.Errorf("after %v asked %d times, one by one: %v", err, o.together, o.alone)
		}
	}
}

// One by one too, nothing is called done that is not.
func TestOneByOneIsDoneWhenAllAre(t *testing.T) {
	refuses := &transport.RemoteError{Text: "method 13 is not known"}
	c := (&otherNode{refuses: refuses, status: wire.StatusNotLeader}).caller()
	if reply, err := c.call(t.Context(), router.Peer{ID: "n2"}, threeRenewals); err != nil || reply.Status != wire.StatusNotLeader || reply.LeaderID != "n3" || reply.Results != nil {
		t.Errorf("%+v, %v", reply, err)
	}
	lost := &transport.UnknownError{Err: context.DeadlineExceeded}
	c = (&otherNode{refuses: refuses, err: lost}).caller()
	if reply, err := c.call(t.Context(), router.Peer{ID: "n2"}, threeRenewals); err != lost || reply.Results != nil {
		t.Errorf("%+v, %v", reply, err)
	}
}
