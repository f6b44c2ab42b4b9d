package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

func newInspect(inv *invocation) *cobra.Command {
	return &cobra.Command{
		Use:     "inspect NAME",
		Short:   "Show who holds a lock and who waits for it",
		Long:    "Show who holds a lock and who waits for it. Exits with 4 if nobody does either.",
		GroupID: groupLook,
		Args:    cobra.ExactArgs(1),
		RunE:    action(func(ctx context.Context, args []string) error { return inv.inspect(ctx, args[0]) }),
	}
}

func (inv *invocation) inspect(ctx context.Context, name string) error {
	v, err := inv.look(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	var lock lockView
	err = v.read(ctx, func(ctx context.Context, opts ...quorumlock.ReadOption) error {
		info, err := v.node.Inspect(ctx, name, opts...)
		if err != nil {
			return err
		}
		lock = viewLock(info)
		lock.Forced, err = lastForced(ctx, v.node, name, opts...)
		return err
	})
	if err != nil {
		return err
	}
	if inv.json {
		err = inv.printJSON(lock)
	} else {
		err = inv.showLock(lock)
	}
	switch {
	case err != nil:
		return err
	case lock.Stale:
		return errDegraded
	case lock.Holding == 0 && lock.Waiting == 0:
		return &codedError{code: codeNotHeld, err: fmt.Errorf("nobody holds %q or waits for it", name)}
	}
	return nil
}

func (inv *invocation) showLock(lock lockView) error {
	if lock.Stale {
		inv.say(lock.freshness.String())
	}
	limit := ""
	if lock.Limit > 0 {
		limit = fmt.Sprintf("%d of %d in use", lock.InUse, lock.Limit)
	}
	if err := inv.pairs("name", lock.Name, "state", lock.State, "permits", limit, "holders", strconv.Itoa(lock.Holding),
		"waiting", strconv.Itoa(lock.Waiting), "revision", lock.Rev, "last forced", lock.Forced.line()); err != nil {
		return err
	}
	if len(lock.Holders) > 0 {
		inv.say("")
		rows := make([][]string, len(lock.Holders))
		for i, h := range lock.Holders {
			rows[i] = []string{h.Node, h.Token, h.Mode, sinceText(h.Since), h.Session, h.state(), h.Note, h.Value}
		}
		if err := inv.table([]string{"HOLDER", "TOKEN", "MODE", "FOR", "SESSION", "STATE", "NOTE", "VALUE"}, rows); err != nil {
			return err
		}
	}
	if len(lock.Queue) == 0 {
		return nil
	}
	inv.say("")
	rows := make([][]string, len(lock.Queue))
	for i, w := range lock.Queue {
		rows[i] = []string{strconv.Itoa(i + 1), w.Node, w.Mode, sinceText(w.Since), w.Session, w.Note}
	}
	return inv.table([]string{"NEXT", "WAITER", "MODE", "FOR", "SESSION", "NOTE"}, rows)
}

// line tells of a forced release in a line; of none, nothing.
func (v *auditView) line() string {
	if v == nil {
		return ""
	}
	how := "drained"
	if v.Now {
		how = "at once"
	}
	return fmt.Sprintf("token %s, %s, %s by %s: %s", v.Token, how, v.when(), v.Actor, v.Reason)
}

func (h holderView) state() string {
	switch {
	case h.Draining:
		return "draining"
	case h.Barred:
		return "barred"
	case h.Offered:
		return "offered"
	}
	return "held"
}
