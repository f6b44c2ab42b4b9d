package wire

import (
	"errors"
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

// ErrStopped is returned by a function that was told not to go on.
var ErrStopped = errors.New("stopped: nobody waits for it any more")

// WriteSnapshot writes s and its hash to w: equal state gives equal bytes. It may run while the table that s was taken from goes on changing.
func WriteSnapshot(w io.Writer, s *locktable.Snapshot) error { return WriteSnapshotWhile(w, s, always) }

// WriteSnapshotWhile is WriteSnapshot for as long as goOn, which is asked every few kilobytes, says so; then it is ErrStopped.
func WriteSnapshotWhile(w io.Writer, s *locktable.Snapshot, goOn func() bool) error {
	hash, done := hashWhile(s, goOn)
	if !done {
		return fmt.Errorf("write snapshot: %w", ErrStopped)
	}
	return writeState(heedingWriter{w, goOn}, s, hash)
}

func always() bool { return true }

type heedingWriter struct {
	to   io.Writer
	goOn func() bool
}

func (w heedingWriter) Write(p []byte) (int, error) {
	if !w.goOn() {
		return 0, ErrStopped
	}
	return w.to.Write(p)
}

// ReadSnapshot reads a table from r, which must end where the snapshot ends. A table is returned only after everything was
// verified: layout, counts, hash, the rules of the state itself, and that it is the state that the snapshot was taken of. Memory is
// bounded by what r really holds.
//
// A snapshot that needs a newer binary is a *LevelError, one that is damaged or cut short is ErrMalformed, one that gives another state
// is a *StateError, and a failure to read is the error of r.
func ReadSnapshot(r io.Reader) (*locktable.Table, error) { return readTable(r, Level, always) }

// VerifySnapshot tells whether ReadSnapshot would accept what r holds, by doing the same; for as long as goOn, which is asked every few kilobytes while the
// state is hashed, says so. Reading itself goes on as long as r gives something.
func VerifySnapshot(r io.Reader, goOn func() bool) error {
	_, err := readTable(r, Level, goOn)
	return err
}

func readTable(r io.Reader, have uint32, goOn func() bool) (*locktable.Table, error) {
	b, hash, err := readStateAt(r, have, locktable.NewBuilder)
	if err != nil {
		return nil, err
	}
	t, err := b.Table()
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w: %w", ErrMalformed, err)
	}
	if err := checkHash(t, hash, goOn); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return t, nil
}

// checkHash passes over a hash of another version, and over snapshots of before there were hashes.
func checkHash(t *locktable.Table, want *stateHash, goOn func() bool) error {
	if want == nil || want.version != locktable.HashVersion {
		return nil
	}
	switch got, done := t.Snapshot().HashWhile(goOn); {
	case !done:
		return ErrStopped
	case got != want.hash:
		return &StateError{Index: t.Header().Index, Want: want.hash, Got: got}
	}
	return nil
}
