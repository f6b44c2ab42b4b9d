//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/httpfence"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// The paths of the service. A document is named by the query, ?name=, since names are any text.
const (
	documentsPath = "/documents" // GET; PUT under a grant
	claimsPath    = "/claims"    // POST under a grant: from now on lower tokens are refused
	unfencedPath  = "/unfenced"  // GET and PUT, whoever asks: the control
)

// service is the storage service. It knows nothing of locks and instances: a grant that comes with a request is enough.
type service struct {
	store store
	log   *slog.Logger
}

func (s *service) routes() http.Handler {
	refused := func(r *http.Request, err error) { s.log.Info("not written", "path", r.URL.Path, "err", err) }
	behindFence := func(next http.HandlerFunc) http.Handler {
		return httpfence.Handler(s.store, documentName, next, httpfence.OnError(refused))
	}
	mux := http.NewServeMux()
	mux.Handle("PUT "+documentsPath, behindFence(s.put(fenced)))
	mux.Handle("POST "+claimsPath, behindFence(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusNoContent) // the step has nothing to do but to keep the grant
	}))
	mux.Handle("GET "+documentsPath, s.get(fenced))
	mux.Handle("PUT "+unfencedPath, s.put(unfenced))
	mux.Handle("GET "+unfencedPath, s.get(unfenced))
	return mux
}

// documentName is the resource that a request writes to.
func documentName(r *http.Request) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", &fence.FieldError{Field: "query", Value: r.URL.RawQuery, Problem: "cannot be read", Err: err}
	}
	if n := len(query["name"]); n != 1 {
		return "", &fence.FieldError{Field: "name", Problem: fmt.Sprintf("is given %d times, not once", n)}
	}
	name := query.Get("name")
	return name, fence.CheckResource(name)
}

const maxDocument = 1 << 20

// put keeps a document: behind the fence in the step's transaction, which is in the context of the request.
func (s *service) put(in section) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		name, err := documentName(r)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		content, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxDocument))
		if err != nil {
			http.Error(rw, err.Error(), statusOf(err))
			return
		}
		if err := s.store.put(r.Context(), in, name, content); err != nil {
			httpfence.Fail(r, err)
			s.log.Error("put", "section", in, "name", name, "err", err)
			http.Error(rw, "the document could not be kept", http.StatusInternalServerError)
			return
		}
		rw.WriteHeader(http.StatusNoContent)
	}
}

// statusOf tells a document that is too long from a request that broke off.
func statusOf(err error) int {
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

func (s *service) get(in section) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		name, err := documentName(r)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		content, err := s.store.get(r.Context(), in, name)
		switch {
		case errors.Is(err, errAbsent):
			http.Error(rw, err.Error(), http.StatusNotFound)
		case err != nil:
			s.log.Error("get", "section", in, "name", name, "err", err)
			http.Error(rw, "the document could not be read", http.StatusInternalServerError)
		default:
			rw.Header().Set("Content-Type", "application/octet-stream")
			_, _ = rw.Write(content) // the client that has gone is nobody to tell
		}
	}
}

const (
	headerBound = 5 * time.Second
	finishBound = 5 * time.Second // for requests that are under way when the service ends
)

// webServer is the service on a port.
type webServer struct {
	url    string
	server *http.Server
	served chan error
}

func serve(h http.Handler, log *slog.Logger) (*webServer, error) {
	l, err := net.Listen("tcp", demokit.Loopback)
	if err != nil {
		return nil, fmt.Errorf("serve documents: %w", err)
	}
	w := &webServer{
		url:    "http://" + l.Addr().String(),
		server: &http.Server{Handler: h, ReadHeaderTimeout: headerBound, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)},
		served: make(chan error, 1),
	}
	go func() { w.served <- w.server.Serve(l) }()
	return w, nil
}

// stop lets the requests that are under way end.
func (w *webServer) stop() error {
	ctx, cancel := demokit.Within(context.Background(), finishBound, "requests did not end")
	defer cancel()
	err := w.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, w.server.Close())
	}
	if served := <-w.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
