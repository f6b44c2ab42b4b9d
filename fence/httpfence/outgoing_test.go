package httpfence_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/httpfence"
)

// behind serves each request by a Handler that counts what it writes, with whatever happens to the answer after that.
func behind(t *testing.T, answer func(rw http.ResponseWriter, answered *httptest.ResponseRecorder)) (url string, writes *atomic.Int32) {
	t.Helper()
	writes = new(atomic.Int32)
	h := httpfence.Handler(new(fence.Guard), resourceOf, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { writes.Add(1) }))
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		answered := httptest.NewRecorder()
		h.ServeHTTP(answered, r)
		answer(rw, answered)
	}))
	t.Cleanup(s.Close)
	return s.URL, writes
}

func cutOff(http.ResponseWriter, *httptest.ResponseRecorder) { panic(http.ErrAbortHandler) }

// A connection that breaks after the commit leaves the outcome open, whoever wrote the header.
func TestConnectionCutAfterTheCommit(t *testing.T) {
	url, writes := behind(t, cutOff)
	_, err := send(t, "PUT", url, strings.NewReader("x"))
	if !errors.Is(err, fence.ErrUnknownOutcome) || !errors.Is(err, io.EOF) || errors.Is(err, fence.ErrNotWritten) || writes.Load() != 1 {
		t.Errorf("%v, %d writes", err, writes.Load())
	}
	byHand, err := http.NewRequestWithContext(t.Context(), "PUT", url+"/?name=r", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &httpfence.Transport{Base: &http.Transport{DisableKeepAlives: true}}}
	if _, err := client.Do(granted(t, byHand)); !errors.Is(err, fence.ErrUnknownOutcome) || writes.Load() != 2 {
		t.Errorf("by hand: %v, %d writes", err, writes.Load())
	}
	unfenced, err := http.NewRequestWithContext(t.Context(), "PUT", url+"/?name=r", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(unfenced); err == nil || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("without a grant, which is none of the fence's business: %v", err)
	}
}

// A server that cannot be reached has written nothing; a Base that repeats requests may have reached it before.
func TestUnreachableServerHasWrittenNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := send(t, "PUT", nobody, nil); !errors.Is(err, httpfence.ErrNotWritten) || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Error(err)
	}
	url, writes := behind(t, cutOff)
	wire := &http.Transport{DisableKeepAlives: true}
	repeats := roundTrip(func(r *http.Request) (*http.Response, error) {
		if _, err := wire.RoundTrip(r); err == nil {
			t.Error("the connection was not cut: the test shows nothing")
		}
		again := r.Clone(r.Context())
		again.URL.Host = strings.TrimPrefix(nobody, "http://")
		return wire.RoundTrip(again)
	})
	req, err := http.NewRequestWithContext(fence.NewContext(t.Context(), grant), "PUT", url+"/?name=r", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&httpfence.Transport{Base: repeats}).RoundTrip(req)
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" || !errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, fence.ErrNotWritten) || writes.Load() != 1 {
		t.Errorf("repeated: %v, %d writes", err, writes.Load())
	}
}

// A hold that is lost while the answer is under way says nothing of the write; one that was lost before says that there is none.
func TestHoldLostBeforeAndAfterTheWrite(t *testing.T) {
	node := openNode(t)
	committed, release := make(chan struct{}), make(chan struct{})
	url, writes := behind(t, func(http.ResponseWriter, *httptest.ResponseRecorder) {
		close(committed)
		<-release
	})
	defer close(release)
	client := &http.Client{Transport: &httpfence.Transport{Base: &http.Transport{DisableKeepAlives: true}}}
	put := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, "PUT", url+"/?name=r", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Do(req)
		return err
	}
	err := quorumlock.NewMutex(node, "job-x").Do(t.Context(), func(ctx context.Context, token quorumlock.Token) error {
		forced := make(chan error, 1)
		go func() {
			<-committed
			force := quorumlock.ForceOptions{Actor: "operator", Reason: "test", Now: true}
			forced <- node.ForceRelease(t.Context(), "job-x", token, force)
		}()
		err := put(ctx)
		if !errors.Is(err, fence.ErrUnknownOutcome) || !errors.Is(err, quorumlock.ErrLost) || !errors.Is(err, context.Canceled) || writes.Load() != 1 {
			t.Errorf("lost in flight: %v, %d writes", err, writes.Load())
		}
		err = put(ctx)
		if errors.Is(err, fence.ErrUnknownOutcome) || !errors.Is(err, quorumlock.ErrLost) || !errors.Is(err, httpfence.ErrNotWritten) || writes.Load() != 1 {
			t.Errorf("lost before: %v, %d writes", err, writes.Load())
		}
		return <-forced
	})
	if !errors.Is(err, quorumlock.ErrLost) {
		t.Error(err)
	}
}

