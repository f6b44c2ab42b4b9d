package grpcfence_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/grpcfence"
)

var grant = fence.Grant{Cluster: "cluster-1", Lock: "job-x", Token: 1796157310875344}

// errStore is what goes wrong in a store, with words that are no client's business.
var errStore = errors.New("pq: password authentication failed for user ledger")

type checkerFunc func(ctx context.Context, resource string, write func(context.Context) error) error

func (f checkerFunc) Do(ctx context.Context, resource string, write func(context.Context) error) error {
	return f(ctx, resource, write)
}

// Whatever the checker and the handler come to, a call is no success unless both succeeded, and the client learns whether
// something may have been written.
func TestStatusTellsTheOutcome(t *testing.T) {
	passes := checkerFunc(func(ctx context.Context, _ string, write func(context.Context) error) error { return write(ctx) })
	refuses := func(err error) fence.Checker {
		return checkerFunc(func(context.Context, string, func(context.Context) error) error { return err })
	}
	commits := func(err error) fence.Checker { // with err, after the write; it is repeated with err too
		return checkerFunc(func(ctx context.Context, _ string, write func(context.Context) error) error {
			if werr := write(ctx); werr != nil && err == nil {
				return fmt.Errorf("rolled back: %w", werr)
			}
			return err
		})
	}
	stale := &fence.StaleTokenError{Resource: "r", Token: 41, Highest: 42}
	full := status.Error(codes.ResourceExhausted, "no funds")
	for name, c := range map[string]struct {
		checker fence.Checker
		handler error
		code    codes.Code
		is      error
	}{
		"all is well":                     {passes, nil, codes.OK, nil},
		"stale":                           {refuses(stale), nil, codes.FailedPrecondition, fence.ErrStaleToken},
		"stale, wrapped":                  {refuses(fmt.Errorf("store: %w", stale)), nil, codes.FailedPrecondition, fence.ErrStaleToken},
		"wrong lock":                      {refuses(&fence.WrongLockError{Resource: "r", Lock: "a", Guard: "b"}), nil, codes.FailedPrecondition, fence.ErrWrongLock},
		"no grant":                        {refuses(fence.ErrNoGrant), nil, codes.FailedPrecondition, fence.ErrNoGrant},
		"bad resource, not UTF-8":         {refuses(&fence.FieldError{Field: "resource\xff", Problem: "bad\xff"}), nil, codes.InvalidArgument, fence.ErrInvalid},
		"store down":                      {refuses(errStore), nil, codes.Aborted, fence.ErrNotWritten},
		"cancelled before":                {refuses(context.Canceled), nil, codes.Aborted, fence.ErrNotWritten},
		"nothing run":                     {refuses(nil), nil, codes.Internal, fence.ErrNotWritten},
		"no checker":                      {nil, nil, codes.Internal, fence.ErrNotWritten},
		"commit fails":                    {commits(errStore), nil, codes.Internal, fence.ErrUnknownOutcome},
		"commit unknown":                  {commits(fmt.Errorf("%w: %w", fence.ErrUnknownOutcome, errStore)), nil, codes.Internal, fence.ErrUnknownOutcome},
		"taken back, for certain":         {commits(fmt.Errorf("%w: %w", fence.ErrNotWritten, errStore)), nil, codes.Aborted, fence.ErrNotWritten},
		"handler's own words":             {commits(nil), errors.New("no such account"), codes.Unknown, fence.ErrNotWritten},
		"handler's own end":               {commits(nil), fmt.Errorf("read: %w", context.DeadlineExceeded), codes.DeadlineExceeded, fence.ErrNotWritten},
		"handler's own unavailability":    {passes, status.Error(codes.Unavailable, "no quota \xff"), codes.Unavailable, fence.ErrNotWritten},
		"handler is in doubt":             {passes, fmt.Errorf("%w: %w", fence.ErrUnknownOutcome, stale), codes.Internal, fence.ErrUnknownOutcome},
		"handler's error has no equality": {passes, noEquality{stale, map[string]int{}}, codes.FailedPrecondition, fence.ErrStaleToken},
		"handler's status is none":        {passes, noStatus{errStatusOK}, codes.Unknown, fence.ErrNotWritten},
		"stale at the write":              {commits(stale), nil, codes.FailedPrecondition, fence.ErrStaleToken},
		"handler refuses":                 {commits(nil), full, codes.ResourceExhausted, fence.ErrNotWritten},
		"handler asked a fence":           {passes, fmt.Errorf("inner: %w", stale), codes.FailedPrecondition, fence.ErrStaleToken},
		"stale when repeated":             {commits(stale), full, codes.FailedPrecondition, fence.ErrStaleToken},
		"store down when handler refuses": {commits(errStore), full, codes.ResourceExhausted, fence.ErrNotWritten},
	} {
		t.Run(name, func(t *testing.T) {
			var reported error
			report := grpcfence.OnError(func(_ context.Context, _ string, err error) { reported = err })
			cl := serve(t, func(context.Context, string, url.Values) (string, error) { return "written", c.handler }, nil,
				grpc.UnaryInterceptor(grpcfence.Check(c.checker, resourceOf, report)))
			reply, err := cl.call(fence.NewContext(t.Context(), grant), write, "r", "x")
			if status.Code(err) != c.code || c.is != nil && !errors.Is(err, c.is) || (reply != "") != (c.code == codes.OK) {
				t.Errorf("%q, %v (%v)", reply, err, status.Code(err))
			}
			for _, known := range []error{fence.ErrStaleToken, fence.ErrWrongLock, fence.ErrNoGrant, fence.ErrInvalid, fence.ErrUnknownOutcome, fence.ErrNotWritten} {
				if known != c.is && errors.Is(err, known) {
					t.Errorf("%v is %v too", err, known)
				}
			}
			if err != nil && strings.Contains(err.Error(), "password") {
				t.Errorf("the client is told what failed within: %v", err)
			}
			if told := err != nil && c.handler == nil || name == "stale when repeated" || name == "handler is in doubt"; (reported != nil) != told {
				t.Errorf("reported %v", reported)
			}
		})
	}
}

