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
		"present field of zero":      fieldAlone(locktable.OpRenew, fieldSession, 0),
		"present text of nothing":    fieldAlone(locktable.OpProclaim, fieldValue, 0),
		"cut short":                  fieldAlone(locktable.OpRenew, fieldSession),
		"bytes left over":            append(sound[:len(sound):len(sound)], 0),
		"level above the entry's":    AppendCommand(nil, &locktable.Command{Op: locktable.OpLevel, Level: 2}),
		"more names than bytes":      fieldAlone(locktable.OpClaim, fieldNames, 200),
		"level that is not a uint32": fieldAlone(locktable.OpLevel, fieldLevel, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"count that is not a uint32": fieldAlone(locktable.OpList, fieldCount, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"limit that is not a uint32": fieldAlone(locktable.OpResize, fieldLimit, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"former limit beyond uint32": fieldAlone(locktable.OpResize, fieldFormer, 0xff, 0xff, 0xff, 0xff, 0x7f),
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

func unknownField() []byte { return fieldAlone(locktable.OpBarrier, fieldEnd) }

// fieldAlone is a command of one field, whatever its content.
func fieldAlone(op locktable.Op, field uint64, content ...byte) []byte {
	var w Writer
	w.Byte(byte(op))
	w.Uvarint(field)
	return append(w.Bytes(), content...)
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

// What hot commands cost in a log entry. The set of their fields is one byte, and two for a claim that is not a plain one.
func TestHotCommandsAreShort(t *testing.T) {
	for _, test := range []struct {
		command locktable.Command
		set     int // bytes of the field set
	}{
		{locktable.Command{Op: locktable.OpRenew, Session: 1, Since: 1}, 1},
		{locktable.Command{Op: locktable.OpClaim, Session: 1, Seq: 1, Floor: 1, Names: []string{"n"}}, 1},
		{locktable.Command{Op: locktable.OpUnlock, Session: 1, Seq: 1, Floor: 1, Of: 1, Token: 1}, 1},
		{locktable.Command{Op: locktable.OpCancel, Session: 1, Seq: 1, Floor: 1}, 1},
		{locktable.Command{
			Op: locktable.OpClaim, Session: 1, Seq: 1, Floor: 1, Names: []string{"n"}, Try: true, Note: "n", Value: "v",
			Mode: locktable.Permits, Count: 1, Limit: 1, Delay: 1,
		}, 2},
		{locktable.Command{Op: locktable.OpDrained, RenewIndex: 1, Term: 1, Rev: 1}, 3},
	} {
		r := NewReader(AppendCommand(nil, &test.command))
		r.Byte()
		before := r.Len()
		r.Uvarint()
		if got := before - r.Len(); got != test.set {
			t.Errorf("op %d: the set of its fields takes %d bytes, want %d", test.command.Op, got, test.set)
		}
	}
}

// A field that is there and says nothing would be a second encoding of the command without it.
func TestPresentFieldIsNotZero(t *testing.T) {
	for field := uint64(1); field < fieldEnd; field <<= 1 {
		if c, err := DecodeCommand(fieldAlone(locktable.OpBarrier, field, 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("command field %#x: %+v, %v", field, c, err)
		}
	}
	for field := uint64(1); field < resultEnd; field <<= 1 {
		w := NewWriter([]byte{resultVersion, byte(locktable.CodeOK)})
		w.Uvarint(field)
		w.Byte(0)
		if v, err := DecodeResult(w.Bytes()); !errors.Is(err, ErrMalformed) {
			t.Errorf("result field %#x: %+v, %v", field, v, err)
		}
	}
}
