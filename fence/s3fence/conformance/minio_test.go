package conformance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/quorumlock/quorumlock/fence/fencetest"
	"github.com/quorumlock/quorumlock/fence/s3fence"
)

// minioStore is what another client takes: here minio-go, told to send each request once.
type minioStore struct {
	client *minio.Client
	bucket string
}

func (s *minioStore) Get(ctx context.Context, key string, limit int64) ([]byte, string, error) {
	o, err := s.client.GetObject(ctx, s.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, "", err
	}
	defer o.Close()
	body, err := io.ReadAll(io.LimitReader(o, limit+1))
	if err != nil {
		return nil, "", s.classify(err, s3fence.ErrNotFound)
	}
	if int64(len(body)) > limit {
		return nil, "", s3fence.ErrTooLarge
	}
	info, err := o.Stat() // of the answer that brought the body
	return body, info.ETag, err
}

func (s *minioStore) Create(ctx context.Context, key string, body []byte) error {
	var opts minio.PutObjectOptions
	opts.SetMatchETagExcept("*")
	return s.put(ctx, key, body, opts)
}

func (s *minioStore) Replace(ctx context.Context, key, etag string, body []byte) error {
	var opts minio.PutObjectOptions
	opts.SetMatchETag(etag)
	return s.put(ctx, key, body, opts)
}

func (s *minioStore) put(ctx context.Context, key string, body []byte, opts minio.PutObjectOptions) error {
	opts.DisableMultipart = true
	_, err := s.client.PutObject(ctx, s.bucket, key, bytes.NewReader(body), int64(len(body)), opts)
	return s.classify(err, s3fence.ErrConflict)
}

func (s *minioStore) Delete(ctx context.Context, key string) error {
	return s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{})
}

func (s *minioStore) classify(err, missing error) error {
	if err == nil {
		return nil
	}
	switch minio.ToErrorResponse(err).Code {
	case "PreconditionFailed", "ConditionalRequestConflict", "OperationAborted":
		return fmt.Errorf("%w: %w", s3fence.ErrConflict, err)
	case "NoSuchKey":
		return fmt.Errorf("%w: %w", missing, err)
	}
	return err
}

// The four methods of Store are all that s3fence needs, so any client will do.
func TestAnotherClient(t *testing.T) {
	addr := inMemory(t).addr
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := minio.New(addr, &minio.Options{
		Creds:      credentials.NewStaticV4("user", "secret of the tests", ""),
		Region:     "us-east-1",
		Transport:  transport,
		MaxRetries: 1,
	})
	must(t, err)
	b := newBackend(t, addr)
	b.fenced = open(t, &minioStore{c, bucketName})
	fencetest.Run(t, func(*testing.T) fencetest.Backend { return b })
}