// noEquality is an error of a type whose values panic when they are compared.
type noEquality struct {
	error
	more any
}

func (e noEquality) Unwrap() error { return e.error }

var errStatusOK = errors.New("no status at all")

// noStatus is an error that gives itself the status of a success.
type noStatus struct{ error }

func (noStatus) GRPCStatus() *status.Status { return status.New(codes.OK, "") }

// intercepted calls what Check gives without a network, with a handler of its own, and gives what the client's interceptors make
// of the error.
func intercepted(t testing.TB, c fence.Checker, handle grpc.UnaryHandler, opts ...grpcfence.Option) (any, error) {
	t.Helper()
	resource := func(context.Context, string, any) (string, error) { return "r", nil }
	reply, err := grpcfence.Check(c, resource, opts...)(fence.NewContext(t.Context(), grant), nil, &grpc.UnaryServerInfo{FullMethod: write}, handle)
	return reply, grpcfence.Error(err)
}

func TestRefusalCarriesTheFacts(t *testing.T) {
	v := newValues()
	c := v.serve(t)
	newer := grant
	newer.Token++
	if err := c.Claim(fence.NewContext(t.Context(), newer), "r"); err != nil {
		t.Fatal(err)
	}
	var stale *fence.StaleTokenError
	err := c.Write(fence.NewContext(t.Context(), grant), "r", "x")
	if !errors.As(err, &stale) || *stale != (fence.StaleTokenError{Resource: "r", Token: grant.Token, Highest: newer.Token}) {
		t.Errorf("stale: %#v", stale)
	}
	long := strings.Repeat("\U0010ffff", fence.MaxName/4-1)
	other := grant
	other.Lock = long + "a"
	if err := c.Write(fence.NewContext(t.Context(), other), long, "x"); err != nil {
		t.Fatal(err)
	}
	var wrong *fence.WrongLockError
	err = c.Write(fence.NewContext(t.Context(), grant), long, "x")
	if !errors.As(err, &wrong) || *wrong != (fence.WrongLockError{Resource: long, Lock: grant.Lock, Guard: other.Lock}) {
		t.Errorf("wrong lock: %v", err)
	}
}

// A panic tells the checker to roll back, and goes on: here to an interceptor that recovers.
func TestPanicRollsBackAndGoesOn(t *testing.T) {
	var rolledBack error
	checker := checkerFunc(func(ctx context.Context, _ string, write func(context.Context) error) error {
		rolledBack = write(ctx)
		return rolledBack
	})
	recovers := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (_ any, err error) {
		defer func() { err = status.Error(codes.DataLoss, fmt.Sprint(recover())) }()
		return handle(ctx, req)
	}
	c := serve(t, func(context.Context, string, url.Values) (string, error) { panic("boom") }, nil,
		grpc.ChainUnaryInterceptor(recovers, grpcfence.Check(checker, resourceOf)))
	err := c.Write(fence.NewContext(t.Context(), grant), "r", "x")
	if rolledBack == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("checker was told %v, caller %v", rolledBack, err)
	}
}

