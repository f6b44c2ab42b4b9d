package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/gossip"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// turnedDown is a member's answer to a request to join or to leave that is neither a yes nor a hint to the leader.
type turnedDown struct {
	by     string // address
	status wire.Status
	detail string
}

func (e *turnedDown) Error() string {
	if e.detail == "" {
		return fmt.Sprintf("%s says %v", e.by, e.status)
	}
	return fmt.Sprintf("%s says %v: %s", e.by, e.status, e.detail)
}

// joinAloud is join that has the log tell when the leader refuses this node: its name belongs to another one that is alive, as
// a rule. The node goes on asking, since the other one may be its own former process whose death nobody has noticed yet; so the
// line comes with the first refusal, and seldom after it. Ready's error says the same.
func (n *Node) joinAloud(ctx context.Context, m gossip.Member) error {
	err := n.join(ctx, m)
	var no *turnedDown
	if errors.As(err, &no) && no.status == wire.StatusRefused && n.lines.Allow("refused", time.Now()) {
		n.log.Warn("the cluster refuses this node; asking on", "by", no.by, "reason", no.detail)
	}
	return err
}
