package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

// restoreOptions are the flags of snapshot restore.
type restoreOptions struct {
	dir, clusterFrom, floor string
	dryRun                  bool
}

func newSnapshotRestore(inv *invocation, b *backups) *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{
		Use:   "restore FROM --dir DIR",
		Short: "Make a new cluster of a snapshot, when the old one is lost",
		Long: `Make a new cluster of a snapshot in the empty data directory of one instance that does not run, when the old cluster is lost with all its disks. It talks to nobody.

Before: stop every instance of the old cluster that is left. If it is not lost after all, two clusters grant the same locks.
After:  start that instance first, then all others with empty directories: they join it.

Dropped are all sessions, holds and queues of the snapshot: nobody is taken for a holder who may not be one any more. Kept are the limits of semaphores and the audit. Every new token is above all
old ones, also above those granted after the snapshot was taken. After the start nobody is granted a lock during the quarantine that the report names, until whoever still runs with a hold of
the old cluster has stopped believing in it: Lock waits, TryLock fails.

Everything is verified before anything is written. A directory that is not empty is refused. What was interrupted can be repeated.`,
		Example:           "  quorumlock snapshot restore s3://backups/quorumlock --cluster orders --dir /var/lib/orders/locks --dry-run",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: files,
		RunE:              action(func(ctx context.Context, args []string) error { return inv.snapshotRestore(ctx, b, args[0], o) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.dir, "dir", "", "the empty data directory to restore into (required)")
	flags.StringVar(&o.clusterFrom, "cluster-from", "", "name of the cluster that the snapshot is of, if it is another than --cluster")
	flags.StringVar(&o.floor, "token-floor", "", "a token that new ones have to exceed; needed only if this machine's clock is behind the snapshot's time")
	flags.BoolVar(&o.dryRun, "dry-run", false, "check everything and report, and write nothing")
	_ = cmd.MarkFlagRequired("dir")
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

// restoreView is the JSON of restore.
type restoreView struct {
	From         string       `json:"from"`
	Dir          string       `json:"dir"`
	DryRun       bool         `json:"dry_run"`
	Snapshot     *contentView `json:"snapshot"`   // its sessions, holds and waiting are dropped
	ClusterID    string       `json:"cluster_id"` // of the new cluster; "" in a dry run
	ServerID     string       `json:"server_id"`  // of its one member; "" in a dry run
	TokensAbove  string       `json:"tokens_above"`
	QuarantineMS int64        `json:"quarantine_ms"` // from the start of that member on
}

func (inv *invocation) snapshotRestore(ctx context.Context, b *backups, from string, o restoreOptions) error {
	floor, err := tokenFloor(o.floor)
	if err != nil {
		return err
	}
	if inv.snapshotKeys, err = b.keys(); err != nil {
		return err
	}
	cfg, err := inv.connection.config()
	if err != nil {
		return err
	}
	p, err := b.place(ctx, from)
	if err == nil {
		err = inv.newestOf(ctx, &p, o.clusterFrom)
	}
	if err != nil {
		return err
	}
	r, size, err := p.open(ctx, inv.in)
	if err != nil {
		return err
	}
	defer r.Close()
	bar := inv.progress("restoring", size)
	defer bar.end()
	// Restore is about a directory, not about who is reached from it.
	done, err := quorumlock.Restore(ctx,
		quorumlock.Config{Cluster: cfg.Cluster, Dir: o.dir, SnapshotKeys: cfg.SnapshotKeys, Logger: quiet()},
		quorumlock.RestoreOptions{From: io.Reader(countingReader{r, bar}), Cluster: o.clusterFrom, TokenFloor: floor, DryRun: o.dryRun})
	bar.end()
	if err != nil {
		return restoreRefused(err)
	}
	return inv.showRestore(restoreView{
		From: p.full(), Dir: o.dir, DryRun: done.DryRun, Snapshot: viewSnapshot(done.Snapshot), ClusterID: done.ClusterID, ServerID: done.ServerID,
		TokensAbove: done.TokensAbove.String(), QuarantineMS: done.Quarantine.Milliseconds(),
	})
}

// tokenFloor reads --token-floor; "" is none.
func tokenFloor(s string) (quorumlock.Token, error) {
	if s == "" {
		return 0, nil
	}
	t, err := quorumlock.ParseToken(s)
	if err != nil {
		return 0, usage("--token-floor: %w", err)
	}
	return t, nil
}

// quiet keeps the library's own lines away: the report says the same.
func quiet() hclog.Logger { return quorumlock.SlogLogger(slog.New(slog.DiscardHandler)) }

// newestOf is newest, of the cluster that the snapshot is said to be of.
func (inv *invocation) newestOf(ctx context.Context, p *place, clusterFrom string) error {
	ctx, cancel := inv.within(ctx)
	defer cancel()
	if clusterFrom == "" {
		clusterFrom = inv.cluster
	}
	return p.newest(ctx, clusterFrom)
}

// restoreRefused says that nothing was written, where that is known.
func restoreRefused(err error) error {
	var field *quorumlock.FieldError
	switch {
	case errors.Is(err, quorumlock.ErrSnapshotForeign):
		return &codedError{code: codeForeign, err: err, advice: "nothing was written; if it is the right one, name its cluster with --cluster-from"}
	case !errors.As(err, &field):
		return err
	case field.Field == "Config.Dir":
		return &codedError{code: codeUsage, err: err, advice: "nothing was written; the directory has to be empty or not there yet"}
	case field.Field == "RestoreOptions.TokenFloor":
		return &codedError{code: codeUsage, err: err, advice: "nothing was written"}
	}
	return err
}

func (inv *invocation) showRestore(v restoreView) error {
	if inv.json {
		return inv.printJSON(v)
	}
	s := v.Snapshot
	state := "restored; this one instance is its only member"
	if v.DryRun {
		state = "dry run: nothing was written; it can be restored"
	}
	if err := inv.pairs("from", v.From, "into", v.Dir, "state", state, "old cluster", fmt.Sprintf("%s, id %s", s.Cluster, s.ClusterID), "new id", v.ClusterID, "server", v.ServerID,
		"as of", fmt.Sprintf("%s (%s ago), index %d", s.Taken.Format(time.RFC3339), since(*s.Taken), s.Index), "stale", s.freshness.String(),
		"dropped", fmt.Sprintf("%d sessions, %d holds, %d waiting", s.Sessions, s.Holds, s.Waiting),
		"kept", fmt.Sprintf("%d semaphore limits, %d audit records", s.Limits, s.Audit), "tokens", "above "+v.TokensAbove,
		"quarantine", fmt.Sprintf("no lock is granted for %s after the start", short(time.Duration(v.QuarantineMS)*time.Millisecond))); err != nil {
		return err
	}
	if !v.DryRun {
		inv.say("\nStart this instance first, then all others with empty directories: they join it.")
	}
	return nil
}
