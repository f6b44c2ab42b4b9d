package conformance

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/fencetest"
	"github.com/quorumlock/quorumlock/fence/s3fence"
	"github.com/quorumlock/quorumlock/fence/s3fence/awsstore"
)

// Where a bucket to be tested is, if one is: the URL of the store and the bucket's name. AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY and AWS_REGION are as usual.
const (
	endpointEnv = "QUORUMLOCK_S3_ENDPOINT"
	bucketEnv   = "QUORUMLOCK_S3_BUCKET"
)

// Any store can be asked for the proof. It is no part of what CI needs, whose server runs in the test.
func TestGivenStore(t *testing.T) {
	endpoint, name := os.Getenv(endpointEnv), os.Getenv(bucketEnv)
	if endpoint == "" || name == "" {
		t.Skipf("%s and %s name no bucket", endpointEnv, bucketEnv)
	}
	c := client(t, "", 3, func(o *s3.Options) {
		o.BaseEndpoint = aws.String(endpoint)
		o.Region = cmp.Or(os.Getenv("AWS_REGION"), o.Region)
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}, nil
		})
	})
	b := &backend{fenced: open(t, awsstore.New(c, name)), bare: c, bucket: name}
	fencetest.Run(t, func(*testing.T) fencetest.Backend { return b })
	t.Run("Stale", func(t *testing.T) { fencetest.Stale(t, b, fencetest.Successions(t)) })
	t.Run("OneStep", func(t *testing.T) { oneWins(t, awsstore.New(c, name), "tests/one-step-"+fmt.Sprint(os.Getpid()), 100) })
	t.Run("Reads", func(t *testing.T) { readsAreWhole(t, b.fenced) })
}

// readsAreWhole has readers look on while a writer writes: what they see must be whole, and never older than what they saw before.
func readsAreWhole(t *testing.T, b *s3fence.Bucket) {
	const writes, readers = 100, 4
	name := fmt.Sprintf("whole-%d", os.Getpid())
	must(t, b.Put(under(t, 1), name, []byte("1")))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for last := fence.Token(1); ; {
				payload, g, err := b.Get(context.Background(), name)
				if err != nil || string(payload) != g.Token.String() || g.Token < last {
					t.Errorf("%q under %v after %v: %v", payload, g.Token, last, err)
					return
				}
				last = g.Token
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for n := fence.Token(2); n <= writes; n++ {
		must(t, b.Put(under(t, n), name, []byte(n.String())))
	}
	close(done)
	wg.Wait()
}
