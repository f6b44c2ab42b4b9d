package conformance

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3bolt"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/fence/s3fence"
	"github.com/quorumlock/quorumlock/fence/s3fence/awsstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const bucketName = "fenced"

// server is an S3 server in this process, with one bucket.
type server struct {
	addr    string
	backend gofakes3.Backend
	http    *http.Server
	served  chan struct{}
	db      *bbolt.DB // nil if it keeps everything in memory
}

// inMemory starts a server that keeps everything in memory.
func inMemory(t testing.TB, opts ...s3mem.Option) *server {
	t.Helper()
	return serve(t, "127.0.0.1:0", s3mem.New(opts...))
}

// onDisk starts a server that keeps its objects in a file.
func onDisk(t testing.TB, addr, dir string) *server {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(dir, "objects"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, addr, s3bolt.New(db))
	s.db = db
	t.Cleanup(func() { _ = db.Close() })
	return s
}

// close ends a server on disk, so that another can be started on its address and its directory.
func (s *server) close(t testing.TB) {
	t.Helper()
	s.stop()
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
}

func serve(t testing.TB, addr string, backend gofakes3.Backend) *server {
	t.Helper()
	if exists, err := backend.BucketExists(bucketName); err != nil {
		t.Fatal(err)
	} else if !exists {
		if err := backend.CreateBucket(bucketName); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: l.Addr().String(), backend: backend, served: make(chan struct{})}
	handler := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	s.http = &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(l)
	}()
	t.Cleanup(s.stop)
	return s
}

// stop closes all connections at once.
func (s *server) stop() {
	_ = s.http.Close()
	<-s.served
}

// client is an S3 client of the server, or of a proxy in front of it. attempts is how often it sends a request that gets no answer.
func client(t testing.TB, addr string, attempts int, opts ...func(*s3.Options)) *s3.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return s3.New(s3.Options{
		BaseEndpoint:     aws.String("http://" + addr),
		UsePathStyle:     true,
		Region:           "us-east-1",
		Credentials:      aws.CredentialsProviderFunc(signer),
		HTTPClient:       &http.Client{Transport: transport},
		RetryMaxAttempts: attempts,
	}, opts...)
}

func signer(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "user", SecretAccessKey: "secret of the tests"}, nil
}

func store(t testing.TB, addr string, attempts int) *awsstore.Store {
	return awsstore.New(client(t, addr, attempts), bucketName)
}

// open gives the fenced resources of a server, which has to pass the probe.
func open(t testing.TB, store s3fence.Store) *s3fence.Bucket {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b, err := s3fence.Open(ctx, store, s3fence.Config{Prefix: "tests/"})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
