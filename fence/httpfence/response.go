package httpfence

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

var errTooLong = errors.New("the response is too long to be held back")

// response is an http.ResponseWriter that keeps what it is given. Like any, it is used by one goroutine at a time.
type response struct {
	header  http.Header
	control *http.ResponseController
	method  string
	most    int

	status   int         // 0 until it is written
	sent     http.Header // as it was when the status was written
	declared int         // Content-Length, -1 if there is none
	body     []byte
	unfit    error // why a part of the body was not taken
}

func newResponse(header http.Header, control *http.ResponseController, method string, most int) *response {
	header = header.Clone()
	if header == nil {
		header = make(http.Header)
	}
	return &response{header: header, control: control, method: method, most: most}
}

func (w *response) Header() http.Header { return w.header }

// WriteHeader leaves out informational statuses: they promise nothing, and the connection is not to be touched before the step
// is committed.
func (w *response) WriteHeader(status int) {
	informational := status >= 100 && status <= 199 && status != http.StatusSwitchingProtocols
	if w.status != 0 || informational {
		return
	}
	w.status = max(status, 1) // 0 is none; neither is one that can go out
	w.sent = w.header.Clone()
	w.declared = -1
	if n, err := strconv.Atoi(w.sent.Get("Content-Length")); err == nil && n >= 0 { // net/http drops others
		w.declared = n
	}
}

func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.status == http.StatusNoContent || w.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	switch {
	case w.unfit != nil:
	case w.declared >= 0 && len(p) > w.declared-len(w.body):
		if w.method == http.MethodHead {
			return 0, http.ErrContentLength // which costs nothing there
		}
		w.unfit = http.ErrContentLength
	case len(p) > w.most-len(w.body):
		w.unfit = errTooLong
	}
	if w.unfit != nil {
		return 0, w.unfit
	}
	w.body = append(w.body, p...)
	return len(p), nil
}

// complete says whether the body is as long as was declared. One that is not sent may be declared.
func (w *response) complete() bool {
	bodiless := w.method == http.MethodHead || w.status == http.StatusNoContent || w.status == http.StatusNotModified
	return bodiless || w.declared < 0 || w.declared == len(w.body)
}

// SetReadDeadline, SetWriteDeadline and EnableFullDuplex are for http.ResponseController; there is no Unwrap, by which it would
// find Flush and Hijack too.
func (w *response) SetReadDeadline(t time.Time) error  { return w.control.SetReadDeadline(t) }
func (w *response) SetWriteDeadline(t time.Time) error { return w.control.SetWriteDeadline(t) }
func (w *response) EnableFullDuplex() error            { return w.control.EnableFullDuplex() }

// end is called when the handler has returned, with what it gave to Fail. The error says why the step is to be rolled back:
// besides errors that the handler answers, whatever could not be sent as it is once the step is committed.
func (w *response) end(cause error) error {
	answered := w.status >= 400 && w.status <= 999
	w.WriteHeader(http.StatusOK)
	switch {
	case answered && cause != nil:
		return fmt.Errorf("%w: status %d: %w", errStatus, w.status, cause)
	case answered:
		return fmt.Errorf("%w: status %d", errStatus, w.status)
	case cause != nil:
		return cause
	case w.status < 200 || w.status > 999:
		return fmt.Errorf("status %d cannot be held back", w.status)
	case w.unfit != nil:
		return w.unfit
	case !w.complete():
		return fmt.Errorf("%w: %d of %d bytes", io.ErrUnexpectedEOF, len(w.body), w.declared)
	}
	return nil
}

// send gives it all to the server's writer. An error of writing means that the client has gone, and is nobody's to tell.
func (w *response) send(rw http.ResponseWriter) {
	header := rw.Header()
	clear(header)
	maps.Copy(header, w.sent)
	if !w.complete() { // an error of next, which goes out all the same
		header.Del("Content-Length")
	}
	rw.WriteHeader(w.status)
	_, _ = rw.Write(w.body)
	for key, values := range w.header {
		if w.trailer(key) {
			header[key] = values
		}
	}
}

// trailer says whether a key is one of the two kinds that net/http sends after the body.
func (w *response) trailer(key string) bool {
	if strings.HasPrefix(key, http.TrailerPrefix) {
		return true
	}
	return slices.ContainsFunc(w.sent.Values("Trailer"), func(list string) bool {
		return slices.ContainsFunc(strings.Split(list, ","), func(name string) bool {
			return http.CanonicalHeaderKey(strings.TrimSpace(name)) == key
		})
	})
}
