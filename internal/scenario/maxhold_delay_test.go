package scenario_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// The cap of a hold ends it against its holder's will. The next one waits for the lock delay unless the callback has returned by then: whoever locked without one has not said that the
// work is over, and a callback that outlasts its wait works on.
func TestDelayAfterMaxHold(t *testing.T) {
	const most, waits = 10 * time.Second, quorumTTL * 4 / 5
	for name, as := range map[string]struct {
		workOn  time.Duration // after the end of its context; negative: there is no callback
		delayed bool
		after   time.Duration // the cap, until the release is asked for
	}{
		"no callback":     {workOn: -1, delayed: true},
		"returns at once": {},
		"returns late":    {workOn: 3 * time.Second, after: 3 * time.Second},
		"is stuck":        {workOn: time.Minute, delayed: true, after: waits},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := quorumlocktest.New(t, 3)
				_, f := roles(c)
				m := quorumlock.NewMutex(c.Node(f[0]), "k", quorumlock.MaxHold(most), quorumlock.Delay(lockDelay))
				result := make(chan error, 1)
				start := time.Now()
				go func() { result <- holdOn(m, as.workOn) }()
				time.Sleep(100 * time.Millisecond)
				next := waitQueued(t, c, c.Node(f[1]), "k", 1)
				least := most + as.after
				if as.delayed {
					time.Sleep(time.Until(start.Add(least + time.Second)))
					if info := lockShown(t, c, "k"); len(info.Holders) != 1 || !info.Holders[0].Barred {
						t.Errorf("during the delay: %+v", info.Holders)
					}
					least += lockDelay
				}
				next.granted(2 * time.Minute)
				if took := next.at.Sub(start); took < least || took > least+2*time.Second {
					t.Errorf("granted after %v, want %v", took, least)
				}
				unlock(t, next.hold)
				if err := <-result; !errors.Is(err, quorumlock.ErrLost) {
					t.Errorf("the holder was told %v", err)
				}
				becomesFree(t, c, "k", time.Second)
				c.CheckState()
			})
		})
	}
}

// holdOn holds a lock beyond its cap, in a callback that works on after the end of its context, or without one.
func holdOn(m *quorumlock.Mutex, workOn time.Duration) error {
	if workOn >= 0 {
		return m.Do(context.Background(), func(ctx context.Context, _ quorumlock.Token) error {
			<-ctx.Done()
			time.Sleep(workOn)
			return nil
		})
	}
	h, err := m.Lock(context.Background())
	if err != nil {
		return err
	}
	<-h.Done()
	return h.Unlock()
}
