package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// screen is a writer that somebody looks at.
type screen struct{ bytes.Buffer }

func (*screen) IsTerminal() bool { return true }

func TestProgress(t *testing.T) {
	to := new(screen)
	inv := &invocation{errs: to}
	p := inv.progress("verifying", 4<<20)
	p.add(1 << 20)
	if to.Len() > 0 {
		t.Errorf("short work is shown: %q", to.String())
	}
	p.next = time.Time{}
	p.add(1 << 20)
	if want := "\r\x1b[Kverifying  [===============               ]  50 %  2.0 MiB of 4.0 MiB"; to.String() != want {
		t.Errorf("%q, want %q", to.String(), want)
	}
	shown := to.Len()
	p.add(1)
	if to.Len() > shown {
		t.Error("it is drawn at each write")
	}
	p.end()
	p.end()
	if got := to.String()[shown:]; got != "\r\x1b[K" {
		t.Errorf("at the end %q", got)
	}
	to.Reset()
	unknown := inv.progress("saving", -1)
	unknown.next = time.Time{}
	unknown.add(3 << 30)
	if !strings.HasSuffix(to.String(), "saving  3.0 GiB") {
		t.Errorf("%q", to.String())
	}
	for name, inv := range map[string]*invocation{"a pipe": {errs: new(bytes.Buffer)}, "JSON": {errs: new(screen), json: true}} {
		p := inv.progress("saving", 10)
		p.next = time.Time{}
		p.add(10)
		p.end()
		if p.drawn {
			t.Errorf("%s is drawn on", name)
		}
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1000 << 10: "1.0 MiB", 1536 << 20: "1.5 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// newerFormat is a snapshot as a later version might write it: another format, with its hash made anew.
func newerFormat(t *testing.T, good []byte) []byte {
	t.Helper()
	const trailer = 8 + sha256.Size + 8
	b := bytes.Clone(good)
	at := len("QLOCKBAK") // the format follows it
	b[at] = 2
	body := b[:len(b)-trailer]
	size := binary.BigEndian.AppendUint64(nil, uint64(len(b)))
	sum := sha256.Sum256(append(bytes.Clone(body), size...))
	return append(append(append(bytes.Clone(body), size...), sum[:]...), b[len(b)-8:]...)
}

func TestPlaces(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	dir := t.TempDir()
	object := "orders.0000000000000000001.00000000000000000001.ab.qlsnap"
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := &bucket{region: "us-east-1"}
	for _, c := range []struct {
		where, file, name string
		store             bool
	}{
		{"-", "-", "", false},
		{filepath.Join(dir, "file"), filepath.Join(dir, "file"), "", false},
		{filepath.Join(dir, "new"), filepath.Join(dir, "new"), "", false},
		{filepath.Join(dir, "new") + "/", "", "", true},
		{dir, "", "", true},
		{"dir://" + dir, "", "", true},
		{"dir://" + dir + "/" + object, "", object, true},
		{"s3://backups", "", "", true},
		{"s3://backups/a/b", "", "", true},
		{"s3://backups/a/b/" + object, "", object, true},
	} {
		p, err := b.place(t.Context(), c.where)
		if err != nil || p.file != c.file || p.name != c.name || (p.store != nil) != c.store {
			t.Errorf("%s: %+v, %v", c.where, p, err)
		}
	}
	for rest, want := range map[string][3]string{
		"b": {"b", "", ""}, "b/": {"b", "", ""}, "b/a": {"b", "a/", ""}, "b/a/": {"b", "a/", ""}, "b/a%20b/" + object: {"b", "a b/", object}, "b/" + object: {"b", "", object},
	} {
		bucket, prefix, name, err := parseBucket(rest)
		if got := [3]string{bucket, prefix, name}; err != nil || got != want {
			t.Errorf("%s: %q, %v", rest, got, err)
		}
	}
}