// Metadata that is no list of grants reaches no checker.
func TestBadMetadata(t *testing.T) {
	good := "token=1;cluster=c;lock=l"
	for name, c := range map[string]struct {
		lines []string
		is    error
	}{
		"good":              {[]string{good}, nil},
		"none":              {nil, fence.ErrNoGrant},
		"empty":             {[]string{""}, fence.ErrInvalid},
		"twice":             {[]string{good, good}, fence.ErrInvalid},
		"zero token":        {[]string{"token=0;cluster=c;lock=l"}, fence.ErrInvalid},
		"control character": {[]string{"token=1;cluster=c;lock=%00"}, fence.ErrInvalid},
		"not encoded":       {[]string{"token=1;cluster=c;lock=a b"}, fence.ErrInvalid},
		"too long":          {[]string{good + strings.Repeat("x", 16<<10)}, fence.ErrInvalid},
		"several":           {[]string{good, "token=1;cluster=c;lock=r"}, nil},
		"none of them":      {[]string{good, "token=1;cluster=c;lock=m"}, fence.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValues()
			ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{grpcfence.Key: c.lines})
			if err := v.serve(t).Write(ctx, "r", "x"); !errors.Is(err, c.is) || (err == nil) != (c.is == nil) {
				t.Errorf("%v, want %v", err, c.is)
			}
			if kept := v.guard.Last("r") != (fence.Grant{}); kept != (c.is == nil) {
				t.Errorf("kept %v", v.guard.Last("r"))
			}
		})
	}
}

func TestClientRefusesABadGrant(t *testing.T) {
	v := newValues()
	c := v.serve(t)
	ctx := fence.NewContext(t.Context(), fence.Grant{Cluster: "c", Lock: "l"})
	if err := c.Write(ctx, "r", "x"); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("call: %v", err)
	}
	if _, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, appendAll); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("stream: %v", err)
	}
}

// A holder that is succeeded while its stream is open is refused at its next message.
func TestStream(t *testing.T) {
	v := newValues()
	c := v.serve(t)
	open := func(token fence.Token) grpc.ClientStream {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		t.Cleanup(cancel)
		g := fence.Grant{Cluster: "c", Lock: "l", Token: token}
		s, err := c.conn.NewStream(fence.NewContext(ctx, g), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, appendAll)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	say := func(s grpc.ClientStream, text string) error {
		if err := s.SendMsg(wrapperspb.String(text)); err != nil {
			return err
		}
		return s.RecvMsg(new(wrapperspb.StringValue))
	}
	old, current := open(41), open(42)
	for i, step := range []struct {
		stream grpc.ClientStream
		text   string
		want   error
	}{{old, "a", nil}, {old, "b", nil}, {current, "c", nil}, {old, "x", fence.ErrStaleToken}, {current, "d", nil}} {
		err := say(step.stream, step.text)
		if !errors.Is(err, step.want) || (err == nil) != (step.want == nil) {
			t.Fatalf("step %d: %v, want %v", i, err, step.want)
		}
		var stale *fence.StaleTokenError
		if errors.As(err, &stale) && (stale.Token != 41 || stale.Highest != 42 || status.Code(err) != codes.FailedPrecondition) {
			t.Errorf("%#v", stale)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if got := v.fence["stream"]; got != "abcd" {
		t.Errorf("appended %q", got)
	}
}

// A handler that asks a checker by itself needs only the interceptor that brings the grant.
func TestHandlerAsksByItself(t *testing.T) {
	var guard fence.Guard
	c := serve(t, func(ctx context.Context, _ string, args url.Values) (string, error) {
		return "", fence.Claim(ctx, &guard, args.Get("name"))
	}, nil, grpc.UnaryInterceptor(grpcfence.UnaryServerInterceptor()))
	for _, step := range []struct {
		token fence.Token
		want  error
	}{{42, nil}, {41, fence.ErrStaleToken}} {
		g := fence.Grant{Cluster: "c", Lock: "l", Token: step.token}
		if err := c.Write(fence.NewContext(t.Context(), g), "r", ""); !errors.Is(err, step.want) {
			t.Errorf("token %v: %v", step.token, err)
		}
	}
	if err := c.Write(t.Context(), "r", ""); !errors.Is(err, fence.ErrNoGrant) {
		t.Errorf("without a grant: %v", err)
	}
}

func TestFromLockToGuard(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	node, err := quorumlock.Open(ctx, quorumlock.Config{Cluster: "grpcfence", Expect: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	}()
	v := newValues()
	c := v.serve(t)
	err = quorumlock.NewMutex(node, "job-x").Do(ctx, func(ctx context.Context, token quorumlock.Token) error {
		if err := c.Write(ctx, "r", "x"); err != nil {
			return err
		}
		if want := (fence.Grant{Cluster: node.ClusterID(), Lock: "job-x", Token: token}); v.guard.Last("r") != want {
			t.Errorf("kept %v, want %v", v.guard.Last("r"), want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
