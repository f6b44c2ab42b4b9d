package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/snapshots"
)

// backups are the flags that all snapshot commands have.
type backups struct {
	keyFiles []string
	bucket
}

func newSnapshot(inv *invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save the cluster's state, look into what was saved, and restore it",
		Long: `Save the cluster's state, look into what was saved, and restore it when the cluster is lost with all its disks.

A snapshot is a file, or an object of a store: a directory (dir:///path, or any path of one) or a bucket (s3://bucket/folder; credentials as the AWS SDK finds them). Where a store
is named without an object, it is the newest one of --cluster. "-" is standard input or output.

Exit codes of their own: 20 truncated, 21 altered, 22 foreign, 23 of a newer version, 24 without its key.`,
		GroupID: groupOperate,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	b := new(backups)
	b.flags(cmd.PersistentFlags())
	for _, command := range []func(*invocation, *backups) *cobra.Command{
		newSnapshotSave, newSnapshotList, newSnapshotInspect, newSnapshotVerify, newSnapshotRestore, newSnapshotDrill,
	} {
		cmd.AddCommand(command(inv, b))
	}
	return cmd
}

func (b *backups) flags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&b.keyFiles, "key-file", nil, "files of the keys that encrypt snapshots: 32 bytes in base64, one per line; the first one encrypts")
	fromEnv(flags, "key-file", "QUORUMLOCK_SNAPSHOT_KEYS")
	b.bucket.flags(flags)
}

func (b *backups) keys() ([][]byte, error) {
	var keys [][]byte
	for _, file := range b.keyFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, usage("--key-file: %w", err)
		}
		before := len(keys)
		for line := range strings.FieldsSeq(string(text)) {
			key, err := base64.StdEncoding.DecodeString(line)
			if err != nil || len(key) != 32 { // not a word of what the line says
				return nil, usage("--key-file: key %d of %s is not 32 bytes in base64", len(keys)-before+1, file)
			}
			keys = append(keys, key)
		}
		if len(keys) == before {
			return nil, usage("--key-file: no key in %s", file)
		}
	}
	return keys, nil
}

// What follows is the JSON of snapshots.

type snapshotView struct {
	From     string       `json:"from"`  // or to: the place, with the object's name
	Check    string       `json:"check"` // ok, encrypted, or what is wrong: truncated, altered, foreign, newer, key
	Snapshot *contentView `json:"snapshot"`
}

