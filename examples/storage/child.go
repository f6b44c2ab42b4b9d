//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// A child is this program again, started with the one argument childArg: the service or a worker. It takes JSON values on its
// standard input, the first of which is childOptions and the others commands. Each is answered on standard output before the
// next one is read. It ends with its input.
const childArg = "-child"

// childOptions is what a child is started with. It does not come by the command line, where anybody could read a password.
type childOptions struct {
	Name string   // of the instance
	Addr string   // of its node
	Join []string // addresses of all nodes
	Dir  string   // of its node's data
	TTL  time.Duration

	// Of the service: where the documents are kept, one of the two.
	File        string `json:",omitempty"` // bbolt file
	DSN, Schema string `json:",omitempty"`

	// Of a worker: the URL of the service.
	Service string `json:",omitempty"`
}

func (o childOptions) isService() bool { return o.Service == "" }

// The commands.
const (
	verbReady  = "ready"  // wait until locks are granted
	verbWork   = "work"   // do some jobs, one after the other
	verbBegin  = "begin"  // begin a job; answered when everything but its write has been done
	verbFinish = "finish" // write, and end the job that was begun
)

type command struct {
	Verb string
	Jobs int `json:",omitempty"` // work
}

type reply struct {
	Error  string      `json:",omitempty"`
	URL    string      `json:",omitempty"` // answer of the service to its options
	Voters int         `json:",omitempty"` // ready: how many members vote and can be reached
	Token  fence.Token `json:",omitempty"` // begin
	Jobs   []jobResult `json:",omitempty"` // work, finish
}

// role is what a child does beside being one instance of the lock service.
type role interface {
	obey(ctx context.Context, c command) (reply, error)
	close() error
}

// runChild obeys until in ends, as it does when the parent is gone.
func runChild(ctx context.Context, in io.Reader, out, stderr io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	commands, replies := json.NewDecoder(in), json.NewEncoder(out)
	var o childOptions
	if err := commands.Decode(&o); err != nil {
		return fmt.Errorf("read options: %w", err)
	}
	node, err := quorumlock.Open(ctx, quorumlock.Config{
		Cluster: "storage-example", Name: o.Name, Addr: o.Addr, Join: o.Join, Expect: len(o.Join), Dir: o.Dir,
		SessionTTL: o.TTL, Logger: quorumlock.SlogLogger(log),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	r, hello, err := newRole(ctx, o, node, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := replies.Encode(hello); err != nil {
		return fmt.Errorf("write reply: %w", err)
	}
	return obeyAll(ctx, node, r, commands, replies)
}

func newRole(ctx context.Context, o childOptions, node *quorumlock.Node, log *slog.Logger) (role, reply, error) {
	if !o.isService() {
		return newWorker(o.Name, node, o.Service), reply{}, nil
	}
	r, err := openServiceRole(ctx, o, log)
	if err != nil {
		return nil, reply{}, err
	}
	return r, reply{URL: r.web.url}, nil
}

func obeyAll(ctx context.Context, node *quorumlock.Node, r role, commands *json.Decoder, replies *json.Encoder) error {
	for {
		var c command
		if err := commands.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read command: %w", err)
		}
		var answer reply
		var err error
		if c.Verb == verbReady {
			answer.Voters, err = voters(ctx, node)
		} else {
			answer, err = r.obey(ctx, c)
		}
		if err != nil {
			answer.Error = err.Error()
		}
		if err := replies.Encode(answer); err != nil {
			return fmt.Errorf("write reply: %w", err)
		}
	}
}

// voters counts the members that vote and can be reached, as soon as locks are granted at all.
func voters(ctx context.Context, node *quorumlock.Node) (n int, err error) {
	ctx, cancel := demokit.Within(ctx, readyBound, "not ready")
	defer cancel()
	if err := node.Ready(ctx); err != nil {
		return 0, err
	}
	members, err := node.Members(ctx)
	for _, m := range members {
		if m.Voter && m.Reachable {
			n++
		}
	}
	return n, err
}

const readyBound = 20 * time.Second

// serviceRole is the process of the storage service. It is the third instance too, so that two workers have a quorum when one
// of them stands still.
type serviceRole struct {
	store store
	web   *webServer
}

func openServiceRole(ctx context.Context, o childOptions, log *slog.Logger) (*serviceRole, error) {
	var s store
	var err error
	if o.DSN != "" {
		s, err = openPostgres(ctx, o.DSN, o.Schema)
	} else {
		s, err = openBolt(o.File)
	}
	if err != nil {
		return nil, err
	}
	web, err := serve((&service{store: s, log: log}).routes(), log)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return &serviceRole{store: s, web: web}, nil
}

func (r *serviceRole) obey(_ context.Context, c command) (reply, error) {
	return reply{}, fmt.Errorf("the service knows no command %q", c.Verb)
}

func (r *serviceRole) close() error { return errors.Join(r.web.stop(), r.store.close()) }
