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

// offered checks that a holder is shown as one who has given the hold away, or as one who has it.
func offered(t *testing.T, from string, h *quorumlock.Holder, want bool) {
	t.Helper()
	if h.Offered != want || strings.Contains(h.String(), "given away by ticket") != want {
		t.Errorf("%s shows %q, offered: %v, want %v", from, h, h.Offered, want)
	}
}

// seenAs checks what everybody who looks at the one holder of "k" is shown: by Inspect, by Locks, by each of them from the node's own state, by a refusal, and by a wait that ended.
func seenAs(t *testing.T, c *quorumlocktest.Cluster, i int, want bool) {
	t.Helper()
	n, ctx := c.Node(i), context.Background()
	info := lockShown(t, c, "k")
	local, err := n.Inspect(ctx, "k", quorumlock.Local())
	if err != nil || len(info.Holders) != 1 || len(local.Holders) != 1 {
		t.Fatalf("%+v, %+v, %v", info.Holders, local.Holders, err)
	}
	offered(t, "Inspect", &info.Holders[0], want)
	offered(t, "Inspect of the node's own state", &local.Holders[0], want)
	for info, err := range n.Locks(ctx, "k") {
		if err != nil || len(info.Holders) != 1 {
			t.Fatalf("%+v, %v", info.Holders, err)
		}
		offered(t, "Locks", &info.Holders[0], want)
	}
	var locked *quorumlock.LockedError
	if _, err := quorumlock.NewMutex(n, "k").TryLock(ctx); !errors.As(err, &locked) {
		t.Fatalf("try: %v", err)
	}
	offered(t, "TryLock", &locked.Holder, want)
	var wait *quorumlock.WaitError
	if _, err := quorumlock.NewMutex(n, "k", quorumlock.MaxWait(time.Second)).Lock(ctx); !errors.As(err, &wait) || wait.Holder == nil {
		t.Fatalf("lock: %v", err)
	}
	offered(t, "Lock", wait.Holder, want)
	if strings.Contains(wait.Error(), "not received yet") != want {
		t.Errorf("the error says %q", wait)
	}
}

// A ticket that got lost keeps the lock taken beyond MaxHold. Whoever looks is told so, and an operator gets the lock free, without anybody having worked under it.
func TestLostTicket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = time.Minute
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		h := asked(t, quorumlock.NewMutex(c.Node(f[0]), "k", quorumlock.MaxHold(most)).Lock).granted(time.Second)
		seenAs(t, c, f[1], false)
		give(t, h)
		time.Sleep(10 * most)
		seenAs(t, c, f[1], true)
		force(t, c.Node(f[1]), h, true)
		becomesFree(t, c, "k", time.Second)
		c.CheckState()
	})
}

// Who has kept the ticket takes the hold back, and nobody else can receive it any more. The cap counts anew from there.
func TestTicketTakenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 30 * time.Second
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		ticket := give(t, asked(t, quorumlock.NewMutex(c.Node(f[0]), "k", quorumlock.MaxHold(most)).Lock).granted(time.Second))
		time.Sleep(2 * most)
		back := receive(t, c.Node(f[0]), ticket)
		seenAs(t, c, f[1], false)
		used(t, c.Node(f[1]), ticket)
		lasts(t, back, most)
		becomesFree(t, c, "k", time.Second)
		c.CheckState()
	})
}

// lasts checks that a hold received just now ends by its cap.
func lasts(t *testing.T, h *quorumlock.Hold, most time.Duration) {
	t.Helper()
	if left := time.Until(h.Deadline()); left > most {
		t.Errorf("deadline in %v, the cap is %v", left, most)
	}
	select {
	case <-h.Done():
	case <-time.After(most + reportBound):
		t.Fatalf("held for longer than %v", most)
	}
	capped(t, h, h.Err())
}

// A ticket carries the cap of the hold that it gives away, also that of one which was downgraded; the receiver may name another, and none.
func TestTicketCarriesMaxHold(t *testing.T) {
	const most = 20 * time.Second
	for name, as := range map[string]struct {
		opts []quorumlock.LockOption
		want time.Duration // zero: no cap
	}{
		"the giver's": {want: most},
		"another":     {opts: []quorumlock.LockOption{quorumlock.MaxHold(2 * most)}, want: 2 * most},
		"none":        {opts: []quorumlock.LockOption{quorumlock.MaxHold(0)}},
	} {
		for _, downgraded := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					c := quorumlocktest.New(t, 3)
					h := asked(t, quorumlock.NewRWMutex(c.Node(0), "k", quorumlock.MaxHold(most)).Lock).granted(time.Second)
					if downgraded {
						h = asked(t, func(ctx context.Context) (*quorumlock.Hold, error) {
							return quorumlock.NewRWMutex(c.Node(0), "k").Downgrade(ctx, h)
						}).granted(time.Second)
					}
					time.Sleep(most - time.Second)
					got := receive(t, c.Node(1), give(t, h), as.opts...)
					if as.want == 0 {
						time.Sleep(3 * most)
						calm(t, got)
						unlock(t, got)
					} else {
						lasts(t, got, as.want)
					}
					becomesFree(t, c, "k", time.Second)
					c.CheckState()
				})
			})
		}
	}
}
