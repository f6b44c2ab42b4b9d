package store

import (
	"context"
	"errors"
	"fmt"
)

// openDir refuses: without locks and mappings of files there is no safe data directory.
func openDir(_ context.Context, opt Options) (*medium, error) {
	return nil, &DirError{Dir: opt.Dir, Err: fmt.Errorf("this platform has no files that can be locked: %w", errors.ErrUnsupported)}
}

// CheckVacant leaves it to Open to refuse directories.
func CheckVacant(string) error { return nil }
