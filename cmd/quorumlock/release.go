package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

// releaseView is the JSON of release.
type releaseView struct {
	Name   string `json:"name"`
	Token  string `json:"token"`
	Action string `json:"action"` // draining: it passes on when its holder has surely stopped; released
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

func newRelease(inv *invocation) *cobra.Command {
	var token, session string
	var opt quorumlock.ForceOptions
	cmd := &cobra.Command{
		Use:   "release NAME --token T --reason WHY",
		Short: "Take a lock from its holder by force",
		Long: `Take a lock from its holder by force. The token names the hold that you saw (inspect shows it): if another one holds by now, nothing is done and the exit code is 8.

The hold is drained: its holder is told at once, its deadline is frozen, and the lock passes on after one TTL, when the old holder has stopped by its own clock. With --now it passes on at once;
the old holder may then still work beside the next one, and only resources that check tokens are safe. Who did it, and why, is kept and shown to the holder.`,
		Example: `  quorumlock release jobs/nightly --token 1764662400000001 --reason "host is on fire"`,
		GroupID: groupOperate,
		Args:    cobra.ExactArgs(1),
		RunE: action(func(ctx context.Context, args []string) error {
			t, err := quorumlock.ParseToken(token)
			if err != nil {
				return usage("--token: %w", err)
			}
			if session != "" {
				id, err := strconv.ParseInt(session, 10, 64)
				if err != nil || id <= 0 {
					return usage("--session: %q is not a session id", session)
				}
				opt.Session = quorumlock.SessionID(id)
			}
			return inv.release(ctx, args[0], t, opt)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&token, "token", "", "token of the hold to end (required)")
	flags.StringVar(&opt.Reason, "reason", "", "why, for the record and for the holder (required)")
	flags.StringVar(&opt.Actor, "actor", actor(), "who does it")
	flags.BoolVar(&opt.Now, "now", false, "do not wait until the holder has stopped")
	flags.StringVar(&session, "session", "", "only the hold of this session, where readers share a token")
	_ = cmd.MarkFlagRequired("token")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

func actor() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

func (inv *invocation) release(ctx context.Context, name string, t quorumlock.Token, opt quorumlock.ForceOptions) error {
	ctx, cancel := inv.within(ctx)
	defer cancel()
	node, err := inv.connect(ctx)
	if err != nil {
		return err
	}
	defer node.Close()
	if err := node.ForceRelease(ctx, name, t, opt); err != nil {
		return releaseRefused(err)
	}
	view := releaseView{Name: name, Token: t.String(), Action: "draining", Actor: opt.Actor, Reason: opt.Reason}
	if opt.Now {
		view.Action = "released"
	}
	if inv.json {
		return inv.printJSON(view)
	}
	if opt.Now {
		inv.say(fmt.Sprintf("%s: released; token %s is not held any more, and its holder may not know it yet", printable(name), view.Token))
	} else {
		inv.say(fmt.Sprintf("%s: draining; token %s passes on after one TTL, when its holder has stopped", printable(name), view.Token))
	}
	return nil
}

func releaseRefused(err error) error {
	var locked *quorumlock.LockedError
	switch {
	case errors.As(err, &locked):
		return &codedError{code: codeWrongToken, err: fmt.Errorf("%w; token %s holds now", err, locked.Holder.Token), advice: "nothing was done: look again with inspect"}
	case errors.Is(err, quorumlock.ErrUnlocked):
		return &codedError{code: codeNotHeld, err: err, advice: "nothing was done: nobody holds it"}
	}
	return err
}
