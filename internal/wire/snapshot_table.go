package wire

import (
	"fmt"
	"io"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// StateError says that a snapshot is sound to the last byte and yet gave another state than the one it was taken of. Which of the two
// members is wrong, or whether it is the code that writes or reads, cannot be told from it.
type StateError struct {
	Index     uint64 // log index of the snapshot
	Want, Got [32]byte
}

func (e *StateError) Error() string {
	return fmt.Sprintf("the snapshot at index %d was taken of the state %x and gave the state %x", e.Index, e.Want[:8], e.Got[:8])
}

// WriteSnapshot writes s and its hash to w: equal state gives equal bytes. It may run while the table that s was taken from goes on changing.
func WriteSnapshot(w io.Writer, s *locktable.Snapshot) error { return writeState(w, s, hashOf(s)) }

// ReadSnapshot reads a table from r, which must end where the snapshot ends. A table is returned only after everything was
// verified: layout, counts, hash, the rules of the state itself, and that it is the state that the snapshot was taken of. Memory is
// bounded by what r really holds.
//
// A snapshot that needs a newer binary is a *LevelError, one that is damaged or cut short is ErrMalformed, one that gives another state
// is a *StateError, and a failure to read is the error of r.
func ReadSnapshot(r io.Reader) (*locktable.Table, error) {
	b, hash, err := readState(r, locktable.NewBuilder)
	if err != nil {
		return nil, err
	}
	t, err := b.Table()
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w: %w", ErrMalformed, err)
	}
	if err := checkHash(t, hash); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return t, nil
}

// checkHash passes over a hash of another version, and over snapshots of before there were hashes.
func checkHash(t *locktable.Table, want *stateHash) error {
	if want == nil || want.version != locktable.HashVersion {
		return nil
	}
	if got := t.Snapshot().Hash(); got != want.hash {
		return &StateError{Index: t.Header().Index, Want: want.hash, Got: got}
	}
	return nil
}
