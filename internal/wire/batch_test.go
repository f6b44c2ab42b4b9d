package wire

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

var barrier = locktable.Command{Op: locktable.OpBarrier}

// entryOf builds a log entry from raw command frames.
func entryOf(level uint64, frames ...[]byte) []byte {
	var w Writer
	w.Byte(batchVersion)
	w.Uvarint(level)
	w.Varint(0)
	w.Uvarint(uint64(len(frames)))
	for _, f := range frames {
		w.Blob(f)
	}
	return w.Bytes()
}

func TestCommandThatIsNotUnderstoodIsAnErrorResult(t *testing.T) {
	sound := AppendCommand(nil, &barrier)
	for name, frame := range map[string][]byte{
		"no op":                      {byte(locktable.OpNone), 0},
		"unknown op":                 {byte(lastOp) + 1, 0},
		"unknown field":              unknownField(),
		"unknown mode":               AppendCommand(nil, &locktable.Command{Op: locktable.OpClaim, Mode: lastMode + 1}),
		"present field of zero":      {byte(locktable.OpRenew), byte(fieldSession), 0},
		"cut short":                  {byte(locktable.OpRenew), byte(fieldSession)},
		"bytes left over":            append(sound[:len(sound):len(sound)], 0),
		"level above the entry's":    AppendCommand(nil, &locktable.Command{Op: locktable.OpLevel, Level: 2}),
		"more names than bytes":      {byte(locktable.OpClaim), byte(fieldNames), 200},
		"level that is not a uint32": {byte(locktable.OpLevel), 0x80, 0x80, 0x10, 0xff, 0xff, 0xff, 0xff, 0x7f},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := DecodeBatch(entryOf(1, sound, frame, sound))
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Commands) != 3 || !reflect.DeepEqual(b.Commands[0], barrier) || !reflect.DeepEqual(b.Commands[2], barrier) {
				t.Fatalf("its neighbours changed: %+v", b.Commands)
			}
			checkAnsweredMalformed(t, b.Commands[1])
		})
	}
}

func unknownField() []byte {
	var w Writer
	w.Byte(byte(locktable.OpBarrier))
	w.Uvarint(fieldEnd)
	return w.Bytes()
}

func checkAnsweredMalformed(t *testing.T, c locktable.Command) {
	t.Helper()
	if c.Op != locktable.OpNone || !strings.HasPrefix(c.Note, "decode command") {
		t.Fatalf("got %+v, want OpNone with the reason", c)
	}
	table := locktable.New()
	found := locktable.Command{Op: locktable.OpFound, ClusterID: "c", Rev: 1, TTL: locktable.MinTTL}
	var eff locktable.Effects
	if got := table.Apply(1, 1, 0, &found, &eff); got.Code != locktable.CodeOK {
		t.Fatalf("found: %+v", got)
	}
	if got := table.Apply(2, 1, 0, &c, &eff); got.Code != locktable.CodeMalformed {
		t.Fatalf("the state machine answers %+v", got)
	}
}

func TestEntryOfAHigherLevelStopsTheReader(t *testing.T) {
	raise := locktable.Command{Op: locktable.OpLevel, Level: Level + 1}
	for name, entry := range map[string][]byte{
		"by its header":          entryOf(Level+1, AppendCommand(nil, &barrier)),
		"in a layout of its own": {batchVersion + 1, Level + 1, 0xff, 0xff},
		"that raises the level":  AppendBatch(nil, 0, []*locktable.Command{&barrier, &raise}),
	} {
		_, err := DecodeBatch(entry)
		var level *LevelError
		if !errors.As(err, &level) || !errors.Is(err, ErrLevel) || errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if level.Want != Level+1 || level.Have != Level {
			t.Errorf("%s: want %d, have %d", name, level.Want, level.Have)
		}
	}
}

func TestDamagedEntry(t *testing.T) {
	open := locktable.Command{Op: locktable.OpOpen, Node: "long enough for the count to be believed", TTL: testTTL}
	for name, entry := range map[string][]byte{
		"empty":                        {},
		"version 0":                    {0, 1, 0, 0},
		"version of no level":          {batchVersion + 1, Level, 0, 0},
		"level 0":                      {batchVersion, 0, 0, 0},
		"level over 32 bits":           {batchVersion, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0},
		"more commands than bytes":     {batchVersion, 1, 0, 100, 2, 12, 0},
		"2^63 commands":                {batchVersion, 1, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1},
		"frame without a command":      entryOf(1, AppendCommand(nil, &open), nil),
		"frame of an op alone":         entryOf(1, AppendCommand(nil, &open), []byte{byte(locktable.OpBarrier)}),
		"frame longer than the entry":  {batchVersion, 1, 0, 1, 9, 12, 0},
		"fewer commands than it holds": {batchVersion, 1, 0, 0, 2, 12, 0},
	} {
		if b, err := DecodeBatch(entry); !errors.Is(err, ErrMalformed) || errors.Is(err, ErrLevel) {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
}

// Entries are encoded and decoded for every command of the cluster, on every member.
func TestAllocations(t *testing.T) {
	claim := locktable.Command{Op: locktable.OpClaim, Session: 1, Seq: 2, Floor: 2, Names: []string{"job/nightly-report"}}
	renew := locktable.Command{Op: locktable.OpRenew, Session: 1, Since: 7}
	cmds := []*locktable.Command{&claim, &renew, &renew}
	buf := AppendBatch(nil, 1, cmds)
	if n := testing.AllocsPerRun(100, func() { buf = AppendBatch(buf[:0], 1, cmds) }); n != 0 {
		t.Errorf("AppendBatch into a buffer: %v allocations", n)
	}
	// The batch, its commands, the claim's list of names, the name.
	if n := testing.AllocsPerRun(100, func() { _, _ = DecodeBatch(buf) }); n != 4 {
		t.Errorf("DecodeBatch: %v allocations, want 4", n)
	}
}
