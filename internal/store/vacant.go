//go:build !wasip1

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// CheckVacant returns a *DirError if there is something in a directory that no member may be made beside: anything but what a first Open that was interrupted
// leaves. Whether a member has lived in what is there Open and HasState tell. A directory that does not exist is vacant, and so is "".
func CheckVacant(dir string) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &DirError{Dir: dir, Err: err}
	}
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == metaName }) {
		return nil
	}
	for _, e := range entries {
		if name := e.Name(); name != lockName && name != lostFound && !strings.HasSuffix(name, tempSuffix) {
			return &DirError{Dir: dir, Err: fmt.Errorf("it is not empty: there is %s", name)}
		}
	}
	return nil
}

const lostFound = "lost+found" // of a file system made a moment ago
