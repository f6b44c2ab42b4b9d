package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/transport"
)

func newSnapshotDrill(inv *invocation, b *backups) *cobra.Command {
	var temp string
	cmd := &cobra.Command{
		Use:   "drill FROM",
		Short: "Restore a snapshot into a temporary place, and see that it works",
		Long: `Restore a snapshot into a temporary place, start a cluster of one from it, see that it is what restore promises, and remove everything: that the cluster has a new id, that tokens rise on, that sessions,
holds and queues are dropped and limits and audit kept, and that no lock is granted in the quarantine. It opens no port and talks to no member, so it can run at any time beside the cluster that works, and it does not wait for the quarantine
to end. Exits with 0 if all of it is so, otherwise with 1.`,
		Example:           "  quorumlock snapshot drill s3://backups/quorumlock --cluster orders --key-file /etc/orders/snapshot.keys",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: files,
		RunE:              action(func(ctx context.Context, args []string) error { return inv.snapshotDrill(ctx, b, args[0], temp) }),
	}
	cmd.Flags().StringVar(&temp, "temp-dir", "", "where the temporary directory is made (default: the system's)")
	return cmd
}

// drillView is the JSON of drill.
type drillView struct {
	From         string       `json:"from"`
	OK           bool         `json:"ok"`
	Snapshot     *contentView `json:"snapshot"`
	ClusterID    string       `json:"cluster_id"` // of the cluster that was made for it
	TokensAbove  string       `json:"tokens_above"`
	QuarantineMS int64        `json:"quarantine_ms"`
	Steps        []stepView   `json:"steps"` // in order; after one that failed only the last one, remove, is done
}

type stepView struct {
	Step   string `json:"step"` // verify, restore, start, ids, tokens, counts, quarantine, remove
	OK     bool   `json:"ok"`
	MS     int64  `json:"ms"`
	Detail string `json:"detail"` // what was seen, or what is wrong
}

func (inv *invocation) snapshotDrill(ctx context.Context, b *backups, from, temp string) error {
	keys, err := b.keys()
	if err != nil {
		return err
	}
	p, err := inv.source(ctx, b, from)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(temp, "quorumlock-drill-")
	if err != nil {
		return err
	}
	d := &drill{inv: inv, place: p, keys: keys, dir: dir, report: drillView{From: p.full()}}
	failed := d.run(ctx)
	failed = errors.Join(failed, d.step("remove", func() (string, error) { return "nothing is left", d.remove() }))
	d.report.OK = failed == nil
	if err := inv.showDrill(d.report); err != nil || failed == nil {
		return err
	}
	if ctx.Err() != nil {
		return failed // an interrupted drill says nothing of the snapshot
	}
	return &codedError{code: codeFailed, err: fmt.Errorf("the drill failed: %w", failed), advice: "a restore of it cannot be relied on"}
}

// drill is one restore for the sake of trying.
type drill struct {
	inv    *invocation
	place  place
	keys   [][]byte
	dir    string
	node   *quorumlock.Node
	report drillView

	info     quorumlock.SnapshotInfo
	restored *quorumlock.Restoration
	found    quorumlock.SnapshotInfo // of the restored cluster
}

func (d *drill) step(name string, do func() (string, error)) error {
	start := time.Now()
	detail, err := do()
	if err != nil {
		detail, err = oneLine(err.Error()), fmt.Errorf("%s: %w", name, err)
	}
	d.report.Steps = append(d.report.Steps, stepView{Step: name, OK: err == nil, MS: time.Since(start).Milliseconds(), Detail: detail})
	return err
}

