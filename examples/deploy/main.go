// Command deploy is a service to be deployed: one process is one instance, which takes its settings from the environment (see
// internal/settings), and does a job that one instance at a time may do. The manifests in kubernetes and systemd run it;
// docs/OPERATIONS.md says what they set and why.
//
// By HTTP it answers
//
//	GET /healthz      200 while the node works; 503 when it has failed, and the process is to be started anew
//	GET /readyz       200 from the first moment on at which a leader has answered this instance
//	POST /locks/NAME  locks NAME for a moment and answers with its token
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/examples/deploy/internal/settings"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(context.Background(), os.Getenv, log); err != nil {
		log.Error("ended", "error", err)
		os.Exit(1)
	}
}

// service is one instance.
type service struct {
	node  *quorumlock.Node
	log   *slog.Logger
	ready atomic.Bool
}

// run is the life of an instance. It ends by SIGTERM or SIGINT, or because the node has failed.
func run(ctx context.Context, getenv func(string) string, log *slog.Logger) error {
	told, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	set, err := settings.Read(getenv)
	if err != nil {
		return err
	}
	set.Node.Logger = quorumlock.SlogLogger(log)
	node, err := quorumlock.Open(told, set.Node)
	if err != nil {
		return err
	}
	s := &service{node: node, log: log}
	server, err := s.serve(set.HTTP)
	if err != nil {
		return errors.Join(err, node.Close())
	}
	working, endWork := context.WithCancel(ctx)
	go s.work(working)
	select {
	case <-told.Done():
	case <-node.Done():
	}
	// What needs the node ends before it: requests, then the job, whose lock is released when its callback has returned.
	finishing, cancel := context.WithTimeout(ctx, settings.RequestBound)
	defer cancel()
	if err := server.Shutdown(finishing); err != nil {
		log.Warn("requests were cut off", "error", err)
		_ = server.Close()
	}
	endWork()
	end := node.LeaveOnSignal
	if set.Returns {
		end = node.CloseOnSignal
	}
	err = end(told, set.StopBound) // at once; it waits for the job's callback. Another signal cuts it short
	if errors.Is(err, quorumlock.ErrFailed) {
		return err
	}
	if err != nil { // no failure: the last ones of a deployment that stops as a whole have no quorum to say goodbye to
		log.Warn(notInOrder, "error", err)
	}
	return nil
}

const notInOrder = "stopped, but not in order: what was held, or the membership, ends by time"

// work waits for the cluster and then does the job whenever it is this instance's turn.
func (s *service) work(ctx context.Context) {
	if err := s.node.Ready(ctx); err != nil {
		return // the service ends, or its node has
	}
	s.ready.Store(true)
	s.log.Info("ready")
	err := quorumlock.NewElection(s.node, "job").Run(ctx, s.node.Addr(), func(ctx context.Context, l *quorumlock.Leadership) error {
		s.log.Info("doing the job", "token", l.Token())
		<-ctx.Done() // a real job works here, and looks at ctx
		return nil
	})
	if ctx.Err() == nil {
		s.log.Warn("the job ended", "error", err)
	}
}

func (s *service) serve(addr string) (*http.Server, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve http: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("POST /locks/{name}", s.lock)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("http server ended", "error", err)
		}
	}()
	s.log.Info("serving", "http", ln.Addr(), "node", s.node.Addr())
	return server, nil
}

// healthz does not look at the quorum: without one, starting this process anew would only make it later.
func (s *service) healthz(rw http.ResponseWriter, _ *http.Request) {
	if err := s.node.Err(); err != nil {
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
	}
}

// readyz holds a rollout up until this instance is part of the cluster. It does not take the answer back when the quorum
// goes: all instances would become unready at once, and a rollout that could mend it would stand still.
func (s *service) readyz(rw http.ResponseWriter, _ *http.Request) {
	if !s.ready.Load() {
		http.Error(rw, "waiting for the cluster", http.StatusServiceUnavailable)
	}
}

// lockPatience is how long a request waits for its lock.
const lockPatience = 10 * time.Second

func (s *service) lock(rw http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), lockPatience)
	defer cancel()
	var token quorumlock.Token
	err := quorumlock.NewMutex(s.node, r.PathValue("name")).Do(ctx, func(_ context.Context, t quorumlock.Token) error {
		token = t
		return nil
	})
	if err != nil {
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(rw, token)
}
