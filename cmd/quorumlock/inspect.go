package main

import (
	"context"
	"errors"
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
	var lock inspectView
	err = v.read(ctx, func(ctx context.Context, opts ...quorumlock.ReadOption) error {
		info, err := v.node.Inspect(ctx, name, opts...)
		if err != nil {
			return err
		}
		lock = inspectView{lockView: viewLock(info)}
		lock.Acts, err = releasesOf(ctx, v.node, name, opts)
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

// inspectView is the JSON of inspect.
type inspectView struct {
	lockView
	Acts []auditView `json:"acts"` // forced releases of this lock that are on record, oldest first
}

// releasesOf reads the record. A cluster that is not upgraded as a whole keeps none that could be shown.
func releasesOf(ctx context.Context, node *quorumlock.Node, name string, opts []quorumlock.ReadOption) ([]auditView, error) {
	acts := []auditView{}
	for r, err := range node.Audit(ctx, opts...) {
		if errors.Is(err, quorumlock.ErrLevel) {
			return acts, nil
		}
		if err != nil {
			return nil, err
		}
		if r.Act == quorumlock.ActForceRelease && r.Name == name {
			acts = append(acts, viewAudit(r))
		}
	}
	return acts, nil
}

func (inv *invocation) showLock(lock inspectView) error {
	if lock.Stale {
		inv.say(lock.freshness.String())
	}
	limit := ""
	if lock.Limit > 0 {
		limit = fmt.Sprintf("%d of %d in use", lock.InUse, lock.Limit)
	}
	if err := inv.pairs("name", lock.Name, "state", lock.State, "permits", limit, "holders", strconv.Itoa(lock.Holding),
		"waiting", strconv.Itoa(lock.Waiting), "revision", lock.Rev); err != nil {
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
	if len(lock.Queue) > 0 {
		inv.say("")
		rows := make([][]string, len(lock.Queue))
		for i, w := range lock.Queue {
			rows[i] = []string{strconv.Itoa(i + 1), w.Node, w.Mode, sinceText(w.Since), w.Session, w.Note}
		}
		if err := inv.table([]string{"NEXT", "WAITER", "MODE", "FOR", "SESSION", "NOTE"}, rows); err != nil {
			return err
		}
	}
	if len(lock.Acts) == 0 {
		return nil
	}
	inv.say("")
	rows := make([][]string, len(lock.Acts))
	for i, act := range lock.Acts {
		rows[i] = []string{sinceText(act.Time), act.Token, act.Actor, act.Reason}
	}
	return inv.table([]string{"FORCED", "TOKEN", "BY", "REASON"}, rows)
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
