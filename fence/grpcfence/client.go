package grpcfence

import (
	"context"

	"google.golang.org/grpc"
)

// UnaryClientInterceptor sends the grants of a call's context (see Outgoing), and gives the errors of calls with a grant such
// that they tell whether anything may have been written; all remain statuses. A call without a grant goes out as it is, its
// errors but for refusals too; a fenced server refuses it.
//
// The error matches ErrNotWritten if the context, such as that of a hold, had ended before the call; it is found in it with its
// cause, and nothing was sent. Refusals and proofs of the server are given back as Error does it. A status that gRPC never makes
// up by itself after the call was sent (INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, UNAUTHENTICATED,
// FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, DATA_LOSS) is the service's own to judge. Any other error matches
// fence.ErrUnknownOutcome, besides the error and the end of the context, if it has ended: gRPC gives UNAVAILABLE for a server
// that cannot be reached and for a connection that was lost after the commit.
//
// gRPC does not send a call with a grant again by a retryPolicy, which could not tell these two apart and would write twice: it
// keeps no copy of the message.
func UnaryClientInterceptor() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx, fenced, err := outgoing(ctx)
		if err != nil {
			return err
		}
		if !fenced {
			return Error(invoke(ctx, method, req, reply, cc, opts...))
		}
		return outcome(ctx, invoke(ctx, method, req, reply, cc, once(opts)...))
	}
}

// StreamClientInterceptor does for streams what UnaryClientInterceptor does for calls. The grants are those of the stream's
// context, for all of its messages; an unknown outcome is that of all messages that have not been answered.
func StreamClientInterceptor() grpc.StreamClientInterceptor {
	return func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		ctx, fenced, err := outgoing(ctx)
		if err != nil {
			return nil, err
		}
		judge := Error
		if fenced {
			judge = func(err error) error { return outcome(ctx, err) }
			opts = once(opts)
		}
		stream, err := open(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, judge(err)
		}
		return &clientStream{stream, judge}, nil
	}
}

// once has gRPC commit to the first attempt as soon as a message has been sent: one that is longer than the buffer for
// repetitions is never repeated, and none is as short as nothing. The option comes last, to count.
func once(opts []grpc.CallOption) []grpc.CallOption {
	return append(opts[:len(opts):len(opts)], grpc.MaxRetryRPCBufferSize(0))
}

type clientStream struct {
	grpc.ClientStream
	judge func(error) error
}

func (s *clientStream) SendMsg(m any) error { return s.judge(s.ClientStream.SendMsg(m)) }
func (s *clientStream) RecvMsg(m any) error { return s.judge(s.ClientStream.RecvMsg(m)) }
func (s *clientStream) CloseSend() error    { return s.judge(s.ClientStream.CloseSend()) }
