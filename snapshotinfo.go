package quorumlock

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/backup"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// What VerifySnapshot and Restore may find wrong with a snapshot. Only of one that is whole to the last byte anything
// else is said than ErrSnapshotTruncated or ErrSnapshotAltered.
var (
	// ErrSnapshotTruncated: bytes are missing.
	ErrSnapshotTruncated = backup.ErrTruncated
	// ErrSnapshotAltered: the bytes are not those that were written.
	ErrSnapshotAltered = backup.ErrAltered
	// ErrSnapshotForeign: it is no snapshot of quorumlock at all, or one of a cluster of another name.
	ErrSnapshotForeign = backup.ErrForeign
	// ErrSnapshotNewer: a newer version wrote it, and is needed to read it. Where the state needs a higher feature level,
	// the error matches ErrLevel too.
	ErrSnapshotNewer = backup.ErrNewer
	// ErrSnapshotKey: it is encrypted, and none of the keys given is the one.
	ErrSnapshotKey = backup.ErrKey
)

// SnapshotInfo is what a snapshot says about the state in it.
type SnapshotInfo struct {
	Name      string // of the object in a store; "" elsewhere
	Cluster   string // name of the cluster
	ClusterID string
	// TokensUpTo is a bound of the tokens that had been granted: what is restored grants higher ones (and higher than
	// this machine's clock, see Restore).
	TokensUpTo  Token
	Index, Term uint64    // of the last log entry in it
	Level       uint32    // the cluster's feature level
	Taken       time.Time // wall clock of the member that wrote it
	// Stale says that the state is that of one member, which asked nobody whether it is the newest; Age is how long ago
	// it had been in touch with its group then, AgeUnknown if it never had.
	Stale bool
	Age   time.Duration

	Sessions, Holds, Waiting int
	Audit                    int // records of forced releases
	Limits                   int // semaphores with a limit

	KeyID  string // which key encrypts it, as its error names it; "": it is in plain text
	Size   int64  // bytes
	SHA256 string // the file's own, over everything before it, in hexadecimal
}

// String is a report for people, of several lines.
func (i SnapshotInfo) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if i.Name != "" {
		line("snapshot %s", i.Name)
	}
	line("cluster %s, id %s, feature level %d", i.Cluster, i.ClusterID, i.Level)
	line("log index %d of term %d, taken at %s", i.Index, i.Term, i.Taken.UTC().Format(time.RFC3339))
	switch {
	case i.Stale && i.Age == AgeUnknown:
		line("stale: of a member that had not been in touch with its group")
	case i.Stale:
		line("stale: of a member that had been in touch with its group %v before", i.Age.Round(time.Millisecond))
	}
	line("tokens up to %d", i.TokensUpTo)
	line("%d sessions, %d holds, %d waiting claims, %d audit records, %d semaphore limits", i.Sessions, i.Holds, i.Waiting, i.Audit, i.Limits)
	if i.KeyID != "" {
		line("encrypted with key %s", i.KeyID)
	}
	fmt.Fprintf(&b, "%d bytes, SHA-256 %s", i.Size, i.SHA256)
	return b.String()
}

func snapshotInfo(f backup.File) SnapshotInfo {
	h := f.Header
	return SnapshotInfo{
		Cluster: h.Cluster, ClusterID: h.ClusterID, TokensUpTo: Token(h.Counter), Index: h.Index, Term: h.Term, Level: max(h.Level, 1), Taken: h.Wall,
		Stale: h.Stale, Age: h.Age, Sessions: h.Sessions, Holds: h.Holds, Waiting: h.Waiting, Audit: h.Audit, Limits: h.Limits,
		KeyID: h.KeyID, Size: f.Size, SHA256: hex.EncodeToString(f.Sum[:]),
	}
}

// VerifySnapshot reads a snapshot to its end and tells whether it can be restored: that it is whole and unchanged, and
// that the state in it decodes, obeys the rules of the lock table, and is the one it was taken of. That is what Restore
// does before it writes anything. keys are those of Config.SnapshotKeys; none are needed for one in plain text.
//
// Errors: ErrSnapshotTruncated, ErrSnapshotAltered, ErrSnapshotForeign, ErrSnapshotNewer, ErrSnapshotKey; what r returns,
// and ctx's, which bounds the call. With ErrSnapshotNewer and ErrSnapshotKey the file is whole, and the SnapshotInfo has
// what could be read of it.
func VerifySnapshot(ctx context.Context, r io.Reader, keys [][]byte) (SnapshotInfo, error) {
	info, _, err := readSnapshot(ctx, r, keys, wire.Binary{})
	if err != nil {
		return info, fmt.Errorf("verify snapshot: %w", err)
	}
	return info, nil
}

// readSnapshot verifies a snapshot, and gives the state in it.
func readSnapshot(ctx context.Context, r io.Reader, keys [][]byte, by wire.Binary) (SnapshotInfo, *locktable.Snapshot, error) {
	if r == nil {
		return SnapshotInfo{}, nil, &FieldError{Field: "reader", Problem: "must not be nil"}
	}
	var state *locktable.Snapshot
	f, err := backup.Read(ctx, r, keys, func(h backup.Header, content io.Reader) error {
		table, err := by.ReadSnapshot(content)
		if err != nil {
			return snapshotFault(err)
		}
		state = table.Snapshot()
		return sameState(&h, state)
	})
	if f.Size == 0 {
		return SnapshotInfo{}, nil, err
	}
	if err != nil {
		return snapshotInfo(f), nil, err
	}
	return snapshotInfo(f), state, nil
}

// snapshotFault says of a file that is whole what is wrong with the state in it.
func snapshotFault(err error) error {
	switch {
	case errors.Is(err, wire.ErrLevel):
		return fmt.Errorf("%w: %w", ErrSnapshotNewer, err)
	case errors.Is(err, wire.ErrMalformed), errors.As(err, new(*wire.StateError)):
		return fmt.Errorf("%w: the file is whole, but not the state in it: %w", ErrSnapshotAltered, err)
	}
	return err
}

// sameState compares what the header promises with the state.
func sameState(h *backup.Header, state *locktable.Snapshot) error {
	want := headerOf(state)
	want.Cluster, want.Term, want.Wall, want.Stale, want.Age = h.Cluster, h.Term, h.Wall, h.Stale, h.Age
	got := *h
	got.KeyID, got.Salt = "", nil
	if !got.Equal(&want) {
		return fmt.Errorf("%w: its header is that of another state", ErrSnapshotAltered)
	}
	return nil
}

// headerOf is what the state itself says.
func headerOf(state *locktable.Snapshot) backup.Header {
	th := state.Header()
	h := backup.Header{
		ClusterID: th.ClusterID, Counter: int64(th.Counter), Index: th.Index, Level: th.Level, Sessions: th.Sessions, Audit: th.Audit, Limits: th.Limits,
	}
	h.Holds, h.Waiting = countClaims(state)
	return h
}

// countClaims passes over claims that can not be granted any more.
func countClaims(state *locktable.Snapshot) (holds, waiting int) {
	for c := range state.Claims() {
		switch {
		case c.Barred:
		case c.Grant == 0:
			waiting++
		default:
			holds++
		}
	}
	return holds, waiting
}