func (d *drill) run(ctx context.Context) error {
	for _, s := range []struct {
		name string
		do   func(context.Context) (string, error)
	}{
		{"verify", d.verify}, {"restore", d.restore}, {"start", d.start}, {"ids", d.ids}, {"tokens", d.tokens}, {"counts", d.counts}, {"quarantine", d.quarantine},
	} {
		if err := d.step(s.name, func() (string, error) { return s.do(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

func (d *drill) copyPath() string { return filepath.Join(d.dir, "snapshot") }

// verify reads the place once: the bytes that were verified are those that are restored.
func (d *drill) verify(ctx context.Context) (string, error) {
	f, err := os.OpenFile(d.copyPath(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	d.info, err = d.inv.readSnapshot(ctx, d.place, d.keys, "verifying", f)
	d.report.Snapshot = viewSnapshot(d.info)
	if err == nil {
		err = foreignTo(d.inv.cluster, d.info)
	}
	if err == nil {
		err = f.Close()
	}
	return fmt.Sprintf("%s, whole and unchanged", bytesText(d.info.Size)), err
}

// config is that of a cluster of one without a port: its network is in this process, and nobody else is on it.
func (d *drill) config() quorumlock.Config {
	return quorumlock.Config{
		Cluster: d.info.Cluster, Name: "drill", Addr: "drill:1", Expect: 1, Voters: 1, Timing: quorumlock.TimingFast, Logger: quiet(),
		Dir: filepath.Join(d.dir, "data"), SnapshotKeys: d.keys, Transport: transport.NewMemory(1).Host("drill"),
	}
}

func (d *drill) restore(ctx context.Context) (string, error) {
	f, err := os.Open(d.copyPath())
	if err != nil {
		return "", err
	}
	defer f.Close()
	bar := d.inv.progress("restoring", d.info.Size)
	defer bar.end()
	if d.restored, err = quorumlock.Restore(ctx, d.config(), quorumlock.RestoreOptions{From: io.Reader(countingReader{f, bar})}); err != nil {
		return "", err
	}
	r := d.restored
	d.report.ClusterID, d.report.TokensAbove, d.report.QuarantineMS = r.ClusterID, r.TokensAbove.String(), r.Quarantine.Milliseconds()
	return fmt.Sprintf("dropped %d sessions, %d holds, %d waiting", d.info.Sessions, d.info.Holds, d.info.Waiting), nil
}

func (d *drill) start(ctx context.Context) (_ string, err error) {
	ctx, cancel := d.inv.within(ctx)
	defer cancel()
	if d.node, err = quorumlock.Open(ctx, d.config()); err != nil {
		return "", err
	}
	if err := d.node.Ready(ctx); err != nil {
		return "", err
	}
	// What the cluster has, as a file would have it: by its own barrier, and before anybody asked it for anything.
	d.found, err = d.node.Snapshot(ctx, io.Discard)
	return "a cluster of one is ready", err
}

func (d *drill) ids(context.Context) (string, error) {
	id := d.node.ClusterID()
	if id != d.restored.ClusterID || id == d.info.ClusterID || d.found.ClusterID != id || d.node.ID() != d.restored.ServerID {
		return "", fmt.Errorf("cluster %s, server %s; restored were %s and %s, of %s", id, d.node.ID(), d.restored.ClusterID, d.restored.ServerID, d.info.ClusterID)
	}
	return "cluster " + id + " in place of " + d.info.ClusterID, nil
}

func (d *drill) tokens(context.Context) (string, error) {
	above := d.restored.TokensAbove
	if above <= d.info.TokensUpTo || d.found.TokensUpTo < above {
		return "", fmt.Errorf("new tokens are above %v and promised above %v; the old ones went up to %v", d.found.TokensUpTo, above, d.info.TokensUpTo)
	}
	return fmt.Sprintf("above %v; the old ones went up to %v", above, d.info.TokensUpTo), nil
}

func (d *drill) counts(context.Context) (string, error) {
	f, was := d.found, d.info
	if f.Holds != 0 || f.Waiting != 0 || f.Limits != was.Limits || f.Audit != was.Audit {
		return "", fmt.Errorf("%d holds, %d waiting, %d limits, %d audit records; promised were 0, 0, %d and %d", f.Holds, f.Waiting, f.Limits, f.Audit, was.Limits, was.Audit)
	}
	return fmt.Sprintf("no holds, none waiting; kept %d limits, %d audit records", f.Limits, f.Audit), nil
}

// quarantine tries a lock, which must be refused for that reason and for no other.
func (d *drill) quarantine(ctx context.Context) (string, error) {
	ctx, cancel := d.inv.within(ctx)
	defer cancel()
	hold, err := quorumlock.NewMutex(d.node, "quorumlock-drill").TryLock(ctx)
	switch {
	case err == nil:
		return "", errors.Join(fmt.Errorf("a lock was granted, with token %v", hold.Token()), hold.Unlock())
	case !errors.Is(err, quorumlock.ErrQuarantine):
		return "", err
	}
	return fmt.Sprintf("no lock is granted for %s from the start on", short(d.restored.Quarantine)), nil
}

func (d *drill) remove() error {
	var err error
	if d.node != nil {
		err = d.node.Close()
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

func (inv *invocation) showDrill(v drillView) error {
	if inv.json {
		return inv.printJSON(v)
	}
	state := "FAILED"
	if v.OK {
		state = "it can be restored"
	}
	var cluster, taken string
	if s := v.Snapshot; s != nil {
		cluster, taken = fmt.Sprintf("%s, id %s", s.Cluster, s.ClusterID), fmt.Sprintf("%s (%s ago)", s.Taken.Format(time.RFC3339), since(*s.Taken))
	}
	if err := inv.pairs("from", v.From, "cluster", cluster, "taken", taken, "drill", state); err != nil {
		return err
	}
	inv.say("")
	var rows [][]string
	for _, s := range v.Steps {
		result := "ok"
		if !s.OK {
			result = "FAILED"
		}
		rows = append(rows, []string{s.Step, result, short(time.Duration(s.MS) * time.Millisecond), s.Detail})
	}
	return inv.table([]string{"STEP", "RESULT", "TOOK", "DETAIL"}, rows)
}
