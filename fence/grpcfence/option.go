package grpcfence

import (
	"context"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/arg"
)

// Option is an option of Check.
type Option func(*check)

// defaultResponse is what clients of gRPC take if they are not told otherwise.
const defaultResponse = 4 << 20

// MaxResponse is the most bytes of a reply that is a protocol buffer, as encoded and before it is compressed: no more than the
// clients' MaxCallRecvMsgSize and the server's MaxSendMsgSize, for one that they do not take is lost after the commit. The step
// of a longer one fails. Default 4 MiB, as that of clients.
func MaxResponse(bytes int) Option { return func(k *check) { k.maxResponse = bytes } }

// OnError has report called with each error of a checker or a Resource that a call was refused for, and with that of a reply that
// cannot be sent. Calls come from the goroutines of the calls, many at once.
func OnError(report func(ctx context.Context, fullMethod string, err error)) Option {
	return func(k *check) { k.report = report }
}

// check is nil if calls can be judged.
func (k *check) check() error {
	missing := func(field string) error {
		return &fence.FieldError{Field: "Check." + field, Problem: "must not be nil"}
	}
	switch {
	case arg.IsNil(k.checker):
		return missing("c")
	case k.resource == nil:
		return missing("resource")
	case k.nilOption:
		return missing("opts")
	case k.maxResponse < 0:
		return &fence.FieldError{Field: "MaxResponse", Value: k.maxResponse, Problem: "must not be negative"}
	}
	return nil
}
