package wire

import (
	"bytes"
	"cmp"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/watch"
)

// A valueKind is one type that this package encodes on its own. All kinds keep the same promises, so one suite runs on each.
type valueKind struct {
	name      string
	versioned bool // begins with a version byte that newer nodes may raise
	random    func(*rand.Rand) any
	encode    func(dst []byte, v any) []byte
	decode    func(b []byte) (any, error)
}

func kindOf[T any](
	name string, versioned bool, random func(*rand.Rand) T, app func([]byte, *T) []byte, dec func([]byte) (T, error),
) valueKind {
	return valueKind{
		name:      name,
		versioned: versioned,
		random:    func(rng *rand.Rand) any { return random(rng) },
		encode: func(dst []byte, v any) []byte {
			value := v.(T)
			return app(dst, &value)
		},
		decode: func(b []byte) (any, error) { return dec(b) },
	}
}

var valueKinds = []valueKind{
	kindOf("batch", false, randomBatch, appendBatch, decodeBatch),
	kindOf("command", false, randomCommand, AppendCommand, DecodeCommand),
	kindOf("result", true, random[locktable.Result], AppendResult, DecodeResult),
	kindOf("propose request", true, randomProposeRequest, AppendProposeRequest, DecodeProposeRequest),
	kindOf("propose reply", true, randomProposeReply, AppendProposeReply, DecodeProposeReply),
	kindOf("status reply", true, random[StatusReply], AppendStatusReply, DecodeStatusReply),
	kindOf("join request", true, random[JoinRequest], AppendJoinRequest, DecodeJoinRequest),
	kindOf("join reply", true, randomJoinReply, AppendJoinReply, DecodeJoinReply),
	kindOf("leave request", true, random[LeaveRequest], AppendLeaveRequest, DecodeLeaveRequest),
	kindOf("leave reply", true, randomLeaveReply, AppendLeaveReply, DecodeLeaveReply),
	kindOf("grant push", true, randomGrantPush, AppendGrantPush, DecodeGrantPush),
	kindOf("hashes reply", true, randomHashesReply, AppendHashesReply, DecodeHashesReply),
	kindOf("roster reply", true, random[RosterReply], AppendRosterReply, DecodeRosterReply),
	kindOf("read request", true, randomReadRequest, AppendReadRequest, DecodeReadRequest),
	kindOf("read reply", true, randomReadReply, AppendReadReply, DecodeReadReply),
	kindOf("watch request", true, random[WatchRequest], AppendWatchRequest, DecodeWatchRequest),
	kindOf("watch reply", true, randomWatchReply, AppendWatchReply, DecodeWatchReply),
	kindOf("act request", true, random[ActRequest], AppendActRequest, DecodeActRequest),
	kindOf("snapshot request", true, random[SnapshotRequest], AppendSnapshotRequest, DecodeSnapshotRequest),
	kindOf("snapshot reply", true, randomSnapshotReply, AppendSnapshotReply, DecodeSnapshotReply),
	kindOf("renew request", true, random[RenewRequest], AppendRenewRequest, DecodeRenewRequest),
	kindOf("renew reply", true, randomRenewReply, AppendRenewReply, DecodeRenewReply),
}

func appendBatch(dst []byte, b *Batch) []byte {
	cmds := make([]*locktable.Command, len(b.Commands))
	for i := range b.Commands {
		cmds[i] = &b.Commands[i]
	}
	return AppendBatch(dst, b.Wall, cmds)
}

func decodeBatch(b []byte) (Batch, error) {
	batch, err := DecodeBatch(b)
	if err != nil {
		return Batch{}, err
	}
	return *batch, nil
}

func randomBatch(rng *rand.Rand) Batch {
	b := Batch{Wall: int64(rng.Uint64()), Level: 1}
	for range rng.IntN(5) {
		b.Commands = append(b.Commands, randomCommand(rng))
	}
	b.Level = levelNeeded(b.Commands)
	return b
}

// levelNeeded is the level of an entry with these commands.
func levelNeeded(commands []locktable.Command) uint32 {
	level := uint32(firstLevel)
	for i := range commands {
		level = max(level, commandLevel(&commands[i]))
	}
	return level
}

