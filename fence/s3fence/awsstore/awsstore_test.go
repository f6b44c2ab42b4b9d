package awsstore_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/s3fence/awsstore"
)

func TestBadArguments(t *testing.T) {
	ctx := t.Context()
	for name, s := range map[string]*awsstore.Store{
		"no store":       nil,
		"zero store":     {},
		"no client":      awsstore.New(nil, "b"),
		"nil pointer":    awsstore.New((*s3.Client)(nil), "b"),
		"no bucket name": awsstore.New(s3.New(s3.Options{}), ""),
	} {
		_, _, get := s.Get(ctx, "k", 1)
		for method, err := range map[string]error{
			"get": get, "create": s.Create(ctx, "k", nil), "replace": s.Replace(ctx, "k", "e", nil), "delete": s.Delete(ctx, "k"),
		} {
			if !errors.Is(err, fence.ErrInvalid) {
				t.Errorf("%s: %s: %v", name, method, err)
			}
		}
	}
}
