package grpcfence

import (
	"context"

	"google.golang.org/grpc"
)

// UnaryClientInterceptor sends the grants of a call's context (see Outgoing), and gives refusals back as errors of package
// fence (see Error). A call without a grant goes out as it is; a fenced server refuses it.
func UnaryClientInterceptor() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx, err := Outgoing(ctx)
		if err != nil {
			return err
		}
		return Error(invoke(ctx, method, req, reply, cc, opts...))
	}
}

// StreamClientInterceptor does for streams what UnaryClientInterceptor does for calls. The grants are those of the stream's
// context, for all of its messages.
func StreamClientInterceptor() grpc.StreamClientInterceptor {
	return func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		ctx, err := Outgoing(ctx)
		if err != nil {
			return nil, err
		}
		stream, err := open(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, Error(err)
		}
		return &clientStream{stream}, nil
	}
}

type clientStream struct{ grpc.ClientStream }

func (s *clientStream) SendMsg(m any) error { return Error(s.ClientStream.SendMsg(m)) }
func (s *clientStream) RecvMsg(m any) error { return Error(s.ClientStream.RecvMsg(m)) }
func (s *clientStream) CloseSend() error    { return Error(s.ClientStream.CloseSend()) }
