package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

// saveOptions are the flags of snapshot save.
type saveOptions struct {
	to           string
	stale, local bool
}

func newSnapshotSave(inv *invocation, b *backups) *cobra.Command {
	var o saveOptions
	cmd := &cobra.Command{
		Use:   "save",
		Short: "Save the cluster's state now",
		Long: `Save the cluster's state now, no older than this call. A file is never replaced; it gets its name when all of it has been written and read back. In a store the library names the object, by
cluster, tokens and log index.

Where no leader answers for a second nothing is saved (exit code 5), unless --stale is given: then it is what one member has, marked as stale, and the exit code is 9.`,
		Example: "  quorumlock snapshot save --to orders.qlsnap\n  quorumlock snapshot save --to s3://backups/quorumlock --key-file /etc/orders/snapshot.keys\n  quorumlock snapshot save --to - | gzip > orders.gz",
		Args:    cobra.NoArgs,
		RunE:    action(func(ctx context.Context, _ []string) error { return inv.snapshotSave(ctx, b, o) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.to, "to", ".", "where: a file, a directory, dir:///path, s3://bucket/folder, or - for standard output")
	_ = cmd.MarkFlagFilename("to")
	flags.BoolVar(&o.stale, "stale", false, "what one member has will do, if no leader answers")
	flags.BoolVar(&o.local, "local", false, "what one member has, without asking for a leader at all")
	return cmd
}

func (inv *invocation) snapshotSave(ctx context.Context, b *backups, o saveOptions) error {
	keys, err := b.keys()
	if err != nil {
		return err
	}
	p, err := b.place(ctx, o.to)
	switch {
	case err != nil:
		return err
	case p.name != "":
		return usage("--to %s: the library names the objects of a store; name the store alone", o.to)
	case p.file == "-" && isTerminal(inv.out):
		return usage("--to -: standard output is a terminal; a snapshot is not for reading")
	case p.file != "" && p.file != "-":
		if _, err := os.Lstat(p.file); err == nil {
			return fmt.Errorf("save snapshot: %s: %w; it is not replaced", p.file, fs.ErrExist)
		}
	}
	inv.snapshotKeys = keys
	v, err := inv.look(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	s := &saving{inv: inv, viewer: v, place: &p, keys: keys}
	info, err := s.take(ctx, o)
	if err != nil {
		return err
	}
	if p.file == "-" {
		inv.out = inv.errs
	}
	p.name = info.Name
	if err := inv.showSnapshot(snapshotView{From: p.full(), Check: "ok", Snapshot: viewSnapshot(info)}, "to"); err != nil || !info.Stale {
		return err
	}
	return errDegraded
}

// saving is one snapshot on its way from the cluster to a place.
type saving struct {
	inv    *invocation
	viewer *viewer
	place  *place
	keys   [][]byte
	bar    *progress
}

// take asks the leader, and if that does not answer, and it may, a member for its own state.
func (s *saving) take(ctx context.Context, o saveOptions) (quorumlock.SnapshotInfo, error) {
	if !o.local {
		alone, err := s.viewer.alone(ctx)
		if err != nil {
			return quorumlock.SnapshotInfo{}, err
		}
		if !alone {
			info, begun, err := s.attempt(ctx, freshBound)
			if err == nil || begun || ctx.Err() != nil || !unanswered(err) {
				return info, err
			}
			s.viewer.why = err
		}
		if !o.stale {
			return quorumlock.SnapshotInfo{}, &codedError{
				code: codeNoQuorum, err: fmt.Errorf("save snapshot: %w", s.viewer.why),
				advice: "bring a majority of the voters back, or take what one member has, with --stale",
			}
		}
	}
	info, begun, err := s.attempt(ctx, survivorBound, quorumlock.Local())
	if err != nil && !begun && ctx.Err() == nil && unanswered(err) {
		err = &codedError{code: codeNoQuorum, advice: adviceNoQuorum, err: fmt.Errorf("save snapshot: no member gives its state: %w", err)}
	}
	return info, err
}

// survivorBound is longer than localBound: members are asked one beside the other, each 250 ms after the one before it, and those that are gone may stand in front.
const survivorBound = 1500 * time.Millisecond

// attempt bounds by within how long it may take until the state begins to arrive. From then on the library bounds each piece of it, and the store is as slow as it is.
func (s *saving) attempt(ctx context.Context, within time.Duration, opts ...quorumlock.ReadOption) (info quorumlock.SnapshotInfo, begun bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(within, func() { cancel(fmt.Errorf("nobody answers within %v: %w", within, context.DeadlineExceeded)) })
	var once sync.Once
	begin := func() { once.Do(func() { begun = timer.Stop() || begun }) }
	s.bar = s.inv.progress("saving", -1)
	defer func() { s.bar.end() }()
	node := s.viewer.node
	switch {
	case s.place.store != nil:
		info, err = node.SaveSnapshot(ctx, &watchedStore{SnapshotStore: s.place.store, begin: begin, saving: s}, opts...)
	case s.place.file == "-":
		to := bufio.NewWriterSize(countingWriter{s.inv.out, s.bar}, 1<<16)
		info, err = node.Snapshot(ctx, &beginning{to, begin}, opts...)
		if err == nil {
			err = to.Flush()
		}
	default:
		info, err = s.intoFile(ctx, begin, opts...)
	}
	if cause := context.Cause(ctx); err != nil && !begun && errors.Is(cause, context.DeadlineExceeded) && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	return info, begun, err
}

// beginning calls begin before the first byte.
type beginning struct {
	io.Writer
	begin func()
}

func (b *beginning) Write(p []byte) (int, error) {
	b.begin()
	return b.Writer.Write(p)
}

// watchedStore lets the progress see what a store writes and reads back.
type watchedStore struct {
	quorumlock.SnapshotStore
	begin  func()
	saving *saving
	wrote  int64
}

func (s *watchedStore) Create(ctx context.Context, name string, write func(io.Writer) error) error {
	s.begin()
	return s.SnapshotStore.Create(ctx, name, func(w io.Writer) error {
		counted := &sizing{Writer: countingWriter{w, s.saving.bar}}
		err := write(counted)
		s.wrote = counted.size
		return err
	})
}

func (s *watchedStore) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	s.saving.readingBack(s.wrote)
	r, err := s.SnapshotStore.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{countingReader{r, s.saving.bar}, r}, nil
}

func (s *saving) readingBack(size int64) {
	s.bar.end()
	s.bar = s.inv.progress("reading back", size)
}

type sizing struct {
	io.Writer
	size int64
}

func (s *sizing) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	s.size += int64(n)
	return n, err
}

// intoFile writes a temporary file beside the one that is wanted, reads it back, and links it to its name, which nobody else's file can have then.
func (s *saving) intoFile(ctx context.Context, begin func(), opts ...quorumlock.ReadOption) (info quorumlock.SnapshotInfo, err error) {
	dir := filepath.Dir(s.place.file)
	f, err := os.CreateTemp(dir, ".snapshot-*.tmp")
	if err != nil {
		return info, fmt.Errorf("save snapshot: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	to := bufio.NewWriterSize(countingWriter{f, s.bar}, 1<<16)
	info, err = s.viewer.node.Snapshot(ctx, &beginning{to, begin}, opts...)
	if err == nil {
		err = errors.Join(to.Flush(), f.Sync())
	}
	if err != nil {
		return info, err
	}
	if err := s.readBack(ctx, f, info); err != nil {
		return info, fmt.Errorf("save snapshot: read back: %w", err)
	}
	err = os.Link(f.Name(), s.place.file)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s: %w; it is not replaced", s.place.file, fs.ErrExist)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return info, fmt.Errorf("save snapshot: %w", err)
	}
	return info, nil
}

// syncDir makes a name in a directory last, where directories can be synced.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (s *saving) readBack(ctx context.Context, f *os.File, wrote quorumlock.SnapshotInfo) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	s.readingBack(wrote.Size)
	found, err := quorumlock.VerifySnapshot(ctx, countingReader{f, s.bar}, s.keys)
	switch {
	case errors.Is(err, quorumlock.ErrSnapshotNewer): // the file is whole; to read the state in it takes the members' version
	case err != nil:
		return err
	}
	if found.SHA256 != wrote.SHA256 || found.Size != wrote.Size {
		return fmt.Errorf("%w: the file does not hold what was written", quorumlock.ErrSnapshotAltered)
	}
	return nil
}
