package roundtrip

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/snapshots"
)

// What the end of a snapshot is made of: its size, its SHA-256, and a mark.
const (
	beginMark = "QLOCKBAK"
	endMark   = "QLOCKEND"
	trailer   = 8 + sha256.Size + len(endMark)
)

// reasons are all that may be wrong with a snapshot. A bad one has one of them.
var reasons = []error{
	quorumlock.ErrSnapshotTruncated, quorumlock.ErrSnapshotAltered, quorumlock.ErrSnapshotForeign, quorumlock.ErrSnapshotNewer, quorumlock.ErrSnapshotKey,
}

// backups is a bucket, and what a cluster has saved into it.
type backups struct {
	t     *testing.T
	ctx   context.Context
	store snapshots.Store
	dir   string
	key   []byte
	n     int // objects put
}

// S78, S118: of what a cluster saved into a bucket, objects are made that are cut, changed, of something else, and of a newer format. VerifySnapshot and Restore refuse each, with
// its own error, and the directory stays as it was; the good one beside them is restored.
func TestBadBackups(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	b := &backups{t: t, ctx: ctx, dir: t.TempDir(), key: bytes.Repeat([]byte{7}, 32)}
	var stop func()
	b.store, stop = storeAt(startS3(t).url, "bad/", b.dir)
	t.Cleanup(stop)
	for _, keys := range [][][]byte{nil, {b.key}} {
		good := b.save("orders", keys)
		b.restores(good, keys)
		for i := range 12 {
			b.refuse("truncated", good[:len(good)*i/12], keys, quorumlock.ErrSnapshotTruncated)
		}
		b.refuse("without its last byte", good[:len(good)-1], keys, quorumlock.ErrSnapshotTruncated)
		b.refuse("without its trailer", good[:len(good)-trailer], keys, quorumlock.ErrSnapshotTruncated)
		for i := 0; i < len(good); i += max(len(good)/40, 1) {
			b.refuse(fmt.Sprintf("a bit flipped at %d of %d", i, len(good)), flipped(good, i), keys, quorumlock.ErrSnapshotAltered)
		}
		b.refuse("its last bit flipped", flipped(good, len(good)-1), keys, quorumlock.ErrSnapshotAltered)
		b.refuse("its hash flipped", flipped(good, len(good)-len(endMark)-1), keys, quorumlock.ErrSnapshotAltered)
		b.refuse("two of them in a row", append(bytes.Clone(good), good...), keys, quorumlock.ErrSnapshotAltered)
		b.refuse("something else", bytes.Repeat([]byte("not a snapshot\n"), 100), keys, quorumlock.ErrSnapshotForeign)
		b.refuse("a newer format", newer(t, good), keys, quorumlock.ErrSnapshotNewer)
	}
	secret := b.save("orders", [][]byte{b.key})
	b.refuse("no key", secret, nil, quorumlock.ErrSnapshotKey)
	b.refuse("another key", secret, [][]byte{bytes.Repeat([]byte{8}, 32)}, quorumlock.ErrSnapshotKey)
	b.otherCluster(b.save("billing", nil))
}

