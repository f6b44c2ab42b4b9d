package grpcfence

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/quorumlock/quorumlock/fence"
)

// Domain is the domain of the google.rpc.ErrorInfo by which refusals are told.
const Domain = "github.com/quorumlock/quorumlock"

// The reasons of refusals; they are part of the interface, so the list only grows.
const (
	reasonStale      = "STALE_TOKEN"
	reasonWrong      = "WRONG_LOCK"
	reasonNoGrant    = "NO_GRANT"
	reasonInvalid    = "INVALID"
	reasonUnknown    = "UNKNOWN_OUTCOME"
	reasonNotWritten = "NOT_WRITTEN"
)

// ErrNotWritten is fence.ErrNotWritten: the call was not sent, or the server proves by its status that the step was not
// committed, so nothing was written in it. With status ABORTED it was the fence that failed, and the same call may be sent again.
var ErrNotWritten = fence.ErrNotWritten

// Status gives the status of a refusal by a checker, or of a write whose outcome is unknown; nil if err has none of the errors
// of package fence in it. The server interceptors do this with the errors of handlers.
func Status(err error) *status.Status {
	var stale *fence.StaleTokenError
	var wrong *fence.WrongLockError
	var field *fence.FieldError
	switch {
	case errors.Is(err, fence.ErrUnknownOutcome):
		return statusUnknown()
	case errors.As(err, &stale):
		return told(codes.FailedPrecondition, stale.Error(), reasonStale,
			"resource", stale.Resource, "token", stale.Token.String(), "highest", stale.Highest.String())
	case errors.As(err, &wrong):
		return told(codes.FailedPrecondition, wrong.Error(), reasonWrong, "resource", wrong.Resource, "lock", wrong.Lock, "guard", wrong.Guard)
	case errors.Is(err, fence.ErrNoGrant):
		return told(codes.FailedPrecondition, "the call has no metadata "+Key, reasonNoGrant)
	case errors.As(err, &field):
		return told(codes.InvalidArgument, field.Error(), reasonInvalid, "field", field.Field, "problem", cmp.Or(field.Problem, "is not valid"))
	}
	return nil
}

func statusUnknown() *status.Status {
	return told(codes.Internal, fence.ErrUnknownOutcome.Error(), reasonUnknown)
}

// proven gives the status of an error of a handler, with the proof that nothing was written or without: what such an error has of
// this package is of another call, which the handler has made, and proves nothing about this one.
func proven(err error, notWritten bool) *status.Status {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err) // as gRPC does
	}
	if s.Code() == codes.OK {
		s = status.New(codes.Unknown, err.Error())
	}
	p := s.Proto()
	p.Message = strings.ToValidUTF8(p.Message, "\uFFFD")
	p.Details = slices.DeleteFunc(p.Details, func(detail *anypb.Any) bool {
		var info errdetails.ErrorInfo
		return detail.UnmarshalTo(&info) == nil && info.Domain == Domain
	})
	if notWritten {
		p.Details = append(p.Details, told(s.Code(), "", reasonNotWritten).Proto().Details...)
	}
	return status.FromProto(p)
}

// told makes a status of pairs of keys and values. Protocol buffers take UTF-8 only, and a status that cannot be encoded would
// become another.
func told(code codes.Code, text, reason string, pairs ...string) *status.Status {
	facts := make(map[string]string, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		facts[pairs[i]] = strings.ToValidUTF8(pairs[i+1], "\uFFFD")
	}
	s := status.New(code, strings.ToValidUTF8(text, "\uFFFD"))
	detailed, err := s.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: Domain, Metadata: facts})
	if err != nil {
		return s
	}
	return detailed
}

// refused is an error of package fence that remains the status it came as.
type refused struct {
	error
	status *status.Status
}

func (r *refused) Unwrap() error              { return r.error }
func (r *refused) GRPCStatus() *status.Status { return r.status }

// Error gives the error of package fence that a call's status tells of, ErrNotWritten among them; both errors.As and
// status.FromError find what they look for in it. Any other error, and nil, is returned as it is: it tells nothing of the write.
// The client interceptors do this, and more.
func Error(err error) error {
	if known := recognised(err); known != nil {
		return known
	}
	return err
}

// recognised is nil for an error that is not of a fence.
func recognised(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return nil
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.Domain == Domain {
			if cause := refusal(s.Code(), info.Reason, info.Metadata); cause != nil {
				return &refused{named(cause, s), s}
			}
		}
	}
	return nil
}

// named adds what the service said to an error that has no words for it.
func named(cause error, s *status.Status) error {
	if cause != ErrNotWritten {
		return cause
	}
	return fmt.Errorf("%w: %s", cause, s.Message())
}

// refusal is nil for what Status cannot have written, so that nothing else is taken for a refusal.
func refusal(code codes.Code, reason string, facts map[string]string) error {
	if reason == reasonNotWritten && code != codes.OK {
		return ErrNotWritten
	}
	type kind struct {
		code   codes.Code
		reason string
	}
	switch (kind{code, reason}) {
	case kind{codes.FailedPrecondition, reasonStale}:
		return staleToken(facts)
	case kind{codes.FailedPrecondition, reasonWrong}:
		wrong := &fence.WrongLockError{Resource: facts["resource"], Lock: facts["lock"], Guard: facts["guard"]}
		if fence.CheckResource(wrong.Resource) == nil && wrong.Lock != wrong.Guard {
			return wrong
		}
	case kind{codes.FailedPrecondition, reasonNoGrant}:
		return fence.ErrNoGrant
	case kind{codes.InvalidArgument, reasonInvalid}:
		if facts["problem"] != "" {
			return &fence.FieldError{Field: facts["field"], Problem: facts["problem"]}
		}
	case kind{codes.Internal, reasonUnknown}:
		return fence.ErrUnknownOutcome
	}
	return nil
}

func staleToken(facts map[string]string) error {
	token, err := fence.ParseToken(facts["token"])
	if err != nil {
		return nil
	}
	highest, err := fence.ParseToken(facts["highest"])
	if err != nil || highest < token || fence.CheckResource(facts["resource"]) != nil {
		return nil
	}
	return &fence.StaleTokenError{Resource: facts["resource"], Token: token, Highest: highest}
}
