//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quorumlock/quorumlock/internal/servers"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

const (
	startBound = 20 * time.Second        // until a server or a worker is ready
	actBound   = 15 * time.Second        // until what follows from a command or a fault has happened, beyond the TTL
	shown      = 5                       // writes that are waited for before the next thing happens
	window     = 1500 * time.Millisecond // in which another worker may be granted the lock after a fault
)

// lane is one system under test: its servers, its workers, and what was done to them.
type lane struct {
	extent
	name     string
	line     *demokit.Timeline
	launcher *demokit.Launcher
	ttl      time.Duration
	dir      string // of files of its own

	procs   []*process
	servers []*servers.Server
	dirs    int
}

func (l *lane) say(c demokit.Tone, what, format string, args ...any) {
	l.line.Say(c, l.name, what, format, args...)
}

// newDir is an empty directory that nobody has used before.
func (l *lane) newDir() (string, error) {
	l.dirs++
	dir := filepath.Join(l.dir, fmt.Sprint(l.dirs))
	return dir, os.MkdirAll(dir, 0o700)
}

// redis starts a server. The port that was found free may be taken before the server has it, so it is tried again.
func (l *lane) redis(ctx context.Context, settings ...string) (*servers.Server, error) {
	var errs []error
	for range 3 {
		dir, err := l.newDir()
		if err != nil {
			return nil, err
		}
		s, err := servers.Redis(ctx, dir, settings...)
		if err == nil {
			l.servers = append(l.servers, s)
			return s, nil
		}
		errs = append(errs, err)
		var missing *servers.MissingError
		if ctx.Err() != nil || errors.As(err, &missing) {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// work has workers contend.
func (l *lane) work(ctx context.Context, storeURL string, procs ...*process) error {
	for _, p := range procs {
		if _, err := p.ask(ctx, command{Verb: verbWork, Store: storeURL}); err != nil {
			return err
		}
	}
	return nil
}

// rest has workers give the lock back and contend no more.
func (l *lane) rest(ctx context.Context, procs ...*process) error {
	ctx, cancel := demokit.Within(ctx, actBound, "no rest")
	defer cancel()
	for _, p := range procs {
		if _, err := p.ask(ctx, command{Verb: verbRest}); err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) ready(ctx context.Context, procs ...*process) error {
	ctx, cancel := demokit.Within(ctx, startBound, "not ready")
	defer cancel()
	for _, p := range procs {
		if _, err := p.ask(ctx, command{Verb: verbReady}); err != nil {
			return err
		}
	}
	return nil
}

// holding waits until a worker holds, by a grant newer than the one named, and has written. It gives the grant.
func (l *lane) holding(ctx context.Context, s *store, p *process, after int) (int, error) {
	ctx, cancel := demokit.Within(ctx, l.ttl+actBound, p.name+" was not granted the lock")
	defer cancel()
	var id int
	err := s.await(ctx, func(v view) bool {
		id = v.grant(p.name)
		return id > after && v.beliefs[id-1].writes >= shown
	})
	return id, err
}

// stop ends all that the lane has started.
func (l *lane) stop() error {
	var errs []error
	for _, p := range l.procs {
		p.kill()
		if p.leftBehind() {
			errs = append(errs, fmt.Errorf("%s left a process behind", p.name))
		}
	}
	for _, s := range l.servers {
		s.Kill() // nothing of it is needed any more
	}
	l.procs, l.servers = nil, nil
	return errors.Join(errs...)
}

// replace puts a worker that was started anew in the place of one that was killed.
func (l *lane) replace(old, next *process) {
	for i, p := range l.procs {
		if p == old {
			l.procs[i] = next
		}
	}
}
