package conformance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/quorumlock/quorumlock/fence/fencetest"
	"github.com/quorumlock/quorumlock/fence/s3fence"
)

// backend is the fenced bucket as the suite sees it, with bare objects under a prefix of their own for the control.
type backend struct {
	fenced *s3fence.Bucket
	bare   *s3.Client
	bucket string
}

var _ fencetest.Backend = (*backend)(nil)

func newBackend(t testing.TB, addr string) *backend {
	return &backend{fenced: open(t, store(t, addr, 1)), bare: client(t, addr, 1), bucket: bucketName}
}

func (b *backend) Write(ctx context.Context, resource, value string) error {
	return b.fenced.Put(ctx, resource, []byte(value))
}

func (b *backend) Claim(ctx context.Context, resource string) error {
	return b.fenced.Claim(ctx, resource)
}

func (b *backend) Read(ctx context.Context, resource string) (string, error) {
	payload, _, err := b.fenced.Get(ctx, resource)
	if errors.Is(err, s3fence.ErrNotFound) {
		return "", nil
	}
	return string(payload), err
}

func (b *backend) WriteUnfenced(ctx context.Context, resource, value string) error {
	key := "bare/" + b.fenced.Key(resource)
	_, err := b.bare.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: &key, Body: bytes.NewReader([]byte(value))})
	return err
}

func (b *backend) ReadUnfenced(ctx context.Context, resource string) (string, error) {
	key := "bare/" + b.fenced.Key(resource)
	out, err := b.bare.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: &key})
	var missing *types.NoSuchKey
	if errors.As(err, &missing) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	return string(body), err
}

func TestConformance(t *testing.T) {
	b := newBackend(t, inMemory(t).addr)
	fencetest.Run(t, func(*testing.T) fencetest.Backend { return b })
}

func TestReadsAreWhole(t *testing.T) {
	readsAreWhole(t, open(t, store(t, inMemory(t).addr, 1)))
}

func TestStaleHolders(t *testing.T) {
	fencetest.Stale(t, newBackend(t, inMemory(t).addr), fencetest.Successions(t))
}
