// Package snapshots says where snapshots of a cluster's state are kept: the Store that a quorumlock.Config names, the
// names of the objects in it, and their order. A directory is one (package dirsnap), a bucket of an S3-compatible
// object store another (package s3snap, a module of its own); whoever writes a third runs package snaptest on it.
package snapshots

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

var (
	// ErrExists: there is an object of that name already. It was not touched.
	ErrExists = errors.New("snapshot exists")
	// ErrNotFound: there is no object of that name.
	ErrNotFound = errors.New("no such snapshot")
	// ErrName: the name is none of an object; see CheckName.
	ErrName = errors.New("not a snapshot name")
)

// Store keeps immutable objects under names. It knows nothing of what they hold.
//
// Whole: an object is seen, by Open and by List, only when all of it is there. Whatever ends a Create early, a crash, a
// connection, a full disk, it leaves no object, or, where the store cannot tell, a whole one.
//
// Durable: when Create has returned nil, the object is there after a crash of this machine, and every Open and List that
// begins afterwards, anywhere, finds it.
//
// Immutable: no Create ever replaces an object. Of several for one name at the same time one succeeds.
//
// All methods may be called at any time from several goroutines and processes at once, and return soon after ctx has
// ended, with an error that wraps its own. Names for which CheckName fails are refused with that error.
type Store interface {
	// Create makes an object of what write writes. ErrExists if there is one of that name, which may be found out before
	// write is called, or only after. write is called at most once, on any goroutine but not after Create has returned;
	// its error is wrapped in Create's, and nothing is created then. An error that is neither, nor ctx's, may come of a
	// request whose outcome nobody knows.
	Create(ctx context.Context, name string, write func(w io.Writer) error) error
	// Open reads an object from its beginning; ErrNotFound. The reader, which must be closed, gives an error other than
	// io.EOF if it ends before the object does. It ends with ctx.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List gives the objects whose names begin with prefix, ordered by name; none is no error. What in the place is not
	// an object, such as one that is being made or a file of another kind, is left out.
	List(ctx context.Context, prefix string) ([]Object, error)
	// Remove removes an object, if it is there: removing what is not is no error.
	Remove(ctx context.Context, name string) error
}

// Object is an entry of List.
type Object struct {
	Name     string
	Size     int64     // bytes
	Modified time.Time // when it was made, by the clock of the store
}

const maxName = 250

// CheckName tells whether name can be that of an object: 1 to 250 letters and digits of ASCII, '.', '_', '-' and '~', and
// no '.' at its beginning. So it is a file name, a key and a part of an URL everywhere. Otherwise the error wraps
// ErrName.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrName)
	case len(name) > maxName:
		return fmt.Errorf("%w: it has %d bytes, %d are the most", ErrName, len(name), maxName)
	case name[0] == '.':
		return fmt.Errorf("%w: %q begins with a dot", ErrName, name)
	}
	for i := range len(name) {
		if !plain(name[i]) {
			return fmt.Errorf("%w: %q has other characters than letters, digits and .-_~", ErrName, name)
		}
	}
	return nil
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '-' || c == '_' || c == '~'
}
