package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"
)

func testHeader() Header {
	return Header{
		Cluster: "orders", ClusterID: "0123456789abcdef0123456789abcdef", Counter: 1_780_000_000_000_123, Index: 4711, Term: 9, Level: 1,
		Wall: time.UnixMilli(1_780_000_000_000), Stale: true, Age: 3 * time.Second, Sessions: 1, Holds: 2, Waiting: 3, Audit: 4, Limits: 5,
	}
}

func testKey(n byte) []byte { return bytes.Repeat([]byte{n}, KeySize) }

// content is not the same in any two chunks.
func testContent(size int) []byte {
	b := make([]byte, size)
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func fileOf(tb testing.TB, content, key []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	f, err := Write(&b, testHeader(), key, func(w io.Writer) error {
		for part := range bytes.SplitSeq(content, []byte{0}) { // writes of all sizes
			if _, err := w.Write(part); err != nil {
				return err
			}
			if _, err := w.Write([]byte{0}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	if f.Size != int64(b.Len()) {
		tb.Fatalf("size %d of %d", f.Size, b.Len())
	}
	return b.Bytes()
}

// read is Read that gathers the content.
func read(r io.Reader, keys ...[]byte) (File, []byte, error) {
	var got []byte
	f, err := Read(context.Background(), r, keys, func(_ Header, content io.Reader) (err error) {
		got, err = io.ReadAll(content)
		return err
	})
	return f, got, err
}

func TestRoundTrip(t *testing.T) {
	for _, key := range [][]byte{nil, testKey(1)} {
		for _, size := range []int{0, 1, 100, chunkSize - 2, chunkSize - 1, chunkSize, 2*chunkSize - 1, 3*chunkSize + 17} {
			content := testContent(size)
			file := fileOf(t, content, key)
			for name, r := range map[string]io.Reader{
				"at once": bytes.NewReader(file), "in halves": iotest.HalfReader(bytes.NewReader(file)), "with its end": iotest.DataErrReader(bytes.NewReader(file)),
			} {
				f, got, err := read(r, testKey(2), testKey(1))
				if err != nil {
					t.Fatalf("%d bytes, key %v, %s: %v", size, key != nil, name, err)
				}
				want := testHeader()
				f.Header.KeyID, f.Header.Salt = "", nil
				if !bytes.Equal(got, append(content, 0)) || !f.Header.Equal(&want) || f.Size != int64(len(file)) {
					t.Fatalf("%d bytes, key %v, %s: other content, or %+v", size, key != nil, name, f)
				}
			}
		}
	}
}

// Equal states give equal files, unless they are encrypted: then no two are alike, and nothing of the content shows.
func TestFilesOfOneState(t *testing.T) {
	content := bytes.Repeat([]byte("plain text that must not show "), 3000)
	if !bytes.Equal(fileOf(t, content, nil), fileOf(t, content, nil)) {
		t.Error("two files of one state differ")
	}
	one, other := fileOf(t, content, testKey(1)), fileOf(t, content, testKey(1))
	if bytes.Contains(one, []byte("must not show")) {
		t.Error("plain text in an encrypted file")
	}
	same := 0
	for i := range one {
		if one[i] == other[i] {
			same++
		}
	}
	if same > len(one)/64 {
		t.Errorf("%d of %d bytes of two encrypted files are the same", same, len(one))
	}
}

func TestKeys(t *testing.T) {
	file := fileOf(t, testContent(100), testKey(1))
	for _, keys := range [][][]byte{nil, {testKey(2)}, {testKey(2), testKey(3)}} {
		f, _, err := read(bytes.NewReader(file), keys...)
		if !errors.Is(err, ErrKey) || f.Header.Cluster != "orders" || f.Header.KeyID != KeyID(testKey(1)) {
			t.Errorf("%d keys: %+v, %v", len(keys), f, err)
		}
	}
	if bytes.Contains(file, testKey(1)) {
		t.Error("the key is in the file")
	}
}

// What reads fails: the error is the reader's, and not a word about the file.
func TestReaderFails(t *testing.T) {
	broken := errors.New("broken")
	file := fileOf(t, testContent(chunkSize+100), nil)
	for at := 0; at <= len(file); at += 997 {
		_, _, err := read(io.MultiReader(bytes.NewReader(file[:at]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) || errors.Is(err, ErrTruncated) || errors.Is(err, ErrAltered) {
			t.Fatalf("after %d bytes: %v", at, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Read(ctx, bytes.NewReader(file), nil, func(_ Header, r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of ctx: %v", err)
	}
	if _, _, err := read(stuck{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("of a reader that gives nothing: %v", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// What writes fails: nothing that is read back as a file is left.
func TestWriterFails(t *testing.T) {
	file := fileOf(t, testContent(chunkSize+100), testKey(1))
	for at := 0; at < len(file); at += 997 {
		var b bytes.Buffer
		_, err := Write(&short{&b, at}, testHeader(), testKey(1), func(w io.Writer) error { _, err := w.Write(testContent(chunkSize + 100)); return err })
		if !errors.Is(err, io.ErrShortWrite) {
			t.Fatalf("after %d bytes: %v", at, err)
		}
		if _, _, err := read(&b, testKey(1)); !errors.Is(err, ErrTruncated) {
			t.Fatalf("what is left after %d bytes: %v", at, err)
		}
	}
}

type short struct {
	to   io.Writer
	left int
}

func (s *short) Write(p []byte) (int, error) {
	n := min(len(p), s.left)
	s.left -= n
	return s.to.Write(p[:n])
}

// mutation is one way to spoil a file, and what has to be said of it.
type mutation struct {
	name string
	file []byte
	want error
}

func mutate(rng *rand.Rand, file, other []byte) mutation {
	b := bytes.Clone(file)
	i := rng.IntN(len(b))
	switch rng.IntN(8) {
	case 0:
		return mutation{fmt.Sprintf("cut after %d", i), b[:i], ErrTruncated}
	case 1:
		n := 1 + rng.IntN(2*trailerSize)
		return mutation{fmt.Sprintf("cut %d off", n), b[:len(b)-n], ErrTruncated}
	case 2:
		b[i] ^= 1 << rng.IntN(8)
		return mutation{fmt.Sprintf("bit at %d", i), b, ErrAltered}
	case 3:
		at := rng.IntN(2) * (len(b) - 100)
		i = at + rng.IntN(100) // head and trailer
		b[i] += byte(1 + rng.IntN(255))
		return mutation{fmt.Sprintf("byte at %d", i), b, ErrAltered}
	case 4:
		return mutation{"more at the end", append(b, other[:1+rng.IntN(len(other))]...), ErrAltered}
	case 5:
		return swapped(rng, b)
	case 6:
		i = min(i, len(b)-trailerSize-1)
		n := 1 + rng.IntN(len(b)-trailerSize-i)
		return mutation{fmt.Sprintf("%d left out at %d", n, i), append(b[:i:i], b[i+n:]...), ErrTruncated}
	}
	return mutation{"nothing of a snapshot", testContent(1 + i), ErrForeign}
}

// swapped changes two places that differ. What is left of a file without both its magics, or without its chunks and its size, could have been anything.
func swapped(rng *rand.Rand, b []byte) mutation {
	for {
		n := 1 + rng.IntN(64)
		i, j := rng.IntN(len(b)-n), rng.IntN(len(b)-n)
		if max(i, j)-min(i, j) < n || bytes.Equal(b[i:i+n], b[j:j+n]) || min(i, j) < maxHead && max(i, j)+n > len(b)-trailerSize {
			continue
		}
		x := bytes.Clone(b[i : i+n])
		copy(b[i:], b[j:j+n])
		copy(b[j:], x)
		return mutation{fmt.Sprintf("%d swapped between %d and %d", n, i, j), b, ErrAltered}
	}
}

const maxHead = 200 // of these files: what stands before the content

// S78, S118: whatever is done to a file, it is refused, with the error that fits.
func TestMutations(t *testing.T) {
	for _, test := range []struct {
		key          []byte
		size, rounds int
	}{{nil, 500, 1500}, {testKey(1), 500, 1500}, {nil, 2*chunkSize + 500, 200}, {testKey(1), 2*chunkSize + 500, 200}} {
		file := fileOf(t, testContent(test.size), test.key)
		other := fileOf(t, testContent(300), test.key)
		rng := rand.New(rand.NewPCG(7, 7))
		met := make(map[error]int)
		for range test.rounds {
			m := mutate(rng, file, other)
			met[m.want]++
			f, _, err := read(bytes.NewReader(m.file), testKey(1))
			if !errors.Is(err, m.want) || f.Size != 0 {
				t.Fatalf("%s: %+v, %v, want %v", m.name, f, err, m.want)
			}
			for _, e := range []error{ErrTruncated, ErrAltered, ErrForeign, ErrNewer, ErrKey} {
				if e != m.want && errors.Is(err, e) {
					t.Fatalf("%s: %v is %v too", m.name, err, e)
				}
			}
		}
		if len(met) != 3 {
			t.Errorf("met only %v", met)
		}
	}
}

// resealed is a file of which the hash was made anew after a change.
func resealed(tb testing.TB, file []byte, change func([]byte) []byte) []byte {
	tb.Helper()
	src := newSource(context.Background(), bytes.NewReader(append(change(bytes.Clone(file[:len(file)-trailerSize])), make([]byte, trailerSize)...)))
	body, err := io.ReadAll(src)
	if err != nil {
		tb.Fatal(err)
	}
	size := int64(len(body) + trailerSize)
	sum := src.sumWith(size)
	body = append(body, 0, 0, 0, 0, byte(size>>24), byte(size>>16), byte(size>>8), byte(size))
	return append(append(body, sum[:]...), endMagic...)
}

// Somebody who makes the hash anew deceives it, but not the key.
func TestForgeries(t *testing.T) {
	plain, secret := fileOf(t, testContent(2*chunkSize+500), nil), fileOf(t, testContent(2*chunkSize+500), testKey(1))
	body := bytes.Index(secret, []byte(KeyID(testKey(1)))) + 2*8 + 1 + saltSize // where the chunks begin
	frame := chunkHead + chunkSize + sealed
	for name, test := range map[string]struct {
		file []byte
		want error
	}{
		"nothing changed":   {resealed(t, secret, func(b []byte) []byte { return b }), nil},
		"a header changed":  {resealed(t, secret, func(b []byte) []byte { return bytes.Replace(b, []byte("orders"), []byte("orderz"), 1) }), ErrAltered},
		"a chunk changed":   {resealed(t, secret, func(b []byte) []byte { b[body+chunkHead+9] ^= 1; return b }), ErrAltered},
		"the last one gone": {resealed(t, secret, func(b []byte) []byte { b = b[:body+2*frame]; b[body+frame] |= 0x80; return b }), ErrAltered},
		"no last one":       {resealed(t, secret, func(b []byte) []byte { return b[:body+2*frame] }), ErrAltered},
		"two chunks swapped": {resealed(t, secret, func(b []byte) []byte {
			return bytes.Join([][]byte{b[:body], b[body+frame : body+2*frame], b[body : body+frame], b[body+2*frame:]}, nil)
		}), ErrAltered},
		"more after the end": {resealed(t, plain, func(b []byte) []byte { return append(b, 1, 2, 3) }), ErrAltered},
		"a newer format":     {resealed(t, plain, func(b []byte) []byte { b[len(magic)] = Format + 1; return b }), ErrNewer},
		"no format":          {resealed(t, plain, func(b []byte) []byte { b[len(magic)] = 0; return b }), ErrAltered},
		"a huge header": {resealed(t, plain, func(b []byte) []byte {
			return append(append(b[:len(magic)+1:len(magic)+1], 0xff, 0xff, 0xff, 0x7f), b[len(magic)+3:]...)
		}), ErrAltered},
	} {
		if _, _, err := read(bytes.NewReader(test.file), testKey(1)); !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(fileOf(f, testContent(100), nil))
	f.Add(fileOf(f, testContent(100), testKey(1)))
	f.Add(fileOf(f, testContent(chunkSize+100), nil)[:chunkSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		file, got, err := read(bytes.NewReader(b), testKey(1))
		// An input that was not written by Write, and yet is whole, would have to have the right SHA-256.
		for i, again := range [][]byte{b, resealed(t, append(b, make([]byte, trailerSize)...), func(b []byte) []byte { return b })} {
			if i > 0 {
				file, got, err = read(bytes.NewReader(again), testKey(1))
			}
			known := false
			for _, e := range []error{ErrTruncated, ErrAltered, ErrForeign, ErrNewer, ErrKey} {
				known = known || errors.Is(err, e)
			}
			if err != nil && !known || err == nil && file.Size != int64(len(again)) {
				t.Fatalf("%+v, %d bytes, %v", file, len(got), err)
			}
		}
	})
}
