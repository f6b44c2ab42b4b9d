// Package s3snap keeps snapshots in a bucket of Amazon S3, or of a store compatible with it, through the AWS SDK for Go
// v2.
//
// The store must know conditional writes ("If-None-Match: *" on PutObject): one that ignores them replaces an object
// where it should refuse. Package s3fence has a Probe for that. The client needs s3:PutObject, s3:GetObject,
// s3:ListBucket and s3:DeleteObject on the prefix; without the last one nothing is ever removed, and the nodes say so
// in their logs.
package s3snap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/snapshots"
)

// Client is what Store uses of *s3.Client. Retries, checksums, encryption and addressing are its configuration.
type Client interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(ctx context.Context, in *s3.GetObjectInput, opts ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input, opts ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
	DeleteObject(ctx context.Context, in *s3.DeleteObjectInput, opts ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
}

// Options are where in a bucket the objects stand, and what else may be chosen.
type Options struct {
	// Prefix stands before the names: "quorumlock/" is a folder for people. Objects elsewhere are neither seen nor
	// touched. At most 512 bytes. Default none.
	Prefix string
	// SpoolDir is for the file in which a snapshot is gathered before it is sent, since its length and its checksum stand
	// at the beginning of a request. Default: that of the system for temporary files.
	SpoolDir string
}

// Store is the part of a bucket below a prefix.
type Store struct {
	client Client
	bucket string
	opt    Options
}

var (
	_ snapshots.Store = (*Store)(nil)
	_ Client          = (*s3.Client)(nil)
)

// New gives the store of a bucket, which must exist. What is missing or too long is found by every call, as a
// *fence.FieldError.
func New(client Client, bucket string, opt Options) *Store {
	return &Store{client: client, bucket: bucket, opt: opt}
}

const maxPrefix = 512

// key checks everything that a call begins with.
func (s *Store) key(ctx context.Context, name string) (*string, error) {
	switch {
	case s == nil || isNil(s.client):
		return nil, &fence.FieldError{Field: "client", Problem: "must not be nil"}
	case s.bucket == "":
		return nil, &fence.FieldError{Field: "bucket", Problem: "must not be empty"}
	case len(s.opt.Prefix) > maxPrefix:
		return nil, &fence.FieldError{Field: "Options.Prefix", Value: s.opt.Prefix, Problem: fmt.Sprintf("has %d bytes; %d are the most", len(s.opt.Prefix), maxPrefix)}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return aws.String(s.opt.Prefix + name), snapshots.CheckName(name)
}

// isNil also finds an interface that holds a nil pointer.
func isNil(c Client) bool {
	v := reflect.ValueOf(c)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Create is snapshots.Store.Create: one PutObject with "If-None-Match: *", the length and the SHA-256, of what was
// gathered in a file before. A bucket shows an object only when all of it has arrived, and only if the checksum agrees.
//
// A client that sends a request again after an answer was lost finds its own object, and then the error is ErrExists.
func (s *Store) Create(ctx context.Context, name string, write func(w io.Writer) error) error {
	key, err := s.key(ctx, name)
	if err == nil {
		err = s.create(ctx, key, write)
	}
	if err != nil {
		return fmt.Errorf("create snapshot: %w", ended(ctx, err))
	}
	return nil
}

func (s *Store) create(ctx context.Context, key *string, write func(w io.Writer) error) error {
	spool, err := newSpool(ctx, s.opt.SpoolDir)
	if err != nil {
		return err
	}
	defer spool.close()
	if err := write(spool); err != nil {
		return err
	}
	sum, size, err := spool.rewind()
	if err != nil {
		return err
	}
	_, err = s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: key, IfNoneMatch: aws.String("*"), Body: spool.file, ContentLength: &size, ChecksumSHA256: &sum,
		ContentType: aws.String("application/octet-stream"),
	})
	if refused(err) {
		return fmt.Errorf("%w: %w", snapshots.ErrExists, err)
	}
	return err
}

// refused tells that the condition of a PutObject did not hold. Two at the same time may both be told of a conflict, but not with nothing there: one of them was served.
func refused(err error) bool {
	status, code := answer(err)
	return status == http.StatusPreconditionFailed || status == http.StatusConflict && code == "ConditionalRequestConflict"
}

func answer(err error) (status int, code string) {
	var api smithy.APIError
	var http interface{ HTTPStatusCode() int }
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	if errors.As(err, &http) {
		status = http.HTTPStatusCode()
	}
	return status, code
}

// ended makes sure that the end of ctx is found in the error that it caused.
func ended(ctx context.Context, err error) error {
	if why := ctx.Err(); why != nil && !errors.Is(err, why) {
		return fmt.Errorf("%w: %w", why, err)
	}
	return err
}

// Open is snapshots.Store.Open, by GetObject. An answer that does not say how long the object is, is an error: of a body
// that ends with its connection nobody would know whether it was cut.
func (s *Store) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	key, err := s.key(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: key})
	if status, code := answer(err); status == http.StatusNotFound && code == "NoSuchKey" { // not NoSuchBucket
		err = fmt.Errorf("%w: %w", snapshots.ErrNotFound, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open snapshot: %w", ended(ctx, err))
	}
	if out.ContentLength == nil {
		return nil, errors.Join(errors.New("open snapshot: the answer does not give its length"), out.Body.Close())
	}
	return &body{ReadCloser: out.Body, left: *out.ContentLength}, nil
}

// body tells an end that comes too early.
type body struct {
	io.ReadCloser
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if err == io.EOF && b.left != 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// List is snapshots.Store.List, by ListObjectsV2.
func (s *Store) List(ctx context.Context, prefix string) ([]snapshots.Object, error) {
	if _, err := s.key(ctx, "any"); err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: aws.String(s.opt.Prefix + prefix)})
	var found []snapshots.Object
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list snapshots: %w", ended(ctx, err))
		}
		for _, o := range page.Contents {
			name, ok := strings.CutPrefix(aws.ToString(o.Key), s.opt.Prefix)
			if ok && snapshots.CheckName(name) == nil {
				found = append(found, snapshots.Object{Name: name, Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)})
			}
		}
	}
	slices.SortFunc(found, func(a, b snapshots.Object) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

// Remove is snapshots.Store.Remove, by DeleteObject.
func (s *Store) Remove(ctx context.Context, name string) error {
	key, err := s.key(ctx, name)
	if err == nil {
		_, err = s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: key})
	}
	if err != nil {
		return fmt.Errorf("remove snapshot: %w", ended(ctx, err))
	}
	return nil
}
