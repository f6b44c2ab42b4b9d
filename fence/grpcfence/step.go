package grpcfence

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/quorumlock/quorumlock/fence"
)

// step is one call as the write of a checker, which may run it several times, one after the other; what counts is the last run.
type step struct {
	req         any
	handle      grpc.UnaryHandler
	maxResponse int

	ran      bool
	reply    any
	failed   error // of the last run, as panicked and unfit are
	panicked *panicked
	unfit    bool  // the reply is why it failed
	doubt    error // of any run, that matches fence.ErrUnknownOutcome
}

type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// runError is what the checker is told of a run that failed. It is a type of this package, so that it is known again in whatever
// the checker makes of it: an error of the handler may have no equality, and be found where the handler has nothing to do with
// it.
type runError struct{ error }

func (e *runError) Unwrap() error { return e.error }

func isOfRun(err error) bool {
	var run *runError
	return errors.As(err, &run)
}

// run is the write that the checker is given. An error rolls it back.
func (s *step) run(ctx context.Context) error {
	s.ran, s.panicked, s.unfit = true, nil, false
	if s.failed = s.call(ctx); s.failed == nil {
		return nil
	}
	if errors.Is(s.failed, fence.ErrUnknownOutcome) {
		s.doubt = s.failed
	}
	return &runError{s.failed}
}

// call catches a panic only to tell the checker, so that no step is committed that was broken off half way.
func (s *step) call(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked = &panicked{v}
			err = s.panicked
		}
	}()
	if s.reply, err = s.handle(ctx, s.req); err != nil {
		return err
	}
	err = s.sendable()
	s.unfit = err != nil
	return err
}

// sendable asks what gRPC would ask after the commit. The size that Marshal gives is that of the message, which the limits of
// both sides count.
func (s *step) sendable() error {
	if s.reply == nil {
		return errors.New("there is no reply")
	}
	var message proto.Message
	switch reply := s.reply.(type) {
	case proto.Message:
		message = reply
	case protoadapt.MessageV1:
		message = protoadapt.MessageV2Of(reply)
	default:
		return nil
	}
	encoded, err := proto.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode the reply: %w", err)
	}
	if len(encoded) > s.maxResponse {
		return fmt.Errorf("the reply has %d bytes, %d are allowed", len(encoded), s.maxResponse)
	}
	return nil
}
