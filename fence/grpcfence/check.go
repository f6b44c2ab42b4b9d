package grpcfence

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorumlock/quorumlock/fence"
)

// ErrUnfenced is for the resource function of Check: this call needs no fence, and goes on without one.
var ErrUnfenced = errors.New("the call is not fenced")

// Check gives a server interceptor that runs unary calls as steps of c, with the grants of their metadata (see Incoming) and,
// as the checker gives it, its transaction in the handler's context. It needs no other interceptor of this package. resource
// names what a call writes to. A method that writes nothing returns ErrUnfenced; so calls that nobody thought of are fenced.
//
// An error of the handler rolls the step back and is returned with its own status, to which an ErrorInfo NOT_WRITTEN is added; a
// panic rolls back too, and then goes on. The reply goes out when the step is committed. One that gRPC could not send, since
// there is none, it cannot be encoded, or it is longer than MaxResponse, fails the step before; so a reply that is a protocol
// buffer is encoded twice. (Whether another can be encoded is its codec's secret, and found out when it is too late: the client
// is told that the outcome is unknown.) A checker that repeats a step, as after a serialization failure, runs the handler once
// more with the same request, which it must not change.
//
// What the handler did to anything else, and to what is behind a fence.Guard or any checker that cannot take it back (see
// fence.Rollbacker), stands. There the handler's own errors go out without the proof, and what else fails is an unknown outcome.
// What it leaves running when it returns writes past the fence.
//
// The errors of the checker become the statuses that the package comment lists; what failed within a checker is not told to the
// client but to OnError. With a c, resource or option that is nil, or a bad option, every call is refused with status INTERNAL,
// and OnError is told the *fence.FieldError.
func Check(c fence.Checker, resource Resource, opts ...Option) grpc.UnaryServerInterceptor {
	k := &check{checker: c, resource: resource, maxResponse: defaultResponse}
	for _, opt := range opts {
		if opt == nil {
			k.nilOption = true
			continue
		}
		opt(k)
	}
	k.invalid = k.check()
	return k.intercept
}

// Resource names what a call writes to. An error refuses the call: with INVALID_ARGUMENT if it is a *fence.FieldError, else
// with INTERNAL.
type Resource = func(ctx context.Context, fullMethod string, req any) (string, error)

type check struct {
	checker     fence.Checker
	resource    Resource
	report      func(context.Context, string, error)
	maxResponse int
	nilOption   bool
	invalid     error
}

func (k *check) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := info.FullMethod
	if k.invalid != nil {
		return nil, k.refuse(ctx, method, k.invalid, told(codes.Internal, "the fence is not set up", reasonNotWritten))
	}
	ctx, err := Incoming(ctx)
	if err != nil {
		return nil, k.refuse(ctx, method, err, Status(err))
	}
	name, err := k.resource(ctx, method, req)
	switch {
	case errors.Is(err, ErrUnfenced):
		reply, err := handle(ctx, req)
		return reply, statusOf(err)
	case err != nil:
		return nil, k.refuse(ctx, method, err, orStatus(err, told(codes.Internal, "the resource of the call is not known", reasonNotWritten)))
	}
	s := &step{req: req, handle: handle, maxResponse: k.maxResponse}
	err = k.checker.Do(ctx, name, s.run)
	return k.end(ctx, method, s, err)
}

// end answers a call whose step has ended. Doubt comes first: the checker's, or that of a run about what it wrote past the step.
// If the last run of the handler failed the step was rolled back, whatever else the checker says; only a refusal that is not of a
// run's making, but came when the checker was to repeat it, says more.
func (k *check) end(ctx context.Context, method string, s *step, err error) (any, error) {
	refused := Status(err)
	switch {
	case s.panicked != nil:
		panic(s.panicked.value) // as if there were no interceptor
	case errors.Is(err, fence.ErrUnknownOutcome):
		return nil, k.refuse(ctx, method, err, statusUnknown())
	case s.doubt != nil:
		return nil, k.refuse(ctx, method, s.doubt, statusUnknown())
	case err == nil && s.ran && s.failed == nil:
		return s.reply, nil
	case s.failed != nil && refused != nil && !isOfRun(err):
		return nil, k.refuse(ctx, method, err, k.rolledBack(refused))
	case s.unfit:
		return nil, k.refuse(ctx, method, s.failed, k.rolledBack(told(codes.Internal, "the reply cannot be sent", reasonNotWritten)))
	case s.failed != nil:
		return nil, k.answer(s.failed)
	case err == nil:
		return nil, k.refuse(ctx, method, errNotRun, told(codes.Internal, "the fence is not set up", reasonNotWritten))
	case refused != nil:
		return nil, k.refuse(ctx, method, err, refused)
	case !s.ran:
		return nil, k.refuse(ctx, method, err, told(codes.Aborted, "the fence could not be asked: nothing was written", reasonNotWritten))
	case errors.Is(err, fence.ErrNotWritten) && !isOfRun(err):
		return nil, k.refuse(ctx, method, err, told(codes.Aborted, "the step was taken back: nothing was written", reasonNotWritten))
	}
	return nil, k.refuse(ctx, method, err, statusUnknown())
}

var errNotRun = errors.New("the checker returned nil and did not run the write")

// rolledBack is s, which says that nothing was written, if that can be said of a run that has failed.
func (k *check) rolledBack(s *status.Status) *status.Status {
	if fence.RollsBack(k.checker) {
		return s
	}
	return statusUnknown()
}

// answer gives the handler's own error, which nobody is to see in another form but the client.
func (k *check) answer(err error) error {
	if s := Status(err); s != nil {
		return s.Err()
	}
	return &refused{err, proven(err, fence.RollsBack(k.checker))}
}

// refuse gives a status in place of an error whose words are no client's business.
func (k *check) refuse(ctx context.Context, method string, err error, s *status.Status) error {
	if k.report != nil {
		k.report(ctx, method, err)
	}
	return s.Err()
}

// orStatus is the status of err if it is that of a refusal, else otherwise.
func orStatus(err error, otherwise *status.Status) *status.Status {
	if s := Status(err); s != nil {
		return s
	}
	return otherwise
}
