package gossip

import (
	"errors"
	"fmt"
)

// NewMemberlist is not available on this platform, which has no sockets that memberlist could use: it fails with
// errors.ErrUnsupported. NewMemory works here.
func NewMemberlist(Options) (Gossip, error) {
	return nil, fmt.Errorf("start memberlist: this platform has no sockets: %w", errors.ErrUnsupported)
}
