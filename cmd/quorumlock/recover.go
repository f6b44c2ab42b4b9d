package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

// recoveryView is the JSON of recover.
type recoveryView struct {
	DryRun       bool       `json:"dry_run"`
	OldClusterID string     `json:"old_cluster_id"`
	ClusterID    string     `json:"cluster_id,omitempty"`
	OldServerID  string     `json:"old_server_id"`
	ServerID     string     `json:"server_id,omitempty"`
	Voter        bool       `json:"voter"`
	Index        uint64     `json:"index"`
	Term         uint64     `json:"term"`
	LastEntry    *time.Time `json:"last_entry"`
	Others       []string   `json:"others"`
	Sessions     int        `json:"sessions"`
	Holds        int        `json:"holds"`
	Waiting      int        `json:"waiting"`
	TokensAbove  string     `json:"tokens_above"`
	QuarantineMS int64      `json:"quarantine_ms"`
}

func newRecover(inv *invocation) *cobra.Command {
	var dir, floor string
	var opt quorumlock.RecoverOptions
	cmd := &cobra.Command{
		Use:   "recover --dir DIR [--give-up ID]",
		Short: "Make a new cluster of one survivor's data directory, when a majority is gone for good",
		Long: `Make a new cluster of one survivor's data directory, when a majority of the voters is gone for good. It is the last resort: what only the lost ones had acknowledged is lost, sessions and holds are dropped.

Stop every instance first, and keep the lost ones from starting again with their old directories. Without --give-up it is a dry run, which changes nothing: run it on every survivor, and take the one with the highest term, and of
those the highest index. Then run it there with --give-up and the id of the cluster that the dry run tells, start that instance, empty the directories of the others and start them.`,
		Example: `  quorumlock recover --cluster orders --dir /var/lib/orders/quorumlock
  quorumlock recover --cluster orders --dir /var/lib/orders/quorumlock --give-up 6f1e0c5d9a8b47e2b1d4c3f2a5968770`,
		GroupID: groupOperate,
		Args:    cobra.NoArgs,
		RunE: action(func(ctx context.Context, _ []string) error {
			t, err := tokenFloor(floor)
			if err != nil {
				return err
			}
			opt.TokenFloor, opt.DryRun = t, opt.GiveUp == ""
			return inv.recover(ctx, dir, opt)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "", "the survivor's data directory, in which no instance runs (required)")
	flags.StringVar(&opt.GiveUp, "give-up", "", "id of the cluster whose other members are gone for good; without it nothing is changed")
	flags.StringVar(&floor, "token-floor", "", "a token that every new one has to exceed, if this machine's clock is behind")
	_ = cmd.MarkFlagRequired("dir")
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

func (inv *invocation) recover(ctx context.Context, dir string, opt quorumlock.RecoverOptions) error {
	cfg, err := inv.connection.config()
	if err != nil {
		return err
	}
	// Recover is about a directory, not about who is reached from it.
	r, err := quorumlock.Recover(ctx, quorumlock.Config{Cluster: cfg.Cluster, Dir: dir, Logger: quiet()}, opt)
	if err != nil {
		return recoveryRefused(err)
	}
	if inv.json {
		return inv.printJSON(viewRecovery(r))
	}
	inv.say(r.String())
	if opt.DryRun {
		inv.say("\nTo do it: --give-up " + r.OldClusterID + ", on the survivor with the highest term, and of those with the highest index.")
	} else {
		inv.say("\nStart this instance first, then all others with empty directories: they join it.")
	}
	return nil
}

// recoveryRefused says that nothing was changed, where that is known.
func recoveryRefused(err error) error {
	var field *quorumlock.FieldError
	switch {
	case errors.Is(err, quorumlock.ErrDiverged):
		return &codedError{code: codeRefused, err: err, advice: "nothing was changed; take another survivor"}
	case !errors.As(err, &field):
		return err
	}
	return &codedError{code: codeUsage, err: err, advice: "nothing was changed"}
}

func viewRecovery(r *quorumlock.Recovery) recoveryView {
	return recoveryView{
		DryRun: r.DryRun, OldClusterID: r.OldClusterID, ClusterID: r.ClusterID, OldServerID: r.OldServerID, ServerID: r.ServerID, Voter: r.Voter,
		Index: r.Index, Term: r.Term, LastEntry: stamp(r.LastEntry), Others: append([]string{}, r.Others...),
		Sessions: r.Sessions, Holds: r.Holds, Waiting: r.Waiting, TokensAbove: r.TokensAbove.String(), QuarantineMS: r.Quarantine.Milliseconds(),
	}
}
