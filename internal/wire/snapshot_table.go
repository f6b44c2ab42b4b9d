package wire

import (
	"fmt"
	"io"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// WriteSnapshot writes s to w: equal state gives equal bytes. It may run while the table that s was taken from goes on changing.
func WriteSnapshot(w io.Writer, s *locktable.Snapshot) error { return writeState(w, s) }

// ReadSnapshot reads a table from r, which must end where the snapshot ends. A table is returned only after everything was
// verified: layout, counts, hash, and the rules of the state itself. Memory is bounded by what r really holds.
//
// A snapshot that needs a newer binary is a *LevelError, one that is damaged or cut short is ErrMalformed, and a failure to read
// is the error of r.
func ReadSnapshot(r io.Reader) (*locktable.Table, error) {
	b, err := readState(r, locktable.NewBuilder)
	if err != nil {
		return nil, err
	}
	t, err := b.Table()
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w: %w", ErrMalformed, err)
	}
	return t, nil
}
