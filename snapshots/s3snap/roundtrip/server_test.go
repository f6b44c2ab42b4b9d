package roundtrip

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/quorumlock/quorumlock/snapshots/s3snap"
)

const bucketName = "backups"

// s3Server is an S3 server in this process, which other processes reach as well.
type s3Server struct {
	url string
	to  http.Handler

	mu     sync.RWMutex    // for reading while an object is made
	closed map[string]bool // prefixes below which none is
}

// closeTo ends the making of objects below a prefix, or lets it begin again. One that is under way is made before closeTo returns.
func (s *s3Server) closeTo(prefix string, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed[prefix] = closed
}

func (s *s3Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		s.to.ServeHTTP(w, r)
		return
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for prefix, closed := range s.closed {
		if closed && strings.HasPrefix(r.URL.Path, "/"+bucketName+"/"+prefix) {
			http.Error(w, "closed", http.StatusServiceUnavailable)
			return
		}
	}
	s.to.ServeHTTP(w, r)
}

func startS3(t *testing.T) *s3Server {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(bucketName); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &s3Server{to: gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server(), closed: make(map[string]bool)}
	web := &httptest.Server{Listener: l, Config: &http.Server{Handler: s, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}}
	web.Start()
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	s.url = web.URL
	return s
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