type contentView struct {
	Cluster    string     `json:"cluster"`
	ClusterID  string     `json:"cluster_id"`
	Index      uint64     `json:"index"`
	Term       uint64     `json:"term"`
	Level      uint32     `json:"level"`
	TokensUpTo string     `json:"tokens_up_to"`
	Taken      *time.Time `json:"taken"`
	freshness
	Sessions int    `json:"sessions"`
	Holds    int    `json:"holds"`
	Waiting  int    `json:"waiting"`
	Audit    int    `json:"audit"`
	Limits   int    `json:"limits"`
	KeyID    string `json:"key_id,omitempty"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
}

// viewSnapshot is nil where the file told nothing that could be believed.
func viewSnapshot(i quorumlock.SnapshotInfo) *contentView {
	if i.Size == 0 {
		return nil
	}
	return &contentView{
		Cluster: i.Cluster, ClusterID: i.ClusterID, Index: i.Index, Term: i.Term, Level: i.Level, TokensUpTo: i.TokensUpTo.String(), Taken: stamp(i.Taken),
		freshness: freshnessOf(i.Stale, i.Age), Sessions: i.Sessions, Holds: i.Holds, Waiting: i.Waiting, Audit: i.Audit, Limits: i.Limits,
		KeyID: i.KeyID, Size: i.Size, SHA256: i.SHA256,
	}
}

// pairs are for inv.pairs.
func (v *contentView) pairs() []string {
	if v == nil {
		return nil
	}
	state := "consistent"
	if v.Stale {
		state = v.freshness.String()
	}
	key := "none: it is in plain text"
	if v.KeyID != "" {
		key = v.KeyID
	}
	taken := ""
	if v.Taken != nil {
		taken = fmt.Sprintf("%s (%s ago)", v.Taken.Format(time.RFC3339), since(*v.Taken))
	}
	return []string{
		"cluster", v.Cluster, "id", v.ClusterID, "state", state, "taken", taken,
		"index", fmt.Sprintf("%d of term %d, feature level %d", v.Index, v.Term, v.Level), "tokens", "up to " + v.TokensUpTo,
		"sessions", fmt.Sprint(v.Sessions), "holds", fmt.Sprintf("%d, and %d waiting", v.Holds, v.Waiting),
		"audit", fmt.Sprintf("%d records", v.Audit), "limits", fmt.Sprintf("%d semaphores", v.Limits),
		"key", key, "size", bytesText(v.Size), "sha256", v.SHA256,
	}
}

func (inv *invocation) showSnapshot(v snapshotView, label string) error {
	if inv.json {
		return inv.printJSON(v)
	}
	return inv.pairs(append([]string{label, v.From, "check", v.Check}, v.Snapshot.pairs()...)...)
}

// storedView is the JSON of list, one object per line.
type storedView struct {
	Name       string     `json:"name"`
	Label      string     `json:"label"` // of the cluster's name: the name itself, if letters, digits and . - _ are all it has
	ClusterID  string     `json:"cluster_id"`
	TokensUpTo string     `json:"tokens_up_to"`
	Index      uint64     `json:"index"`
	Size       int64      `json:"size"`
	Modified   *time.Time `json:"modified"`
}

// stored orders what a store has by label, and of each the newest first.
func stored(named map[string][]snapshots.Named) (list []quorumlock.StoredSnapshot, labels []string, _ error) {
	for label := range named {
		labels = append(labels, label)
	}
	slices.Sort(labels)
	for _, label := range labels {
		slices.SortFunc(named[label], func(a, b snapshots.Named) int { return b.Name.Compare(a.Name) })
		for _, s := range named[label] {
			list = append(list, quorumlock.StoredSnapshot{
				Name: s.Object.Name, ClusterID: s.Name.ClusterID, TokensUpTo: quorumlock.Token(s.Name.Counter), Index: s.Name.Index, Size: s.Size, Modified: s.Modified,
			})
		}
	}
	return list, labels, nil
}

func labelsOf(list []quorumlock.StoredSnapshot) []string {
	if len(list) == 0 {
		return nil
	}
	return []string{labelOf(list[0].Name)}
}

func labelOf(object string) string {
	n, _ := snapshots.ParseName(object)
	return n.Label
}

// snapshotFaults are what may be wrong with a snapshot, with the exit code and the word for each.
var snapshotFaults = []struct {
	err          error
	code         int
	word, advice string
}{
	{quorumlock.ErrSnapshotTruncated, codeTruncated, "truncated", "take an older one; nothing of it can be used"},
	{quorumlock.ErrSnapshotAltered, codeAltered, "altered", "take an older one; nothing of it can be used"},
	{quorumlock.ErrSnapshotForeign, codeForeign, "foreign", "look at --cluster, and at where it is from"},
	{quorumlock.ErrSnapshotNewer, codeNewer, "newer", "it is whole; use the version that wrote it, or a later one"},
	{quorumlock.ErrSnapshotKey, codeKey, "key", "it is whole; name the file of its key with --key-file"},
}

// faultOf gives code 0 if err is about something else.
func faultOf(err error) (code int, word, advice string) {
	for _, f := range snapshotFaults {
		if errors.Is(err, f.err) {
			return f.code, f.word, f.advice
		}
	}
	return 0, "", ""
}

// source opens a snapshot to be read: the place is completed by the object's name.
func (inv *invocation) source(ctx context.Context, b *backups, from string) (place, error) {
	p, err := b.place(ctx, from)
	if err != nil {
		return p, err
	}
	bounded, cancel := inv.within(ctx)
	defer cancel()
	return p, p.newest(bounded, inv.cluster)
}
