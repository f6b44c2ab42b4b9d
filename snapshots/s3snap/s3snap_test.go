package s3snap_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/snapshots/s3snap"
)

func TestBadArguments(t *testing.T) {
	ctx := t.Context()
	for name, s := range map[string]*s3snap.Store{
		"no store":       nil,
		"zero store":     {},
		"no client":      s3snap.New(nil, "b", s3snap.Options{}),
		"nil pointer":    s3snap.New((*s3.Client)(nil), "b", s3snap.Options{}),
		"no bucket name": s3snap.New(s3.New(s3.Options{}), "", s3snap.Options{}),
		"long prefix":    s3snap.New(s3.New(s3.Options{}), "b", s3snap.Options{Prefix: strings.Repeat("x", 513)}),
	} {
		_, open := s.Open(ctx, "k")
		_, list := s.List(ctx, "")
		for method, err := range map[string]error{
			"open": open, "list": list, "create": s.Create(ctx, "k", func(io.Writer) error { return nil }), "remove": s.Remove(ctx, "k"),
		} {
			if !errors.Is(err, fence.ErrInvalid) {
				t.Errorf("%s: %s: %v", name, method, err)
			}
		}
	}
}
