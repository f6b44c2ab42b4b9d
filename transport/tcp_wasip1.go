package transport

import (
	"errors"
	"fmt"
)

type noTCP struct{}

// TCP is not available on this platform: its Listen fails with errors.ErrUnsupported.
func TCP() Transport { return noTCP{} }

func (noTCP) Listen(Config) (Endpoint, error) {
	return nil, fmt.Errorf("listen: tcp transport: this platform has no sockets: %w", errors.ErrUnsupported)
}
