package grpcfence

import (
	"context"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/ended"
)

// outgoing is Outgoing, and tells whether the call shows a grant, that of the context or one that was put into its metadata. A
// call under a context that has ended is not sent.
func outgoing(ctx context.Context) (_ context.Context, fenced bool, err error) {
	out, err := Outgoing(ctx)
	if err != nil {
		return ctx, false, err
	}
	md, _ := metadata.FromOutgoingContext(out)
	if len(md[Key]) == 0 {
		return out, false, nil
	}
	if err := ended.Err(ctx); err != nil {
		return ctx, true, &refused{ended.Join(ErrNotWritten, err), status.FromContextError(ctx.Err())}
	}
	return out, true, nil
}

// outcome is the error of a call with a grant that has been sent.
func outcome(ctx context.Context, err error) error {
	if err == nil || err == io.EOF { // the end of a stream
		return err
	}
	if known := recognised(err); known != nil {
		return known
	}
	s := status.Convert(err)
	if servicesOwn(s.Code()) {
		return err
	}
	return &refused{ended.Join(fence.ErrUnknownOutcome, err, ended.Err(ctx)), s}
}

// servicesOwn says which codes gRPC does not make up by itself once a call has been sent. (Its list of codes has two more as ones
// that it may make up: PERMISSION_DENIED and UNAUTHENTICATED come of proxies and credentials before the server is reached.)
func servicesOwn(code codes.Code) bool {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition,
		codes.Aborted, codes.OutOfRange, codes.DataLoss:
		return true
	}
	return false
}
