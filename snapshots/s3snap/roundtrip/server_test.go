package roundtrip

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/quorumlock/quorumlock/snapshots/s3snap"
)

const bucketName = "backups"

// s3Server is the URL of an S3 server in this process, which other processes reach as well.
func s3Server(t *testing.T) string {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(bucketName); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handler := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}}
	s.Start()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// storeAt is the part of the server's bucket below a prefix, and what ends its connections.
func storeAt(url, prefix, spool string) (*s3snap.Store, func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(url), UsePathStyle: true, Region: "us-east-1", Credentials: aws.CredentialsProviderFunc(signer),
		HTTPClient: &http.Client{Transport: transport}, RetryMaxAttempts: 3,
	})
	return s3snap.New(client, bucketName, s3snap.Options{Prefix: prefix, SpoolDir: spool}), transport.CloseIdleConnections
}

func signer(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "user", SecretAccessKey: "secret of the tests"}, nil
}
