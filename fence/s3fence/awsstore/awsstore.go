// Package awsstore is a bucket of Amazon S3, or of a store compatible with it, seen through the AWS SDK for Go v2, as an
// s3fence.Store.
package awsstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/arg"
	"github.com/quorumlock/quorumlock/fence/s3fence"
)

// Client is what Store uses of *s3.Client.
type Client interface {
	GetObject(ctx context.Context, in *s3.GetObjectInput, opts ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	DeleteObject(ctx context.Context, in *s3.DeleteObjectInput, opts ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
}

// Store is one bucket. Retries, checksums, encryption and addressing are the client's configuration.
type Store struct {
	client Client
	bucket string
}

var (
	_ s3fence.Store = (*Store)(nil)
	_ Client        = (*s3.Client)(nil)
)

// New gives the Store of a bucket, which must exist. Without a client or a name all methods of the Store return a
// *fence.FieldError.
func New(client Client, bucket string) *Store { return &Store{client: client, bucket: bucket} }

func (s *Store) check() error {
	if s == nil || arg.IsNil(s.client) {
		return &fence.FieldError{Field: "client", Problem: "must not be nil"}
	}
	if s.bucket == "" {
		return &fence.FieldError{Field: "bucket", Problem: "must not be empty"}
	}
	return nil
}

// Get is s3fence.Store.Get, by GetObject. An answer that does not say how long the object is, or has another length, is an error: of
// a body that ends with its connection nobody knows whether it was cut.
func (s *Store) Get(ctx context.Context, key string, limit int64) ([]byte, string, error) {
	if err := s.check(); err != nil {
		return nil, "", err
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return nil, "", classify(err, s3fence.ErrNotFound)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(io.LimitReader(out.Body, limit+1))
	if err != nil {
		return nil, "", fmt.Errorf("read the body: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, "", s3fence.ErrTooLarge
	}
	if out.ContentLength == nil {
		return nil, "", errors.New("read the body: the answer does not give its length")
	}
	if *out.ContentLength != int64(len(body)) {
		return nil, "", fmt.Errorf("read the body: it has %d bytes instead of %d", len(body), *out.ContentLength)
	}
	return body, aws.ToString(out.ETag), nil
}

// Create is s3fence.Store.Create, by PutObject with "If-None-Match: *".
func (s *Store) Create(ctx context.Context, key string, body []byte) error {
	return s.put(ctx, &s3.PutObjectInput{Key: &key, IfNoneMatch: aws.String("*")}, body)
}

// Replace is s3fence.Store.Replace, by PutObject with If-Match.
func (s *Store) Replace(ctx context.Context, key, etag string, body []byte) error {
	return s.put(ctx, &s3.PutObjectInput{Key: &key, IfMatch: &etag}, body)
}

func (s *Store) put(ctx context.Context, in *s3.PutObjectInput, body []byte) error {
	if err := s.check(); err != nil {
		return err
	}
	in.Bucket, in.Body, in.ContentLength = &s.bucket, bytes.NewReader(body), aws.Int64(int64(len(body)))
	in.ContentType = aws.String("application/octet-stream")
	var attempts atomic.Int64
	_, err := s.client.PutObject(ctx, in, counting(&attempts))
	err = classify(err, s3fence.ErrConflict)
	if err != nil && attempts.Load() > 1 {
		return fmt.Errorf("%w: %w", s3fence.ErrRepeated, err)
	}
	return err
}

// counting counts how often the client sends one request.
func counting(attempts *atomic.Int64) func(*s3.Options) {
	count := middleware.FinalizeMiddlewareFunc("s3fence.attempts",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
			middleware.FinalizeOutput, middleware.Metadata, error,
		) {
			attempts.Add(1)
			return next.HandleFinalize(ctx, in)
		})
	return func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Finalize.Add(count, middleware.After) // the step's end: within the loop of retries
		})
	}
}

// Delete is s3fence.Store.Delete, by DeleteObject.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := s.check(); err != nil {
		return err
	}
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key})
	return err
}

// classify marks the answers that s3fence branches on. missing is what the absence of the object means.
func classify(err, missing error) error {
	var api smithy.APIError
	var answer interface{ HTTPStatusCode() int }
	if !errors.As(err, &api) || !errors.As(err, &answer) {
		return err
	}
	switch status, code := answer.HTTPStatusCode(), api.ErrorCode(); {
	case status == http.StatusPreconditionFailed,
		status == http.StatusConflict && (code == "ConditionalRequestConflict" || code == "OperationAborted"):
		return fmt.Errorf("%w: %w", s3fence.ErrConflict, err)
	case status == http.StatusNotFound && code == "NoSuchKey": // not NoSuchBucket
		return fmt.Errorf("%w: %w", missing, err)
	}
	return err
}
