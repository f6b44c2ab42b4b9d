package wire

import (
	"fmt"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// batchVersion is the layout of a log entry. The version byte and the level after it keep their places for ever, so that an
// old binary can tell a newer entry from a damaged one.
const batchVersion = 1

// minCommand is what the shortest command takes: its op and its field set. AppendBatch writes no frame below it, so one is damage
// to the entry and not a command that somebody made up; and no more commands can be told of than a third of the entry's bytes.
const minCommand = 2

// Batch is one decoded log entry.
type Batch struct {
	Wall     int64  // leader's wall clock, Unix milliseconds; for display only
	Level    uint32 // feature level that the entry needs
	Commands []locktable.Command
}

// AppendBatch appends one log entry to dst: version, level needed, leader's wall clock in Unix milliseconds, and the commands,
// each framed by its length so that one that cannot be understood does not take the others down.
func AppendBatch(dst []byte, wall int64, cmds []*locktable.Command) []byte {
	return encodeEntry(dst, wall, cmds, commandLevel)
}

func encodeEntry(dst []byte, wall int64, cmds []*locktable.Command, needs func(*locktable.Command) uint32) []byte {
	level := uint32(firstLevel)
	for _, c := range cmds {
		level = max(level, needs(c))
	}
	w := Writer{buf: dst}
	w.Byte(batchVersion)
	w.Uvarint(uint64(level))
	w.Varint(wall)
	w.Uvarint(uint64(len(cmds)))
	for _, c := range cmds {
		start := len(w.buf)
		w.command(c)
		w.frame(start)
	}
	return w.buf
}

// DecodeBatch decodes one log entry. The result does not alias b.
//
// An entry that needs a higher level than ours is a *LevelError. One that is damaged is ErrMalformed. A command that is not
// understood within a sound entry stands in Commands with OpNone, all other fields zero but Note, which says why: to the
// state machine it is a malformed command like any other, and it answers on every member alike.
func DecodeBatch(b []byte) (*Batch, error) { return Binary{}.DecodeBatch(b) }

// decodeEntry puts an entry into batch, and reuses its slice of commands. After an error batch holds nothing of use.
func decodeEntry(b []byte, by Binary, batch *Batch) error {
	r := Reader{buf: b}
	if err := r.batchHeader(by.Highest(), batch); err != nil {
		return err
	}
	n := r.Count(minCommand + 1)
	if n > cap(batch.Commands) {
		batch.Commands = make([]locktable.Command, n)
	}
	batch.Commands = batch.Commands[:n]
	for i := range batch.Commands {
		frame := r.commandFrame()
		if r.err != nil {
			break
		}
		batch.Commands[i] = commandOf(frame, batch.Level, by)
	}
	if err := r.Done(); err != nil {
		return fmt.Errorf("decode batch: %w", err)
	}
	return nil
}

func (r *Reader) batchHeader(have uint32, batch *Batch) error {
	version, level := r.Byte(), r.Uint32()
	switch {
	case r.err != nil:
		return fmt.Errorf("decode batch: %w", r.err)
	case level > have:
		return &LevelError{What: "log entry", Want: level, Have: have}
	case level == 0, version != batchVersion:
		// A later layout comes with a later level, so at our level there is no other version.
		return fmt.Errorf("decode batch: version %d at level %d: %w", version, level, ErrMalformed)
	}
	batch.Level, batch.Wall = level, r.Varint()
	return nil
}

func (r *Reader) commandFrame() []byte {
	frame := r.Blob()
	if len(frame) < minCommand {
		r.fail()
	}
	return frame
}

// commandOf decodes one frame of an entry of the given level, or stands in for it.
func commandOf(frame []byte, level uint32, by Binary) locktable.Command {
	var c locktable.Command
	if err := decodeCommand(frame, &c); err != nil {
		return undecodable(err.Error())
	}
	if need := by.Needs(&c); need > level {
		return undecodable(fmt.Sprintf("decode command: op %d needs level %d in an entry of level %d", c.Op, need, level))
	}
	return c
}

func undecodable(why string) locktable.Command {
	return locktable.Command{Op: locktable.OpNone, Note: why}
}
