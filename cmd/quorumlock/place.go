package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/snapshots"
	"github.com/quorumlock/quorumlock/snapshots/dirsnap"
	"github.com/quorumlock/quorumlock/snapshots/s3snap"
)

// bucket is how the S3 client is configured beyond what the environment says.
type bucket struct {
	endpoint, region string
	pathStyle        bool
}

func (b *bucket) flags(flags *pflag.FlagSet) {
	flags.StringVar(&b.endpoint, "s3-endpoint", "", "URL of an S3-compatible store (default: AWS_ENDPOINT_URL_S3, or Amazon's)")
	flags.StringVar(&b.region, "s3-region", "", "region of the bucket (default: AWS_REGION, or the shared configuration)")
	flags.BoolVar(&b.pathStyle, "s3-path-style", false, "the bucket stands in the path of URLs, not in the host")
}

func (b *bucket) client(ctx context.Context) (*s3.Client, error) {
	var opts []func(*config.LoadOptions) error
	if b.region != "" {
		opts = append(opts, config.WithRegion(b.region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("configure the S3 client: %w", err)
	}
	if cfg.Region == "" {
		return nil, usage("which region is the bucket in? Set --s3-region or AWS_REGION")
	}
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		if b.endpoint != "" {
			o.BaseEndpoint = &b.endpoint
		}
		o.UsePathStyle = b.pathStyle
	}), nil
}

// place is where a snapshot lies or is to lie: a file, or an object of a store.
type place struct {
	text  string // as it was given
	file  string // path; "-" is standard input or output; "" with a store
	store quorumlock.SnapshotStore
	name  string // of the object; "" is the newest one, or the one that a save makes
}

const suffix = ".qlsnap"

// place reads WHERE: a file, a directory, dir:///path, s3://bucket/prefix, each of the last three with the name of an object behind it or without, or "-".
func (b *bucket) place(ctx context.Context, where string) (place, error) {
	p := place{text: where}
	switch scheme, rest, is := strings.Cut(where, "://"); {
	case where == "":
		return p, usage("the place of a snapshot is empty")
	case is && scheme == "s3":
		name, prefix, in, err := parseBucket(rest)
		if err != nil {
			return p, usage("%s: %w", where, err)
		}
		client, err := b.client(ctx)
		if err != nil {
			return p, err
		}
		p.store, p.name = s3snap.New(client, name, s3snap.Options{Prefix: prefix}), in
	case is && scheme == "dir":
		if !filepath.IsAbs(rest) {
			return p, usage("%s: the path has to be absolute, as in dir:///mnt/backups", where)
		}
		dir := rest
		if _, err := os.Stat(dir); strings.HasSuffix(dir, suffix) && (err != nil || !isDir(dir)) {
			dir, p.name = filepath.Split(dir)
		}
		p.store = dirsnap.New(filepath.Clean(dir))
	case is:
		return p, usage("%s: there is no %s://; take a path, dir:// or s3://", where, scheme)
	case where != "-" && (isDir(where) || os.IsPathSeparator(where[len(where)-1])):
		p.store = dirsnap.New(filepath.Clean(where))
	default:
		p.file = where
	}
	return p, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// parseBucket takes bucket/prefix/name apart. The prefix is a folder: a slash is put at its end.
func parseBucket(rest string) (bucket, prefix, name string, err error) {
	bucket, prefix, _ = strings.Cut(rest, "/")
	if bucket == "" {
		return "", "", "", errors.New("no bucket is named")
	}
	if prefix, err = url.PathUnescape(prefix); err != nil {
		return "", "", "", err
	}
	if strings.HasSuffix(prefix, suffix) {
		prefix, name = path.Split(prefix)
	}
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return bucket, prefix, name, nil
}

// list lists the snapshots of a store, the newest first; cluster "" is those of all clusters, one after the other.
func (p *place) list(ctx context.Context, cluster string) ([]quorumlock.StoredSnapshot, []string, error) {
	if p.store == nil {
		return nil, nil, usage("%s is no store; take a directory, dir:// or s3://", p.text)
	}
	if cluster != "" {
		list, err := quorumlock.ListSnapshots(ctx, p.store, cluster)
		return list, labelsOf(list), err
	}
	objects, err := p.store.List(ctx, "")
	if err != nil {
		return nil, nil, fmt.Errorf("list snapshots: %w", err)
	}
	named := make(map[string][]snapshots.Named)
	for _, o := range objects {
		if n, ok := snapshots.ParseName(o.Name); ok {
			named[n.Label] = append(named[n.Label], snapshots.Named{Object: o, Name: n})
		}
	}
	return stored(named)
}

// newest names the object, where only the store was named.
func (p *place) newest(ctx context.Context, cluster string) error {
	if p.store == nil || p.name != "" {
		return nil
	}
	list, labels, err := p.list(ctx, cluster)
	switch {
	case err != nil:
		return err
	case len(list) == 0 && cluster != "":
		return fmt.Errorf("%s: %w of cluster %q", p.text, snapshots.ErrNotFound, cluster)
	case len(list) == 0:
		return fmt.Errorf("%s: %w", p.text, snapshots.ErrNotFound)
	case len(labels) > 1:
		return usage("%s has snapshots of several clusters (%s): name one with --cluster", p.text, strings.Join(labels, ", "))
	}
	p.name = list[0].Name
	return nil
}

// full is the place with the object's name.
func (p *place) full() string {
	if p.name == "" || strings.HasSuffix(p.text, p.name) {
		return p.text
	}
	return strings.TrimRight(p.text, "/") + "/" + p.name
}

// open reads the snapshot. size is negative if it is not known.
func (p *place) open(ctx context.Context, in io.Reader) (r io.ReadCloser, size int64, err error) {
	switch {
	case p.file == "-":
		return io.NopCloser(in), -1, nil
	case p.store == nil:
		f, err := os.Open(p.file)
		if err != nil {
			return nil, 0, err
		}
		size = -1
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		return f, size, nil
	}
	size = -1
	if objects, err := p.store.List(ctx, p.name); err == nil && len(objects) > 0 && objects[0].Name == p.name {
		size = objects[0].Size
	}
	r, err = p.store.Open(ctx, p.name)
	return r, size, err
}
