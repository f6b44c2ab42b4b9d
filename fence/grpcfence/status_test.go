package grpcfence_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/grpcfence"
)

// told is a status with an ErrorInfo, as an error.
func told(t testing.TB, code codes.Code, domain, reason string, facts map[string]string) error {
	t.Helper()
	s, err := status.New(code, "refused").WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: domain, Metadata: facts})
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

// A server that lies, is broken, or is no fence is not taken for one that refused.
func TestErrorOfHostileStatuses(t *testing.T) {
	type facts = map[string]string
	good := facts{"resource": "r", "token": "41", "highest": "42"}
	without := func(key, value string) facts {
		f := facts{"resource": "r", "token": "41", "highest": "42"}
		if f[key] = value; value == "" {
			delete(f, key)
		}
		return f
	}
	const refused = codes.FailedPrecondition
	for name, c := range map[string]struct {
		err   error
		stale bool
	}{
		"good":               {told(t, refused, grpcfence.Domain, "STALE_TOKEN", good), true},
		"another domain":     {told(t, refused, "example.com", "STALE_TOKEN", good), false},
		"another code":       {told(t, codes.Aborted, grpcfence.Domain, "STALE_TOKEN", good), false},
		"unknown reason":     {told(t, refused, grpcfence.Domain, "OUT_OF_CHEESE", good), false},
		"no token":           {told(t, refused, grpcfence.Domain, "STALE_TOKEN", without("token", "")), false},
		"no facts":           {told(t, refused, grpcfence.Domain, "STALE_TOKEN", nil), false},
		"negative token":     {told(t, refused, grpcfence.Domain, "STALE_TOKEN", without("token", "-1")), false},
		"not stale":          {told(t, refused, grpcfence.Domain, "STALE_TOKEN", without("token", "43")), false},
		"control character":  {told(t, refused, grpcfence.Domain, "STALE_TOKEN", without("resource", "\x1b[2J")), false},
		"locks are equal":    {told(t, refused, grpcfence.Domain, "WRONG_LOCK", facts{"resource": "r", "lock": "l", "guard": "l"}), false},
		"invalid what":       {told(t, codes.InvalidArgument, grpcfence.Domain, "INVALID", nil), false},
		"proof of a success": {told(t, codes.FailedPrecondition, "example.com", "NOT_WRITTEN", nil), false},
		"no detail":          {status.Error(refused, "stale"), false},
		"no status":          {errors.New("stale"), false},
		"nil":                {nil, false},
	} {
		err := grpcfence.Error(c.err)
		if errors.Is(err, fence.ErrStaleToken) != c.stale || !c.stale && err != c.err {
			t.Errorf("%s: %v", name, err)
		}
		if status.Code(err) != status.Code(c.err) {
			t.Errorf("%s: the status has become %v", name, status.Code(err))
		}
	}
}

// Whatever comes as metadata, what a context carries afterwards is valid, and goes out again the same.
func FuzzIncoming(f *testing.F) {
	f.Add("token=42;cluster=c;lock=job-x", "")
	f.Add("lock=%ff;cluster=c;token=1", "token=1;cluster=c;lock=l")
	f.Add("", ",")
	f.Fuzz(func(t *testing.T, one, two string) {
		ctx, err := grpcfence.Incoming(metadata.NewIncomingContext(context.Background(), metadata.MD{grpcfence.Key: []string{one, two}[:1+min(1, len(two))]}))
		grants := fence.Grants(ctx)
		if err != nil {
			if !errors.Is(err, fence.ErrInvalid) || len(grants) > 0 {
				t.Fatalf("%v with %v", err, grants)
			}
			return
		}
		out, err := grpcfence.Outgoing(ctx)
		if err != nil {
			if len(one)+len(two) < 4<<10 {
				t.Fatal(err)
			}
			return
		}
		md, _ := metadata.FromOutgoingContext(out)
		again, err := grpcfence.Incoming(metadata.NewIncomingContext(context.Background(), md))
		if err != nil || !slices.Equal(fence.Grants(again), grants) {
			t.Fatalf("%v became %v, %v", grants, fence.Grants(again), err)
		}
	})
}

func FuzzError(f *testing.F) {
	f.Add(uint32(9), "STALE_TOKEN", "r", "41", "42")
	f.Add(uint32(9), "WRONG_LOCK", "r", "l", "m")
	f.Add(uint32(3), "INVALID", "f", "p", "")
	f.Fuzz(func(t *testing.T, code uint32, reason, resource, token, highest string) {
		s, err := status.New(codes.Code(code), "refused").WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: grpcfence.Domain, Metadata: map[string]string{
			"resource": resource, "token": token, "highest": highest, "lock": token, "guard": highest, "field": resource, "problem": token,
		}})
		if err != nil {
			return // not UTF-8, or no error at all
		}
		var stale *fence.StaleTokenError
		if errors.As(grpcfence.Error(s.Err()), &stale) && (stale.Token <= 0 || stale.Highest < stale.Token || fence.CheckResource(stale.Resource) != nil) {
			t.Fatalf("%#v", stale)
		}
	})
}
