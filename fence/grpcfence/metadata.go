package grpcfence

import (
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/grantlist"
)

// Key is the key of the metadata that carries grants. The values are those of httpfence.Header.
const Key = "quorumlock-grant"

// Outgoing gives a context whose outgoing metadata has the grants that ctx carries, in place of what is there under Key; ctx
// itself if it carries none. A grant that is not valid is a *fence.FieldError. The client interceptors do this.
func Outgoing(ctx context.Context) (context.Context, error) {
	grants := fence.Grants(ctx)
	if len(grants) == 0 {
		return ctx, nil
	}
	list, err := grantlist.Encode(grants)
	if err != nil {
		return ctx, err
	}
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	md.Set(Key, list)
	return metadata.NewOutgoingContext(ctx, md), nil
}

// Incoming gives a context that carries the grants of ctx's incoming metadata; ctx itself if there is no Key in it. Metadata
// that is not exactly what Outgoing writes is a *fence.FieldError; the context carries no grant then, so that checkers refuse
// it. The server interceptors do this.
func Incoming(ctx context.Context) (context.Context, error) {
	lines := metadata.ValueFromIncomingContext(ctx, Key)
	if lines == nil {
		return ctx, nil
	}
	grants, err := grantlist.Decode(Key, lines)
	if err != nil {
		return fence.NewContext(ctx), err
	}
	return fence.NewContext(ctx, grants...), nil
}
