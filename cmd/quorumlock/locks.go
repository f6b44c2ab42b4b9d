package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

func newLocks(inv *invocation) *cobra.Command {
	return &cobra.Command{
		Use:     "locks [prefix]",
		Short:   "List locks that somebody holds or waits for",
		GroupID: groupLook,
		Args:    cobra.MaximumNArgs(1),
		RunE: action(func(ctx context.Context, args []string) error {
			prefix := ""
			if len(args) == 1 {
				prefix = args[0]
			}
			return inv.listLocks(ctx, prefix)
		}),
	}
}

func (inv *invocation) listLocks(ctx context.Context, prefix string) error {
	v, err := inv.look(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	var locks []lockView
	err = v.read(ctx, func(ctx context.Context, opts ...quorumlock.ReadOption) error {
		locks = nil
		for info, err := range v.node.Locks(ctx, prefix, opts...) {
			if err != nil {
				return err
			}
			locks = append(locks, viewLock(info))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if inv.json {
		for _, lock := range locks {
			if err := inv.printJSON(lock); err != nil {
				return err
			}
		}
	} else if err := inv.lockTable(locks, v.age); err != nil {
		return err
	}
	if v.age.Stale {
		return errDegraded
	}
	return nil
}

func (inv *invocation) lockTable(locks []lockView, age freshness) error {
	if age.Stale {
		inv.say(age.String())
	}
	rows := make([][]string, 0, len(locks))
	for _, lock := range locks {
		row := []string{lock.Name, lock.State, "", "", "", "", strconv.Itoa(lock.Waiting), ""}
		if len(lock.Holders) > 0 {
			h := lock.Holders[0]
			row[2], row[3], row[4], row[5], row[7] = h.Node, h.Token, h.Mode, sinceText(h.Since), h.Note
			if more := lock.Holding - 1; more > 0 {
				row[2] += " +" + strconv.Itoa(more)
			}
		}
		rows = append(rows, row)
	}
	return inv.table([]string{"NAME", "STATE", "HOLDER", "TOKEN", "MODE", "FOR", "WAITING", "NOTE"}, rows)
}

func sinceText(t *time.Time) string {
	if t == nil {
		return ""
	}
	return since(*t)
}
