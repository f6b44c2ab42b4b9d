package scenario_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// leaveInVain is a Leave with an endless context that can not succeed: its node has no quorum.
func leaveInVain(t *testing.T) (n *quorumlock.Node, left chan error) {
	t.Helper()
	c := quorumlocktest.New(t, 3)
	c.Crash(1)
	c.Crash(2)
	time.Sleep(3 * time.Second)
	n, left = c.Node(0), make(chan error, 1)
	go func() { left <- n.Leave(context.Background()) }()
	time.Sleep(time.Minute)
	select {
	case err := <-left:
		t.Fatalf("it could leave: %v", err)
	default:
	}
	return n, left
}

func cutShort(t *testing.T, call string, err error) {
	t.Helper()
	if !errors.Is(err, quorumlock.ErrNoQuorum) || !strings.Contains(err.Error(), "still a member: no quorum: ") || !strings.Contains(err.Error(), "1 of 3 voters") {
		t.Errorf("%s returned %v", call, err)
	}
}

// Close takes 5 s at most, also beside a Leave whose context never ends: it cuts the removal short.
func TestCloseBesideALeaveInVain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, left := leaveInVain(t)
		endsIn(t, "close", closeBound, func() { cutShort(t, "Close", n.Close()) })
		cutShort(t, "Leave", <-left)
	})
}

// Each Leave ends with its own context, whoever called first.
func TestLeaveBesideALeaveInVain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, left := leaveInVain(t)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		endsIn(t, "leave", 10*time.Second+closeBound, func() { cutShort(t, "the second Leave", n.Leave(ctx)) })
		cutShort(t, "the first Leave", <-left)
	})
}

// Leave says that the node is gone from the group only if it is: not after a Close, which keeps the membership for a restart.
func TestLeaveAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, disks := range []bool{true, false} {
			var opts []quorumlocktest.Option
			if !disks {
				opts = append(opts, quorumlocktest.InMemory())
			}
			c := quorumlocktest.New(t, 3, opts...)
			i := c.Leader()
			n, rest := c.Node(i), c.Node(others(c, i)[0])
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			err := n.Leave(t.Context())
			if in := inGroup(t, rest, n.ID()); in != disks || in != errors.Is(err, quorumlock.ErrClosed) || in != (err != nil) {
				t.Errorf("disks %v: in the group %v, but Leave returned %v", disks, in, err)
			}
		}
	})
}
