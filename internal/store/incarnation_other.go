//go:build !linux && !wasip1

package store

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// kernelPlace does not know: there is no id of the machine's boot that a process could rely on.
func kernelPlace(*os.File) (place, error) {
	return place{}, fmt.Errorf("on %s one boot of the machine cannot be told from another: %w", runtime.GOOS, errors.ErrUnsupported)
}
