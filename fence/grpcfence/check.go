package grpcfence

import (
	"context"
	"errors"
	"fmt"

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
// An error of the handler rolls the step back and is returned as it is; a panic does too, and then goes on. The reply goes out
// when the step is committed. A checker that repeats a step, as after a serialization failure, runs the handler once more with
// the same request, which it must not change.
//
// The errors of the checker become the statuses that the package comment lists; what failed within a checker is not told to the
// client but to OnError. With a nil c or resource every call is refused with status INTERNAL, and OnError is told the
// *fence.FieldError.
func Check(c fence.Checker, resource Resource, opts ...Option) grpc.UnaryServerInterceptor {
	k := &check{checker: c, resource: resource}
	for _, opt := range opts {
		opt(k)
	}
	return k.intercept
}

// Resource names what a call writes to. An error refuses the call: with INVALID_ARGUMENT if it is a *fence.FieldError, else
// with INTERNAL.
type Resource = func(ctx context.Context, fullMethod string, req any) (string, error)

// Option is an option of Check.
type Option func(*check)

// OnError has report called with each error of a checker or a Resource that a call was refused for. Calls come from the
// goroutines of the calls, many at once.
func OnError(report func(ctx context.Context, fullMethod string, err error)) Option {
	return func(k *check) { k.report = report }
}

type check struct {
	checker  fence.Checker
	resource Resource
	report   func(context.Context, string, error)
}

func (k *check) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := info.FullMethod
	if k.checker == nil || k.resource == nil {
		k.tell(ctx, method, &fence.FieldError{Field: "Check", Problem: "must have a checker and a resource function"})
		return nil, errSetUp
	}
	ctx, err := Incoming(ctx)
	if err != nil {
		return nil, k.refuse(ctx, method, err, nil)
	}
	name, err := k.resource(ctx, method, req)
	switch {
	case errors.Is(err, ErrUnfenced):
		return handle(ctx, req)
	case err != nil:
		return nil, k.refuse(ctx, method, err, status.Error(codes.Internal, "the resource of the call is not known"))
	}
	s := &step{req: req, handle: handle}
	err = k.checker.Do(ctx, name, s.run)
	return k.end(ctx, method, s, err)
}

// end answers a call whose step has ended. If the last run of the handler failed the step was rolled back, whatever else the
// checker says; only a refusal that is not of that run's making, but came when the checker was to repeat it, says more.
func (k *check) end(ctx context.Context, method string, s *step, err error) (any, error) {
	switch {
	case s.panicked != nil:
		panic(s.panicked.value) // as if there were no interceptor
	case err == nil && s.ran && s.failed == nil:
		return s.reply, nil
	case s.failed != nil && (Status(err) == nil || errors.Is(err, s.failed)):
		return nil, statusOf(s.failed)
	case err == nil:
		k.tell(ctx, method, errNotRun)
		return nil, errSetUp
	case !s.ran:
		return nil, k.refuse(ctx, method, err, status.Error(codes.Unavailable, "the fence could not be asked: nothing was written"))
	}
	return nil, k.refuse(ctx, method, err, Status(fence.ErrUnknownOutcome).Err())
}

var (
	errNotRun = errors.New("the checker returned nil and did not run the write")
	errSetUp  = status.Error(codes.Internal, "the fence is not set up")
)

// refuse gives the status of err, or another for an error whose words are no client's business.
func (k *check) refuse(ctx context.Context, method string, err, otherwise error) error {
	k.tell(ctx, method, err)
	if s := Status(err); s != nil {
		return s.Err()
	}
	return otherwise
}

func (k *check) tell(ctx context.Context, method string, err error) {
	if k.report != nil {
		k.report(ctx, method, err)
	}
}

// step is one call as the write of a checker, which may run it several times, one after the other; what counts is the last run.
type step struct {
	req      any
	handle   grpc.UnaryHandler
	ran      bool
	reply    any
	failed   error
	panicked *panicked
}

type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// run catches a panic only to tell the checker, so that no step is committed that was broken off half way.
func (s *step) run(ctx context.Context) (err error) {
	s.ran, s.panicked = true, nil
	defer func() {
		if v := recover(); v != nil {
			s.panicked = &panicked{v}
			err = s.panicked
		}
		s.failed = err
	}()
	s.reply, err = s.handle(ctx, s.req)
	return err
}
