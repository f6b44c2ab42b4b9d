package quorumlock

import (
	"context"

	"github.com/quorumlock/quorumlock/fence"
)

// Token is a fencing token: it rises with every exclusive grant, for the whole life of a cluster name. Hand it to the resource with
// each write, and let the resource refuse a token lower than one it has accepted; then a holder that was paused past its
// lease cannot write over its successor. Zero is never a valid token. It prints and marshals as a decimal string.
//
// The contexts of Do, Hold.Context and Election.Run carry it, with the lock's name and the cluster's id, to the fences below package fence: for PostgreSQL,
// HTTP and gRPC services, object stores, Redis, and memory.
type Token = fence.Token

// ParseToken reads the decimal form. Zero, a negative number, a sign or a leading zero is a *FieldError.
func ParseToken(s string) (Token, error) { return fence.ParseToken(s) }

// Guard is the fence for resources inside one process; see package fence for databases and services. The zero value is ready.
type Guard = fence.Guard

// granted gives a context that shows the fences of resources what h was granted: one grant for each name. The permits of a semaphore have no token, so with them the
// context carries what it carried before.
func (h *Hold) granted(ctx context.Context) context.Context {
	t := h.Token()
	if t == 0 {
		return ctx
	}
	grants := make([]fence.Grant, len(h.claim.want.names))
	for i, name := range h.claim.want.names {
		grants[i] = fence.Grant{Cluster: h.session().node.clusterIDNow(), Lock: name, Token: t}
	}
	return fence.NewContext(ctx, grants...)
}