func randomProposeRequest(rng *rand.Rand) ProposeRequest {
	m := random[ProposeRequest](rng)
	m.Command = randomCommand(rng)
	return m
}

func randomStatus(rng *rand.Rand) Status { return Status(1 + rng.UintN(255)) }

func randomProposeReply(rng *rand.Rand) ProposeReply {
	m := random[ProposeReply](rng)
	m.Status = randomStatus(rng)
	return m
}

func randomRenewReply(rng *rand.Rand) RenewReply {
	m := random[RenewReply](rng)
	m.Status = randomStatus(rng)
	return m
}

func randomJoinReply(rng *rand.Rand) JoinReply {
	m := random[JoinReply](rng)
	m.Status = randomStatus(rng)
	return m
}

func randomLeaveReply(rng *rand.Rand) LeaveReply {
	m := random[LeaveReply](rng)
	m.Status = randomStatus(rng)
	return m
}

func randomReadRequest(rng *rand.Rand) ReadRequest { return ReadRequest{Command: randomCommand(rng)} }

func randomSnapshotReply(rng *rand.Rand) SnapshotReply {
	m := random[SnapshotReply](rng)
	m.Status = randomStatus(rng)
	return m
}

func randomReadReply(rng *rand.Rand) ReadReply {
	m := random[ReadReply](rng)
	m.Status = randomStatus(rng)
	return m
}

// randomWatchReply has times as they stand in the log.
func randomWatchReply(rng *rand.Rand) WatchReply {
	m := WatchReply{Status: randomStatus(rng), Seen: int64(rng.Uint64()), Behind: rng.IntN(2) == 0, Detail: random[string](rng)}
	for range rng.IntN(4) {
		m.Events = append(m.Events, watch.Event{
			Rev: int64(rng.Uint64()), Kind: watch.Kind(1 + rng.IntN(255)), Name: random[string](rng), Token: fence.Token(rng.Uint64()),
			Session: int64(rng.Uint64()), Claim: rng.Uint64(), Node: random[string](rng), ServerID: random[string](rng), Index: rng.Uint64(),
			Time: time.UnixMilli(int64(rng.Uint64() >> 20)), Note: random[string](rng), Mode: watch.Mode(rng.IntN(256)), Permits: int(rng.Uint64()),
			Value: random[string](rng),
		})
	}
	return m
}

// randomHashesReply has indexes that rise.
func randomHashesReply(rng *rand.Rand) HashesReply {
	m := random[HashesReply](rng)
	slices.SortFunc(m.Points, func(a, b HashPoint) int { return cmp.Compare(a.Index, b.Index) })
	m.Points = slices.CompactFunc(m.Points, func(a, b HashPoint) bool { return a.Index == b.Index })
	return m
}

func randomGrantPush(rng *rand.Rand) GrantPush {
	m := random[GrantPush](rng)
	for i := range m.Events {
		m.Events[i].Kind = PushKind(1 + rng.UintN(255))
	}
	return m
}

// eachKind runs test on n random values of each kind.
func eachKind(t *testing.T, n int, test func(t *testing.T, k valueKind, v any, b []byte)) {
	for _, k := range valueKinds {
		t.Run(k.name, func(t *testing.T) {
			rng := newRand(t)
			for range n {
				v := k.random(rng)
				test(t, k, v, k.encode(nil, v))
			}
		})
	}
}

func TestRoundTrip(t *testing.T) {
	eachKind(t, 100, func(t *testing.T, k valueKind, v any, b []byte) {
		got, err := k.decode(b)
		if err != nil {
			t.Fatalf("decode %+v: %v", v, err)
		}
		if !reflect.DeepEqual(got, v) {
			t.Fatalf("got  %+v\nwant %+v", got, v)
		}
	})
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	eachKind(t, 100, func(t *testing.T, k valueKind, v any, b []byte) {
		dst := []byte("before")
		if got := k.encode(dst, v); !bytes.Equal(got, append(slices.Clip(dst), b...)) {
			t.Fatalf("got %x, want %q and then %x", got, dst, b)
		}
	})
}

