package conformance

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3bolt"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/snapshots/s3snap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const bucketName = "backups"

// inMemory is an S3 server in this process that keeps everything in memory. around, if not nil, is between it and its clients.
func inMemory(t testing.TB, around func(http.Handler) http.Handler) string {
	t.Helper()
	return serve(t, s3mem.New(), around)
}

// onDisk is one that keeps its objects in a file.
func onDisk(t testing.TB) string {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "objects"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return serve(t, s3bolt.New(db), nil)
}

func serve(t testing.TB, backend gofakes3.Backend, around func(http.Handler) http.Handler) string {
	t.Helper()
	if err := backend.CreateBucket(bucketName); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handler := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	if around != nil {
		handler = around(handler)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}}
	s.Start()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// storeAt is the store in a server's bucket; attempts is how often its client sends a request that gets no answer.
func storeAt(t testing.TB, url, prefix string, attempts int) *s3snap.Store {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(url), UsePathStyle: true, Region: "us-east-1", Credentials: aws.CredentialsProviderFunc(signer),
		HTTPClient: &http.Client{Transport: transport}, RetryMaxAttempts: attempts,
	})
	return s3snap.New(client, bucketName, s3snap.Options{Prefix: prefix, SpoolDir: t.TempDir()})
}

func signer(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "user", SecretAccessKey: "secret of the tests"}, nil
}
