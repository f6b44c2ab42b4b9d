package wire

import (
	"errors"
	"fmt"
	"io"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// Level is the feature level of this binary: the highest that it understands in full.
const Level = 2

// ErrLevel is the root of every *LevelError.
var ErrLevel = errors.New("feature level too low")

// LevelError says that bytes need a newer binary. They may be perfectly sound: who meets them must stop, not skip them.
type LevelError struct {
	What string // what was being read: "log entry", "snapshot section 9"
	Want uint32 // level that it needs, as far as can be told
	Have uint32 // level of this binary
}

// Error names what was read and both levels.
func (e *LevelError) Error() string {
	return fmt.Sprintf("%s needs feature level %d, this binary has %d", e.What, e.Want, e.Have)
}

// Unwrap is ErrLevel.
func (e *LevelError) Unwrap() error { return ErrLevel }

// UnraisedError says that a command needs a higher feature level than the cluster has been raised to. It is not proposed, since a member may have a binary that
// does not understand it.
type UnraisedError struct {
	Op   locktable.Op
	Want uint32 // level that it needs
	Have uint32 // level of the cluster
}

// Error names the command and both levels.
func (e *UnraisedError) Error() string {
	return fmt.Sprintf("%v needs feature level %d, and the cluster is at %d: as long as a member has an older binary, or does not answer, it stays there", e.Op, e.Want, e.Have)
}

// Unwrap is ErrLevel.
func (e *UnraisedError) Unwrap() error { return ErrLevel }

// Binary is what one binary understands. The zero Binary is this one. Another stands, in tests of clusters of mixed versions, for an older or a newer one.
type Binary struct {
	Level uint32 // highest feature level that it understands in full; zero: Level
	// Later gives ops a higher level than they have: a binary below it knows nothing of them.
	Later map[locktable.Op]uint32
}

// Highest is the highest feature level that the binary understands in full.
func (v Binary) Highest() uint32 {
	if v.Level != 0 {
		return v.Level
	}
	return Level
}

// Needs is the lowest feature level at which a command has its meaning.
func (v Binary) Needs(c *locktable.Command) uint32 { return max(commandLevel(c), v.Later[c.Op]) }

// Allow is nil if a command may be proposed in a cluster that has been raised to level; otherwise an *UnraisedError. A cluster that was never raised is at the
// first level. Raising it is always allowed.
func (v Binary) Allow(c *locktable.Command, level uint32) error {
	level = max(level, firstLevel)
	if need := v.Needs(c); need > level && c.Op != locktable.OpLevel {
		return &UnraisedError{Op: c.Op, Want: need, Have: level}
	}
	return nil
}

// firstLevel is what every binary understands.
const firstLevel = 1

// AppendBatch is the function of that name, for the levels that this binary gives to commands.
func (v Binary) AppendBatch(dst []byte, wall int64, cmds []*locktable.Command) []byte {
	return encodeEntry(dst, wall, cmds, v.Needs)
}

// DecodeBatch is the function of that name as this binary does it.
func (v Binary) DecodeBatch(b []byte) (*Batch, error) {
	batch := new(Batch)
	if err := decodeEntry(b, v, batch); err != nil {
		return nil, err
	}
	return batch, nil
}

// DecodeBatchInto is DecodeBatch into a batch of before, whose slice of commands is used again. What the commands point to is always new.
func (v Binary) DecodeBatchInto(batch *Batch, b []byte) error { return decodeEntry(b, v, batch) }

// ReadSnapshot is the function of that name as this binary does it.
func (v Binary) ReadSnapshot(r io.Reader) (*locktable.Table, error) {
	return readTable(r, v.Highest(), always)
}

// VerifySnapshot is the function of that name as this binary does it.
func (v Binary) VerifySnapshot(r io.Reader, goOn func() bool) error {
	_, err := readTable(r, v.Highest(), goOn)
	return err
}

// newer is the error for bytes of an unknown format. No binary of our level or below wrote it, whatever level it names.
func newer(what string, level uint32) error {
	return &LevelError{What: what, Want: max(level, Level+1), Have: Level}
}

// commandLevel is the lowest level at which a command has its meaning. An op, a field or a mode that comes later must be given
// its level here: an entry of a lower level that contains it has to be malformed on new binaries too, since it is on old ones.
//
// Raising the level needs that level itself, so a binary that is too old stops at this very entry and not at the first one
// that happens to use something new.
func commandLevel(c *locktable.Command) uint32 {
	switch {
	case c.Op == locktable.OpLevel:
		return max(c.Level, firstLevel)
	case c.Act != 0:
		return locktable.LevelActs
	}
	return locktable.LevelOf(c.Op)
}
