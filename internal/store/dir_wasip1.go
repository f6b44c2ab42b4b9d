package store

import (
	"context"
	"errors"
)

// openDir refuses: without locks and mappings of files there is no safe data directory.
func openDir(_ context.Context, opt Options) (*medium, error) {
	return nil, &DirError{Dir: opt.Dir, Err: errors.ErrUnsupported}
}