// A Base that does not look at contexts is not asked when the hold has ended.
func TestNothingIsSentAfterTheEnd(t *testing.T) {
	sent := 0
	base := roundTrip(func(*http.Request) (*http.Response, error) { sent++; return httptest.NewRecorder().Result(), nil })
	ctx, cancel := context.WithCancelCause(fence.NewContext(t.Context(), grant))
	cancel(noEquality{quorumlock.ErrLost, []int{1}})
	body := &closes{Reader: strings.NewReader("x")}
	req := httptest.NewRequest("PUT", "http://a.example/", body).WithContext(ctx)
	_, err := (&httpfence.Transport{Base: base}).RoundTrip(req)
	if !errors.Is(err, quorumlock.ErrLost) || !errors.Is(err, context.Canceled) || !errors.Is(err, fence.ErrNotWritten) || sent != 0 || body.closed != 1 {
		t.Errorf("%v, sent %d times, body closed %d times", err, sent, body.closed)
	}
}

// http.Client.Timeout puts an error of its own in place of what the Transport said, if its timer was seen to run out; a deadline
// of the context does not.
func TestPitfallClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Minute
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			time.Sleep(time.Second) // which is when the timer has been seen
			return nil, r.Context().Err()
		})
		put := func(ctx context.Context, limit time.Duration) error {
			req := httptest.NewRequest("PUT", "http://a.example/", nil).WithContext(fence.NewContext(ctx, grant))
			req.RequestURI = ""
			_, err := (&http.Client{Transport: &httpfence.Transport{Base: base}, Timeout: limit}).Do(req)
			return err
		}
		if err := put(t.Context(), limit); errors.Is(err, fence.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the pitfall is gone: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		if err := put(ctx, 0); !errors.Is(err, fence.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// A kept-alive connection that dies after the write: net/http must not send the request again, although it has a key and a body
// that can be read again.
func TestFencedRequestsAreSentOnce(t *testing.T) {
	for _, key := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		for _, fenced := range []bool{true, false} {
			var requests, keyed atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.Header.Get(key) == "k" {
					keyed.Add(1)
				}
				if requests.Add(1) == 2 {
					panic(http.ErrAbortHandler)
				}
			}))
			base := &http.Transport{}
			client := &http.Client{Transport: &httpfence.Transport{Base: base}}
			post := func() error {
				req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, strings.NewReader("x"))
				if err != nil {
					t.Fatal(err)
				}
				if req.Header.Set(key, "k"); fenced {
					granted(t, req)
				}
				resp, err := client.Do(req)
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, resp.Body)
				return errors.Join(err, resp.Body.Close())
			}
			if err := post(); err != nil { // leaves a connection to be used again
				t.Fatal(err)
			}
			err := post()
			if fenced && (!errors.Is(err, fence.ErrUnknownOutcome) || requests.Load() != 2 || keyed.Load() != 2) {
				t.Errorf("%s: %v, %d requests, %d with the key", key, err, requests.Load(), keyed.Load())
			}
			if !fenced && (err != nil || requests.Load() != 3) {
				t.Errorf("%s: without a grant net/http does not repeat any more, the test shows nothing: %v, %d requests", key, err, requests.Load())
			}
			base.CloseIdleConnections()
			s.Close()
		}
	}
}

// A header under another spelling than net/http's goes out as well, and is copied to where a redirect leads.
func TestGrantUnderAnySpelling(t *testing.T) {
	const spelling = "quorumlock-GRANT"
	for _, fenced := range []bool{false, true} {
		var there, elsewhere []string
		other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere = r.Header.Values(httpfence.Header) }))
		front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			there = r.Header.Values(httpfence.Header)
			http.Redirect(rw, r, other.URL, http.StatusTemporaryRedirect)
		}))
		ctx, want := t.Context(), "token=9;cluster=c;lock=l"
		if fenced {
			ctx, want = fence.NewContext(ctx, grant), grantText
		}
		req, err := http.NewRequestWithContext(ctx, "PUT", front.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header[spelling] = []string{"token=9;cluster=c;lock=l"}
		resp, err := (&http.Client{Transport: &httpfence.Transport{Base: &http.Transport{DisableKeepAlives: true}}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if strings.Join(there, "|") != want || len(elsewhere) > 0 {
			t.Errorf("fenced %v: sent %q, and %q elsewhere", fenced, there, elsewhere)
		}
		front.Close()
		other.Close()
	}
}

func TestTransportRefusesWhatIsMissing(t *testing.T) {
	transport := &httpfence.Transport{}
	body := &closes{Reader: strings.NewReader("x")}
	for name, req := range map[string]*http.Request{"no URL": {Body: body}, "no request": nil} {
		if _, err := transport.RoundTrip(req); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if body.closed != 1 {
		t.Errorf("body closed %d times", body.closed)
	}
	if err := httpfence.Inject(nil, grant); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("no header: %v", err)
	}
	if ctx, err := httpfence.Extract(nil); !errors.Is(err, fence.ErrInvalid) || ctx == nil {
		t.Errorf("no request: %v, %v", ctx, err)
	}
}
