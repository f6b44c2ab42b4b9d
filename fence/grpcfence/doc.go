// Package grpcfence carries grants over gRPC. Client interceptors put the grants of a call's context into its metadata, server
// interceptors put them into the context of the handler, and [Check] runs a unary call as the write of a [fence.Checker]: a
// holder that has been succeeded is refused, and the answer goes out only when the step that it tells of has been committed.
//
//	grpc.NewClient(target, grpc.WithChainUnaryInterceptor(grpcfence.UnaryClientInterceptor()),
//		grpc.WithChainStreamInterceptor(grpcfence.StreamClientInterceptor()))
//
//	grpc.NewServer(grpc.ChainUnaryInterceptor(grpcfence.Check(store, resource)),
//		grpc.ChainStreamInterceptor(grpcfence.StreamServerInterceptor()))
//
// Refusals are statuses with a google.rpc.ErrorInfo of domain [Domain]; the client interceptors give them back as the errors of
// package fence, which remain statuses too (status.FromError). FAILED_PRECONDITION is a stale token, another lock, or no grant;
// INVALID_ARGUMENT a grant or resource that is not valid; ABORTED a checker that failed before anything was written, so that the
// call may be repeated; INTERNAL a step whose outcome is unknown, or a reply that could not be sent and was taken back. That
// nothing was written is proven by the reason NOT_WRITTEN (ErrNotWritten), and by nothing else: UNAVAILABLE is what gRPC itself
// gives for a connection that was lost, after the commit or before, and is an unknown outcome.
//
// So clients without these interceptors must not have a retryPolicy for fenced methods that lists UNAVAILABLE: it makes gRPC
// write twice, and tell of one success. With them gRPC repeats no call that has a grant.
//
// The grant says under which lock a write is made; it proves nothing about who makes it.
package grpcfence