func TestDecodedValueDoesNotAliasInput(t *testing.T) {
	eachKind(t, 100, func(t *testing.T, k valueKind, v any, b []byte) {
		got, err := k.decode(b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b {
			b[i] ^= 0xff
		}
		if !reflect.DeepEqual(got, v) {
			t.Fatalf("changed with the input: %+v, was %+v", got, v)
		}
	})
}

func TestTruncatedAtEveryByte(t *testing.T) {
	eachKind(t, 100, func(t *testing.T, k valueKind, v any, b []byte) {
		for n := range b {
			if got, err := k.decode(b[:n]); !errors.Is(err, ErrMalformed) {
				t.Fatalf("%d of %d bytes of %x: got %+v, %v", n, len(b), b, got, err)
			}
		}
	})
}

func TestTrailingByte(t *testing.T) {
	eachKind(t, 100, func(t *testing.T, k valueKind, v any, b []byte) {
		if got, err := k.decode(append(b, 0)); !errors.Is(err, ErrMalformed) {
			t.Fatalf("got %+v, %v", got, err)
		}
	})
}

// A damaged value may decode to another one, since there is no checksum at this layer; but then it must be that one's encoding.
func TestEveryBitFlipIsCanonicalOrRefused(t *testing.T) {
	eachKind(t, 6, func(t *testing.T, k valueKind, v any, b []byte) {
		for i := range 8 * len(b) {
			b[i/8] ^= 1 << (i % 8)
			checkCanonical(t, k, b)
			b[i/8] ^= 1 << (i % 8)
		}
	})
}

func TestNewerMessageIsReadAsFarAsKnown(t *testing.T) {
	eachKind(t, 100, func(t *testing.T, k valueKind, v any, b []byte) {
		if !k.versioned {
			t.SkipNow()
		}
		b[0]++
		got, err := k.decode(append(b, "a field of tomorrow"...))
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, v)
		}
	})
}

func TestVersionZeroIsRefused(t *testing.T) {
	eachKind(t, 100, func(t *testing.T, k valueKind, v any, b []byte) {
		b[0] = 0
		if got, err := k.decode(b); !errors.Is(err, ErrMalformed) {
			t.Fatalf("got %+v, %v", got, err)
		}
	})
}

// checkCanonical asks of any bytes that they are refused with one of our errors, or are the one encoding of what they decode to.
func checkCanonical(t *testing.T, k valueKind, b []byte) {
	v, err := k.decode(b)
	if err != nil {
		if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrLevel) {
			t.Fatalf("%s %x: error of no known kind: %v", k.name, b, err)
		}
		return
	}
	if again := k.encode(nil, v); !bytes.Equal(again, b) && !lenient(k, v, b) {
		t.Fatalf("%s has two encodings of %+v:\n%x\n%x", k.name, v, b, again)
	}
}

// lenient says that b holds what decoding drops on purpose: fields of a newer version, or a command that is not understood; or that it is an entry which asks
// for more than it needs.
func lenient(k valueKind, v any, b []byte) bool {
	switch v := v.(type) {
	case Batch:
		above := v.Level > levelNeeded(v.Commands) // a binary may give an op a later level than this one does
		return above || slices.ContainsFunc(v.Commands, func(c locktable.Command) bool { return c.Op == locktable.OpNone })
	case locktable.Result:
		return b[0] > resultVersion
	case ProposeReply:
		return b[0] > proposeReplyVersion || newerResult(b)
	case ReadReply:
		return b[0] > readReplyVersion || newerResult(b)
	case RenewReply:
		return b[0] > renewReplyVersion || someNewerResult(b)
	}
	return k.versioned && b[0] > 1
}

// newerResult says whether the result within a reply is of a newer version.
func newerResult(reply []byte) bool {
	r := NewReader(reply[2:]) // after version and status
	result := r.Blob()
	return len(result) > 0 && result[0] > resultVersion
}

// someNewerResult is newerResult for a reply with many.
func someNewerResult(reply []byte) bool {
	r := NewReader(reply[2:])
	for range r.Count(minFramedResult) {
		if result := r.Blob(); len(result) > 0 && result[0] > resultVersion {
			return true
		}
	}
	return false
}
