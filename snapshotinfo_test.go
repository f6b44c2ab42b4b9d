package quorumlock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/backup"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

var snapshotKey = bytes.Repeat([]byte{5}, backup.KeySize)

// someState has records of most kinds.
func someState(t testing.TB) *locktable.Snapshot {
	t.Helper()
	m := newMachine()
	m.apply(t, found(), open("a"), open("b"))
	for i := range 40 {
		m.apply(t,
			&locktable.Command{Op: locktable.OpClaim, Session: 1001, Seq: uint64(2*i + 1), Names: []string{fmt.Sprintf("lock-%d", i%20)}, Note: "note"},
			&locktable.Command{Op: locktable.OpClaim, Session: 1002, Seq: uint64(2*i + 1), Names: []string{fmt.Sprintf("lock-%d", i%25)}})
	}
	m.apply(t, &locktable.Command{Op: locktable.OpResize, Session: 1001, Seq: 999, Names: []string{"pool"}, Limit: 7})
	return m.view()
}

// apply wants every command to be understood.
func (m *machine) apply(t testing.TB, cmds ...*locktable.Command) {
	t.Helper()
	results, ok := resultsOf(m.entry(wire.AppendBatch(nil, 1, cmds)))
	if !ok {
		t.Fatal("no results")
	}
	for i, r := range results {
		if r.Code == locktable.CodeMalformed {
			t.Fatalf("%+v: %+v", cmds[i], r)
		}
	}
}

