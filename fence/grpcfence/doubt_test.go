package grpcfence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/grpcfence"
)

// A checker's word that the outcome is unknown stands, whatever its last run came to, and so does what a run has said of a write
// past the step.
func TestUnknownOutcomeOutlivesAFailedRun(t *testing.T) {
	stale := &fence.StaleTokenError{Resource: "r", Token: 41, Highest: 42}
	twice := func(doubt error) fence.Checker {
		return checkerFunc(func(ctx context.Context, _ string, write func(context.Context) error) error {
			_ = write(ctx)
			return errors.Join(doubt, write(ctx))
		})
	}
	for name, c := range map[string]struct {
		checker     fence.Checker
		first, last error
	}{
		"checker, failed":     {twice(fence.ErrUnknownOutcome), nil, errStore},
		"checker, has status": {twice(fence.ErrUnknownOutcome), nil, status.Error(codes.AlreadyExists, "exists")},
		"checker, refused":    {twice(fence.ErrUnknownOutcome), nil, stale},
		"run":                 {twice(nil), fmt.Errorf("bucket: %w", fence.ErrUnknownOutcome), status.Error(codes.AlreadyExists, "exists")},
	} {
		runs := 0
		_, err := intercepted(t, c.checker, func(context.Context, any) (any, error) {
			if runs++; runs == 1 {
				return wrapperspb.String(""), c.first
			}
			return nil, c.last
		})
		if !errors.Is(err, fence.ErrUnknownOutcome) || status.Code(err) != codes.Internal || runs != 2 {
			t.Errorf("%s: %v after %d runs", name, err, runs)
		}
	}
}

type rollsBack struct{ fence.Guard }

func (*rollsBack) RollsBack() bool { return true }

// A reply that gRPC could not send fails the step, and is not found out after the commit. Where nothing can be taken back the
// outcome is unknown.
func TestReplyThatCannotBeSentFailsTheStep(t *testing.T) {
	for name, c := range map[string]struct {
		reply any
		good  bool
	}{
		"none":             {nil, false},
		"not UTF-8":        {wrapperspb.String("\xff"), false},
		"too long":         {wrapperspb.String(strings.Repeat("x", 98)), false},
		"as long as it is": {wrapperspb.String(strings.Repeat("x", 97)), true},
		"empty":            {wrapperspb.String(""), true},
		"of another codec": {"text", true},
	} {
		for checker, want := range map[fence.Checker]error{new(rollsBack): fence.ErrNotWritten, new(fence.Guard): fence.ErrUnknownOutcome} {
			var reported error
			report := grpcfence.OnError(func(_ context.Context, _ string, err error) { reported = err })
			reply, err := intercepted(t, checker, func(context.Context, any) (any, error) { return c.reply, nil }, grpcfence.MaxResponse(99), report)
			if c.good && (err != nil || reply != c.reply) || !c.good && (!errors.Is(err, want) || reported == nil || status.Code(err) != codes.Internal) {
				t.Errorf("%s: %v, %v, reported %v", name, reply, err, reported)
			}
		}
	}
}

// What a handler fails with behind a Guard proves nothing of what it did before; nor does what another call has proven about
// itself.
func TestWhatCannotBeTakenBackIsNotProven(t *testing.T) {
	elsewhere := grpcfence.Error(told(t, codes.Aborted, grpcfence.Domain, "NOT_WRITTEN", nil))
	if !errors.Is(elsewhere, grpcfence.ErrNotWritten) {
		t.Fatal(elsewhere)
	}
	handle := func(context.Context, any) (any, error) { return nil, fmt.Errorf("downstream: %w", elsewhere) }
	for name, err := range map[string]error{
		"behind a Guard": func() error { _, err := intercepted(t, new(fence.Guard), handle); return err }(),
		"asks by itself": func() error {
			_, err := grpcfence.UnaryServerInterceptor()(t.Context(), nil, &grpc.UnaryServerInfo{}, handle)
			return err
		}(),
		"is not fenced": func() error {
			unfenced := func(context.Context, string, any) (string, error) { return "", grpcfence.ErrUnfenced }
			_, err := grpcfence.Check(new(fence.Guard), unfenced)(t.Context(), nil, &grpc.UnaryServerInfo{}, handle)
			return err
		}(),
	} {
		sent := status.Convert(err).Err() // as it goes over the wire
		if errors.Is(grpcfence.Error(sent), grpcfence.ErrNotWritten) || status.Code(sent) != codes.Aborted || !strings.Contains(sent.Error(), "downstream") {
			t.Errorf("%s: %v", name, grpcfence.Error(sent))
		}
	}
}

func TestCheckNotSetUp(t *testing.T) {
	resource := func(context.Context, string, any) (string, error) { return "r", nil }
	var nobody *fence.Guard
	guard := new(fence.Guard)
	for name, check := range map[string]func(grpcfence.Option) grpc.UnaryServerInterceptor{
		"no checker":     func(o grpcfence.Option) grpc.UnaryServerInterceptor { return grpcfence.Check(nil, resource, o) },
		"checker of nil": func(o grpcfence.Option) grpc.UnaryServerInterceptor { return grpcfence.Check(nobody, resource, o) },
		"checker no func": func(o grpcfence.Option) grpc.UnaryServerInterceptor {
			return grpcfence.Check(checkerFunc(nil), resource, o)
		},
		"no resource":   func(o grpcfence.Option) grpc.UnaryServerInterceptor { return grpcfence.Check(guard, nil, o) },
		"option of nil": func(o grpcfence.Option) grpc.UnaryServerInterceptor { return grpcfence.Check(guard, resource, nil, o) },
		"length of reply": func(o grpcfence.Option) grpc.UnaryServerInterceptor {
			return grpcfence.Check(guard, resource, o, grpcfence.MaxResponse(-1))
		},
	} {
		var reported error
		report := grpcfence.OnError(func(_ context.Context, _ string, err error) { reported = err })
		_, err := check(report)(fence.NewContext(t.Context(), grant), nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) {
			t.Errorf("%s: called", name)
			return nil, nil
		})
		if status.Code(err) != codes.Internal || !errors.Is(reported, fence.ErrInvalid) || !errors.Is(grpcfence.Error(err), grpcfence.ErrNotWritten) {
			t.Errorf("%s: %v, reported %v", name, err, reported)
		}
	}
}
