package grpcfence

import (
	"context"

	"google.golang.org/grpc"
)

// UnaryServerInterceptor puts the grants of a call's metadata into the handler's context (see Incoming), for handlers that ask
// a checker themselves; the errors of checkers that they return become statuses (see Status). A call without a grant goes on,
// and the checker refuses it; one whose metadata is not valid is refused here.
func UnaryServerInterceptor() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		ctx, err := Incoming(ctx)
		if err != nil {
			return nil, statusOf(err)
		}
		reply, err := handle(ctx, req)
		return reply, statusOf(err)
	}
}

// StreamServerInterceptor does for streams what UnaryServerInterceptor does for calls. Handlers ask the checker for each
// message that is a write, since a holder may be succeeded while its stream is open.
func StreamServerInterceptor() grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		ctx, err := Incoming(stream.Context())
		if err != nil {
			return statusOf(err)
		}
		return statusOf(handle(srv, &serverStream{stream, ctx}))
	}
}

// serverStream has the context with the grants; it is bound to one call, as the context that gRPC keeps in a stream.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *serverStream) Context() context.Context { return s.ctx }

// statusOf leaves errors of others as they are, but for what a call that the handler has made itself has proven about that one.
func statusOf(err error) error {
	if s := Status(err); s != nil {
		return s.Err()
	}
	if recognised(err) == nil {
		return err
	}
	return &refused{err, proven(err, false)}
}