func encoded(t testing.TB, state *locktable.Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := wire.WriteSnapshot(&b, state); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// fileOf is a snapshot of which the header says one thing and the content another, if they do.
func fileOf(t testing.TB, state *locktable.Snapshot, change func(*backup.Header), key, content []byte) []byte {
	t.Helper()
	h := headerOf(state)
	h.Cluster, h.Term, h.Wall = "orders", 3, time.UnixMilli(1_780_000_000_000)
	if change != nil {
		change(&h)
	}
	var b bytes.Buffer
	if _, err := backup.Write(&b, h, key, func(w io.Writer) error { _, err := w.Write(content); return err }); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func verify(file []byte, keys ...[]byte) (SnapshotInfo, error) {
	return VerifySnapshot(context.Background(), bytes.NewReader(file), keys)
}

// What is sound is told in full; each fault has its own error. (S118)
func TestVerifySnapshot(t *testing.T) {
	state := someState(t)
	content := encoded(t, state)
	info, err := verify(fileOf(t, state, nil, nil, content))
	if err != nil || info.Cluster != "orders" || info.ClusterID != "c" || info.TokensUpTo != Token(state.Header().Counter) || info.Index != state.Header().Index ||
		info.Term != 3 || info.Sessions != 2 || info.Holds == 0 || info.Waiting == 0 || info.Limits != 1 || info.KeyID != "" {
		t.Errorf("%+v, %v", info, err)
	}
	for _, say := range []string{"orders", "id c", fmt.Sprint(info.TokensUpTo), fmt.Sprintf("%d holds", info.Holds), info.SHA256} {
		if !strings.Contains(info.String(), say) {
			t.Errorf("%q is not in\n%v", say, info)
		}
	}
	secret := fileOf(t, state, nil, snapshotKey, content)
	if info, err := verify(secret, snapshotKey); err != nil || info.KeyID == "" {
		t.Errorf("%+v, %v", info, err)
	}
	if info, err := verify(secret); !errors.Is(err, ErrSnapshotKey) || info.Cluster != "orders" {
		t.Errorf("without the key: %+v, %v", info, err)
	}
	for name, test := range map[string]struct {
		file []byte
		want error
	}{
		"a text":                 {[]byte("nothing of the kind, but long enough to be one of them, if only it began so"), ErrSnapshotForeign},
		"raft's own":             {content, ErrSnapshotForeign},
		"empty":                  {nil, ErrSnapshotTruncated},
		"half":                   {secret[:len(secret)/2], ErrSnapshotTruncated},
		"another counter":        {fileOf(t, state, func(h *backup.Header) { h.Counter-- }, nil, content), ErrSnapshotAltered},
		"another id":             {fileOf(t, state, func(h *backup.Header) { h.ClusterID = "d" }, nil, content), ErrSnapshotAltered},
		"another count":          {fileOf(t, state, func(h *backup.Header) { h.Holds++ }, nil, content), ErrSnapshotAltered},
		"no state":               {fileOf(t, state, nil, nil, nil), ErrSnapshotAltered},
		"a state cut short":      {fileOf(t, state, nil, nil, content[:len(content)-1]), ErrSnapshotAltered},
		"more than a state":      {fileOf(t, state, nil, nil, append(bytes.Clone(content), 0)), ErrSnapshotAltered},
		"a state of a new level": {fileOf(t, state, nil, nil, raisedLevel(content)), ErrSnapshotNewer},
	} {
		info, err := verify(test.file, snapshotKey)
		for _, e := range []error{ErrSnapshotTruncated, ErrSnapshotAltered, ErrSnapshotForeign, ErrSnapshotNewer, ErrSnapshotKey} {
			if errors.Is(err, e) != (e == test.want) {
				t.Errorf("%s: %v, want %v", name, err, test.want)
			}
		}
		if test.want == ErrSnapshotNewer && (!errors.Is(err, ErrLevel) || info.Cluster != "orders") {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
	}
	if _, err := VerifySnapshot(context.Background(), nil, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("of nothing: %v", err)
	}
}

// raisedLevel makes an encoded state one of the next feature level, sound to the last byte.
func raisedLevel(content []byte) []byte {
	body := bytes.Clone(content[:len(content)-sha256.Size])
	body[9] = wire.Level + 1 // after magic and format
	sum := sha256.Sum256(body)
	return append(body, sum[:]...)
}

// A file that is whole does not make what is in it good: whatever is changed in the state before it is sealed is refused; with its own hash made anew it is refused, or
// a state that obeys the rules. Nothing panics.
func TestSpoiltStatesInWholeFiles(t *testing.T) {
	state := someState(t)
	content := encoded(t, state)
	rng := rand.New(rand.NewPCG(1, 118))
	refused := 0
	for i := range 2500 {
		b := bytes.Clone(content)
		for range 1 + rng.IntN(3) {
			b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255))
		}
		rehash := i%2 == 0
		if rehash {
			sum := sha256.Sum256(b[:len(b)-sha256.Size])
			copy(b[len(b)-sha256.Size:], sum[:])
		}
		key := [][]byte{nil, snapshotKey}[i/2%2]
		_, err := verify(fileOf(t, state, nil, key, b), snapshotKey)
		switch {
		case errors.Is(err, ErrSnapshotAltered), errors.Is(err, ErrSnapshotNewer):
			refused++
		case err == nil && rehash: // such as one whose own hash of the state says that it is of another version, and so for nobody to compare
		default:
			t.Fatalf("round %d: %v", i, err)
		}
	}
	if refused < 2450 {
		t.Errorf("only %d were refused", refused)
	}
}

func FuzzVerifySnapshot(f *testing.F) {
	state := someState(f)
	content := encoded(f, state)
	f.Add(content, false, false)
	f.Add(content, true, true)
	f.Add(raisedLevel(content), false, true)
	f.Fuzz(func(t *testing.T, content []byte, sealed, rehash bool) {
		var key []byte
		if sealed {
			key = snapshotKey
		}
		if cut := len(content) - sha256.Size; rehash && cut > 0 {
			sum := sha256.Sum256(content[:cut])
			content = append(content[:cut:cut], sum[:]...)
		}
		_, err := verify(fileOf(t, state, nil, key, content), snapshotKey)
		if err != nil && !errors.Is(err, ErrSnapshotAltered) && !errors.Is(err, ErrSnapshotNewer) {
			t.Fatal(err)
		}
	})
}
