package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

func newSnapshotList(inv *invocation, b *backups) *cobra.Command {
	return &cobra.Command{
		Use:               "list STORE",
		Short:             "List the snapshots of a store, the newest first",
		Long:              "List the snapshots of a store, the newest first: those of --cluster, or of all clusters. None is opened: what is shown stands in their names.",
		Example:           "  quorumlock snapshot list s3://backups/quorumlock --cluster orders",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: files,
		RunE:              action(func(ctx context.Context, args []string) error { return inv.snapshotList(ctx, b, args[0]) }),
	}
}

func (inv *invocation) snapshotList(ctx context.Context, b *backups, where string) error {
	ctx, cancel := inv.within(ctx)
	defer cancel()
	p, err := b.place(ctx, where)
	if err != nil {
		return err
	}
	list, _, err := p.list(ctx, inv.cluster)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, s := range list {
		v := storedView{
			Name: s.Name, Label: labelOf(s.Name), ClusterID: s.ClusterID, TokensUpTo: s.TokensUpTo.String(), Index: s.Index, Size: s.Size, Modified: stamp(s.Modified),
		}
		if inv.json {
			if err := inv.printJSON(v); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{v.Label, since(s.Modified), bytesText(v.Size), v.TokensUpTo, strconv.FormatUint(v.Index, 10), v.Name})
	}
	if inv.json {
		return nil
	}
	return inv.table([]string{"CLUSTER", "AGE", "SIZE", "TOKENS UP TO", "INDEX", "NAME"}, rows)
}

func newSnapshotInspect(inv *invocation, b *backups) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect FROM",
		Short: "Say what is in a snapshot",
		Long: `Say what is in a snapshot: whose state, up to which token, how much of what, and whether the file is whole and as it was written. All of it is read. One that is encrypted needs no key
for that; only what verify finds out about the state in it is then not known.`,
		Example:           "  quorumlock snapshot inspect orders.qlsnap\n  quorumlock snapshot inspect dir:///mnt/backups/orders --cluster orders",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: files,
		RunE:              action(func(ctx context.Context, args []string) error { return inv.snapshotCheck(ctx, b, args[0], false) }),
	}
}

func newSnapshotVerify(inv *invocation, b *backups) *cobra.Command {
	return &cobra.Command{
		Use:   "verify FROM",
		Short: "Tell whether a snapshot can be restored",
		Long: `Tell whether a snapshot can be restored: that it is whole and unchanged, and that the state in it decodes, obeys the rules of the lock table and is the one it was taken of. restore does
the same before it writes anything.`,
		Example:           "  quorumlock snapshot verify s3://backups/quorumlock --cluster orders --key-file /etc/orders/snapshot.keys",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: files,
		RunE:              action(func(ctx context.Context, args []string) error { return inv.snapshotCheck(ctx, b, args[0], true) }),
	}
}

// snapshotCheck reads a snapshot to its end. What is wrong with it is shown, and is the exit code.
func (inv *invocation) snapshotCheck(ctx context.Context, b *backups, from string, whole bool) error {
	keys, err := b.keys()
	if err != nil {
		return err
	}
	p, err := inv.source(ctx, b, from)
	if err != nil {
		return err
	}
	info, err := inv.readSnapshot(ctx, p, keys, "verifying", io.Discard)
	if err == nil {
		err = foreignTo(inv.cluster, info)
	}
	code, check, _ := faultOf(err)
	switch {
	case err == nil:
		check = "ok"
	case code == 0:
		return err
	case code == codeKey && !whole && len(keys) == 0:
		check, err = "encrypted", foreignTo(inv.cluster, info)
		if err != nil {
			_, check, _ = faultOf(err)
		}
	}
	return errors.Join(inv.showSnapshot(snapshotView{From: p.full(), Check: check, Snapshot: viewSnapshot(info)}, "from"), err)
}

// readSnapshot verifies a snapshot, and gives its bytes to to.
func (inv *invocation) readSnapshot(ctx context.Context, p place, keys [][]byte, what string, to io.Writer) (quorumlock.SnapshotInfo, error) {
	r, size, err := p.open(ctx, inv.in)
	if err != nil {
		return quorumlock.SnapshotInfo{}, err
	}
	defer r.Close()
	bar := inv.progress(what, size)
	defer bar.end()
	info, err := quorumlock.VerifySnapshot(ctx, io.TeeReader(countingReader{r, bar}, to), keys)
	info.Name = p.name
	return info, err
}

// foreignTo is an error if the snapshot is of another cluster than the one that is named.
func foreignTo(cluster string, info quorumlock.SnapshotInfo) error {
	if cluster == "" || info.Size == 0 || info.Cluster == cluster {
		return nil
	}
	return fmt.Errorf("%w: it is of cluster %q, not of %q", quorumlock.ErrSnapshotForeign, info.Cluster, cluster)
}
