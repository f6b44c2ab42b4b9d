package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// quarantinePause is between two attempts of a claim in a quarantine, which lasts for more than a minute. The cluster keeps
// nothing of such a claim, so that a state in quarantine has none; who waits comes back.
const quarantinePause = time.Second

// ask sends the claim, over and over for as long as the cluster is in quarantine.
func (c *claim) ask(ctx context.Context, op string, cmd *locktable.Command) (locktable.Result, error) {
	in := "" // what is known of the quarantine
	for c0 := c.begun; ; c0 = c.session.node.clock.Now() {
		res, err := c.askOnce(ctx, c0, op, cmd)
		if err != nil {
			return res, inQuarantine(err, in)
		}
		if res.Code != locktable.CodeQuarantined || cmd.Try {
			return res, nil
		}
		in = quarantined(&res)
		c.session.rest(ctx, quarantinePause)
		if ctx.Err() != nil {
			return res, inQuarantine(&WaitError{Op: op, Name: c.name, Err: ended(ctx)}, in)
		}
	}
}

// rest waits, at most until ctx ends or the session takes no requests any more.
func (s *Session) rest(ctx context.Context, d time.Duration) {
	both, stop := s.during(ctx)
	defer stop()
	pause(both, d)
}

// quarantined says for people what a refused claim met.
func quarantined(r *locktable.Result) string {
	return fmt.Sprintf("the cluster was recovered, and grants no lock for %s after its start, "+
		"for former holders may still believe in theirs", r.Detail)
}

// inQuarantine adds to the error of a call that ended while it waited for the end of a quarantine what it waited for.
func inQuarantine(err error, in string) error {
	var wait *WaitError
	if in == "" || !errors.As(err, &wait) {
		return err
	}
	told := *wait
	told.Err = fmt.Errorf("%w: %w", ErrQuarantine, wait.Err)
	if told.Waiting = in; wait.Waiting != "" {
		told.Waiting += "; " + wait.Waiting
	}
	return &told
}
