package conformance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/quorumlock/quorumlock/snapshots"
)

// wire is between the server and its clients. A fault hits one request of a method, and ends the connection.
type wire struct {
	to http.Handler

	method  string
	after   atomic.Int64 // bytes of the body of the request that arrive, or of the answer that leave; negative: no fault
	answers bool         // it is the answer that is cut
	hit     atomic.Int64
}

func newWire(method string, answers bool) *wire {
	w := &wire{method: method, answers: answers}
	w.after.Store(-1)
	return w
}

func (w *wire) around(to http.Handler) http.Handler { w.to = to; return w }

func (w *wire) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	after := w.after.Load()
	if r.Method != w.method || after < 0 {
		w.to.ServeHTTP(to, r)
		return
	}
	w.after.Store(-1)
	w.hit.Add(1)
	if w.answers {
		answer := &cutAnswer{ResponseWriter: to, left: after}
		w.to.ServeHTTP(answer, r)
	} else {
		r.Body = &cutBody{ReadCloser: r.Body, left: after}
		w.to.ServeHTTP(&cutAnswer{ResponseWriter: to}, r)
	}
	panic(http.ErrAbortHandler)
}

type cutBody struct {
	io.ReadCloser
	left int64
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

type cutAnswer struct {
	http.ResponseWriter
	left int64
}

func (a *cutAnswer) WriteHeader(status int) {
	if a.left > 0 {
		a.ResponseWriter.WriteHeader(status)
	}
}

func (a *cutAnswer) Write(p []byte) (int, error) {
	n := min(int64(len(p)), a.left)
	a.left -= n
	_, err := a.ResponseWriter.Write(p[:n])
	return len(p), err
}

func put(s snapshots.Store, name string, content []byte) error {
	return s.Create(context.Background(), name, func(w io.Writer) error { _, err := w.Write(content); return err })
}

// S78: the connection ends at every tenth of an upload. No object is there, and the next attempt makes it.
func TestUploadIsCut(t *testing.T) {
	w := newWire(http.MethodPut, false)
	url := inMemory(t, w.around)
	content := bytes.Repeat([]byte("quorumlock"), 100_000)
	for tenth := range int64(10) {
		s := storeAt(t, url, string(rune('a'+tenth)), 1)
		w.after.Store(int64(len(content)) * tenth / 10)
		if err := put(s, "name", content); err == nil || errors.Is(err, snapshots.ErrExists) {
			t.Fatalf("cut at %d0 %%: %v", tenth, err)
		}
		if found, err := s.List(t.Context(), ""); err != nil || len(found) > 0 {
			t.Errorf("cut at %d0 %%: %+v, %v", tenth, found, err)
		}
		if err := put(s, "name", content); err != nil {
			t.Errorf("after it: %v", err)
		}
	}
	if w.hit.Load() != 10 {
		t.Errorf("%d uploads were cut", w.hit.Load())
	}
}

// The object is made, and the answer lost. Whoever asks again is told that there is one; a client that does so by itself, too.
func TestAnswerIsLost(t *testing.T) {
	for attempts, exists := range map[int]bool{1: false, 3: true} {
		w := newWire(http.MethodPut, true)
		s := storeAt(t, inMemory(t, w.around), "", attempts)
		w.after.Store(0)
		if err := put(s, "name", []byte("content")); err == nil || errors.Is(err, snapshots.ErrExists) != exists {
			t.Errorf("%d attempts: %v", attempts, err)
		}
		if err := put(s, "name", []byte("other")); !errors.Is(err, snapshots.ErrExists) {
			t.Errorf("again: %v", err)
		}
		r, err := s.Open(t.Context(), "name")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != "content" {
			t.Errorf("%q, %v", got, err)
		}
		_ = r.Close()
		if w.hit.Load() != 1 {
			t.Error("no answer was lost")
		}
	}
}

// A download that is cut does not look like one that has ended.
func TestDownloadIsCut(t *testing.T) {
	w := newWire(http.MethodGet, true)
	s := storeAt(t, inMemory(t, w.around), "", 1)
	content := bytes.Repeat([]byte("quorumlock"), 100_000)
	if err := put(s, "name", content); err != nil {
		t.Fatal(err)
	}
	for tenth := int64(1); tenth < 10; tenth++ {
		w.after.Store(int64(len(content)) * tenth / 10)
		r, err := s.Open(t.Context(), "name")
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			_ = r.Close()
		}
		if err == nil {
			t.Errorf("cut at %d0 %%: nobody noticed", tenth)
		}
	}
	if w.hit.Load() != 9 {
		t.Errorf("%d downloads were cut", w.hit.Load())
	}
}
