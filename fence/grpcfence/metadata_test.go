package grpcfence_test

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/grpcfence"
)

// A service that forwards metadata and holds a lock of its own sends its own grant, and changes nothing else.
func TestOutgoingReplacesWhatIsForwarded(t *testing.T) {
	forwarded := metadata.MD{grpcfence.Key: {"token=1;cluster=c;lock=l"}, "other": {"kept"}}
	ctx := metadata.NewOutgoingContext(t.Context(), forwarded)
	for name, c := range map[string]struct {
		grants []fence.Grant
		want   string
	}{
		"with a grant": {[]fence.Grant{grant}, "token=1796157310875344;cluster=cluster-1;lock=job-x"},
		"without one":  {nil, "token=1;cluster=c;lock=l"},
	} {
		out, err := grpcfence.Outgoing(fence.NewContext(ctx, c.grants...))
		if err != nil {
			t.Fatal(err)
		}
		md, _ := metadata.FromOutgoingContext(out)
		if got := md[grpcfence.Key]; !slices.Equal(got, []string{c.want}) || !slices.Equal(md["other"], []string{"kept"}) {
			t.Errorf("%s: %v", name, md)
		}
	}
	if got := forwarded[grpcfence.Key]; !slices.Equal(got, []string{"token=1;cluster=c;lock=l"}) {
		t.Errorf("the caller's metadata has become %v", got)
	}
}

// A caller that goes on after the error finds no other grant in the context.
func TestIncomingThatIsNotValidLeavesNoGrant(t *testing.T) {
	ctx := metadata.NewIncomingContext(fence.NewContext(t.Context(), grant), metadata.MD{grpcfence.Key: {"x"}})
	ctx, err := grpcfence.Incoming(ctx)
	if !errors.Is(err, fence.ErrInvalid) || len(fence.Grants(ctx)) > 0 {
		t.Errorf("%v, carrying %v", err, fence.Grants(ctx))
	}
}
