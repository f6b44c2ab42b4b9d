package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
)

// leaderView says who leads. Leader is "" while nobody does.
type leaderView struct {
	Leader  string           `json:"leader"`
	Token   quorumlock.Token `json:"token,omitempty"`
	URL     string           `json:"url,omitempty"`
	Waiting int              `json:"waiting"` // instances that stand ready
}

const (
	inspectLimit  = 2 * time.Second
	shutdownLimit = time.Second
)

// web is the HTTP side of an instance.
type web struct {
	url    string
	server *http.Server
	ready  atomic.Bool
}

func (s *instance) startWeb(addr string) (*web, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve http: %w", err)
	}
	w := &web{url: "http://" + ln.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, r *http.Request) { s.healthz(rw, w.ready.Load()) })
	mux.HandleFunc("GET /leader", s.leader)
	mux.HandleFunc("GET /members", s.members)
	mux.HandleFunc("GET /results", s.ownResults)
	mux.HandleFunc("GET /traffic", s.ownTraffic)
	w.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := w.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("http server ended", "error", err)
		}
	}()
	return w, nil
}

func (w *web) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownLimit)
	defer cancel()
	if w.server.Shutdown(ctx) != nil {
		_ = w.server.Close()
	}
}

// healthz asks nobody: an instance without a quorum is to wait for the others, not to be restarted by whoever looks after
// its health.
func (s *instance) healthz(rw http.ResponseWriter, ready bool) {
	switch err := s.node.Err(); {
	case err != nil:
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
	case !ready:
		http.Error(rw, "waiting for the cluster", http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(rw, "ok")
	}
}

// leader tells who leads. The answer comes through the cluster's log, so it is no older than the request.
func (s *instance) leader(rw http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), inspectLimit)
	defer cancel()
	info, err := s.node.Inspect(ctx, electionName)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		return
	}
	view := leaderView{Waiting: info.Waiting}
	if len(info.Holders) > 0 {
		h := info.Holders[0]
		view.Leader, view.Token, view.URL = h.Node, h.Token, h.Value
	}
	writeJSON(rw, http.StatusOK, view)
}

func (s *instance) members(rw http.ResponseWriter, r *http.Request) {
	list, err := s.node.Members(r.Context())
	if err != nil {
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		return
	}
	writeJSON(rw, http.StatusOK, list)
}

// ownResults tells what this instance knows of its own terms as leader.
func (s *instance) ownResults(rw http.ResponseWriter, _ *http.Request) {
	writeJSON(rw, http.StatusOK, s.results.list())
}

// ownTraffic tells what became of this instance's calls.
func (s *instance) ownTraffic(rw http.ResponseWriter, _ *http.Request) {
	writeJSON(rw, http.StatusOK, s.traffic.view())
}

func writeJSON(rw http.ResponseWriter, status int, v any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(v) // the client that has gone is nobody to tell
}
