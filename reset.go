package quorumlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/membership"
)

// ResetFounding takes back the promise by which this node takes part in the founding of a cluster, so that another
// attempt can succeed. It is an operator's call for one case: the instance that proposed the cluster is gone for good
// together with its name or its address, so nobody can prove to the others that it will not complete what it began, and
// they wait. [Node.Ready]'s error then names it. Call it on each of those that wait.
//
// The caller's word stands in for the proof: if the proposer comes back after all, it may found a second cluster of this
// name. Nothing can have been locked before a founding is complete, so nothing is lost by it. A node without a promise
// is left as it is.
//
// Errors: ErrFounded for a node that has a cluster's state; a *WaitError if ctx, which bounds a wait for the disk, ends
// first, or if the node has been closed. After any error the promise still stands.
func (n *Node) ResetFounding(ctx context.Context) error {
	const op = "reset founding"
	if err := n.usable(ctx, op); err != nil {
		return err
	}
	err := n.founding.Reset(ctx)
	switch {
	case errors.Is(err, membership.ErrHasState):
		return fmt.Errorf("%s: %w: it belongs to cluster %s", op, ErrFounded, n.clusterIDNow())
	case err != nil && ctx.Err() != nil:
		return &WaitError{Op: op, Waiting: "the disk", Err: ended(ctx)}
	case err != nil:
		return &WaitError{Op: op, Err: err}
	}
	n.log.Warn("founding was reset by an operator: a promise that was given is forgotten")
	return nil
}
