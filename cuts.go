package quorumlock

import (
	"sync"

	"github.com/quorumlock/quorumlock/transport"
)

// raftCuts keeps the raft streams of the endpoint cut as long as there is a reason: a write hangs, or the node takes no part any more. The
// reasons are kept apart, so that the end of one does not undo another's cut.
type raftCuts struct {
	mu       sync.Mutex
	endpoint transport.Endpoint // nil until it listens; the store below may fail before
	stalled  bool
	ended    bool
}

func (c *raftCuts) attach(e transport.Endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endpoint = e
	c.enforce()
}

// stall begins or ends the cut for a write that hangs.
func (c *raftCuts) stall(stalled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled = stalled
	c.enforce()
}

// end cuts for good.
func (c *raftCuts) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.enforce()
}

// renew closes the streams that are open; new ones are accepted if there is no reason against it.
func (c *raftCuts) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endpoint != nil {
		c.endpoint.CutRaft()
	}
	c.enforce()
}

func (c *raftCuts) enforce() {
	switch {
	case c.endpoint == nil:
	case c.stalled || c.ended:
		c.endpoint.CutRaft()
	default:
		c.endpoint.RestoreRaft()
	}
}
