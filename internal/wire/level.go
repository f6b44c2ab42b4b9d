package wire

import (
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// Level is the feature level of this binary: the highest that it understands in full.
const Level = 1

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
	if c.Op == locktable.OpLevel {
		return max(c.Level, 1)
	}
	return 1
}