// save has a cluster of one member save itself, and gives the object's content.
func (b *backups) save(cluster string, keys [][]byte) []byte {
	b.t.Helper()
	n, err := quorumlock.Open(b.ctx, quorumlock.Config{Cluster: cluster, Name: "alone", Expect: 1, Timing: quorumlock.TimingFast, SnapshotKeys: keys})
	if err != nil {
		b.t.Fatal(err)
	}
	defer n.Close()
	if err := n.Ready(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	for i := range 40 {
		if _, err := quorumlock.NewMutex(n, fmt.Sprintf("held-%d", i)).Lock(b.ctx); err != nil {
			b.t.Fatal(err)
		}
	}
	info, err := n.SaveSnapshot(b.ctx, b.store)
	if err != nil || info.Holds != 40 || info.KeyID == "" != (keys == nil) {
		b.t.Fatalf("%+v, %v", info, err)
	}
	return b.content(info.Name)
}

func (b *backups) content(name string) []byte {
	b.t.Helper()
	r, err := b.store.Open(b.ctx, name)
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return content
}

// put makes an object of what is to be refused, under a name that a snapshot may have.
func (b *backups) put(content []byte) (name string) {
	b.t.Helper()
	b.n++
	name = snapshots.Name{Label: "orders", ClusterID: "put", Counter: int64(b.n), Index: 1}.String()
	err := b.store.Create(b.ctx, name, func(w io.Writer) error { _, err := w.Write(content); return err })
	if err != nil {
		b.t.Fatal(err)
	}
	return name
}

// from calls do with the object as the bucket gives it.
func (b *backups) from(name string, do func(io.Reader) error) error {
	b.t.Helper()
	r, err := b.store.Open(b.ctx, name)
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Close()
	return do(r)
}

func (b *backups) config(dir string, keys [][]byte) quorumlock.Config {
	return quorumlock.Config{Cluster: "orders", Name: "new", Dir: dir, Expect: 1, SnapshotKeys: keys}
}

// refuse puts an object into the bucket, which neither is verified nor restored.
func (b *backups) refuse(what string, content []byte, keys [][]byte, want error) {
	b.t.Helper()
	name := b.put(content)
	err := b.from(name, func(r io.Reader) error { _, err := quorumlock.VerifySnapshot(b.ctx, r, keys); return err })
	b.judge(what+", verified", err, want)
	b.notRestored(what, name, keys, want)
}

// notRestored tries it into a directory that is not there, and into an empty one.
func (b *backups) notRestored(what, name string, keys [][]byte, want error) {
	b.t.Helper()
	absent, empty := filepath.Join(b.dir, "absent"), filepath.Join(b.dir, "empty")
	if err := os.MkdirAll(empty, 0o700); err != nil {
		b.t.Fatal(err)
	}
	for _, dir := range []string{absent, empty} {
		err := b.from(name, func(r io.Reader) error {
			_, err := quorumlock.Restore(b.ctx, b.config(dir, keys), quorumlock.RestoreOptions{From: r})
			return err
		})
		b.judge(what+", restored", err, want)
	}
	if _, err := os.Stat(absent); !errors.Is(err, os.ErrNotExist) {
		b.t.Errorf("%s: the directory has been made: %v", what, err)
	}
	if files, err := os.ReadDir(empty); err != nil || len(files) > 0 {
		b.t.Errorf("%s: the directory has %v, %v", what, files, err)
	}
}

func (b *backups) judge(what string, err, want error) {
	b.t.Helper()
	for _, reason := range reasons {
		if errors.Is(err, reason) != (reason == want) {
			b.t.Errorf("%s: %v, want %v", what, err, want)
			return
		}
	}
}

// restores shows that the untouched object is as good as it has to be for the others to be bad by what was done to them.
func (b *backups) restores(content []byte, keys [][]byte) {
	b.t.Helper()
	dir := filepath.Join(b.dir, fmt.Sprint("good", b.n))
	err := b.from(b.put(content), func(r io.Reader) error {
		_, err := quorumlock.Restore(b.ctx, b.config(dir, keys), quorumlock.RestoreOptions{From: r})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) == 0 {
		b.t.Errorf("nothing was restored: %v", err)
	}
}

// otherCluster is a good snapshot, of somebody else.
func (b *backups) otherCluster(content []byte) {
	b.t.Helper()
	name := b.put(content)
	err := b.from(name, func(r io.Reader) error {
		info, err := quorumlock.VerifySnapshot(b.ctx, r, nil)
		if info.Cluster != "billing" {
			b.t.Errorf("%+v", info)
		}
		return err
	})
	if err != nil {
		b.t.Errorf("another cluster's, verified: %v", err)
	}
	b.notRestored("another cluster's", name, nil, quorumlock.ErrSnapshotForeign)
}

func flipped(file []byte, at int) []byte {
	file = bytes.Clone(file)
	file[at] ^= 0x10
	return file
}

// newer is the file as a later version may write it: whole, and of a format that this one does not know.
func newer(t *testing.T, file []byte) []byte {
	t.Helper()
	if !bytes.HasPrefix(file, []byte(beginMark)) || file[len(beginMark)] != 1 || !bytes.HasSuffix(file, []byte(endMark)) {
		t.Fatal("the format is another than this test knows")
	}
	body := bytes.Clone(file[:len(file)-trailer])
	body[len(beginMark)]++
	body = binary.BigEndian.AppendUint64(body, uint64(len(file)))
	sum := sha256.Sum256(body)
	return append(append(body, sum[:]...), endMark...)
}
