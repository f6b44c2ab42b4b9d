package store

import (
	"errors"
	"io"
)

// errCancelled is what a reader along gets of a snapshot that is thrown away.
var errCancelled = errors.New("snapshot is cancelled")

// alongReader reads a snapshot while it is written. A snapshot that cannot be read back must be found before it is visible: raft shortens the log behind one
// that is, sends it to others, and starts from it.
//
// Rejected: reading the file again once it is written. It would be the page cache that is read, and in the file store it is visible by then.
type alongReader struct {
	in      *io.PipeWriter
	verdict chan error // gets one value
}

// readAlong starts verify; a nil one gives a nil reader, which accepts everything.
func readAlong(verify func(io.Reader) error) *alongReader {
	if verify == nil {
		return nil
	}
	out, in := io.Pipe()
	a := &alongReader{in: in, verdict: make(chan error, 1)}
	go func() {
		err := verify(out)
		if err == nil {
			_, err = io.Copy(io.Discard, out) // verify may be content before the end
		}
		_ = out.CloseWithError(err) // what is written after an error fails with it
		a.verdict <- err
	}()
	return a
}

func (a *alongReader) write(p []byte) error {
	if a == nil {
		return nil
	}
	_, err := a.in.Write(p)
	return err
}

// finish ends the input, with cause or, if that is nil, in order; and returns the verdict once the reader has gone. It must be called once.
func (a *alongReader) finish(cause error) error {
	if a == nil {
		return nil
	}
	_ = a.in.CloseWithError(cause) // nil is the end
	return <-a.verdict
}
