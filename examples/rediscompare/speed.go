//go:build unix

package main

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// speed is one line of the table of speeds.
type speed struct {
	system string
	keeps  string
	one    measurement // one caller
	many   measurement // mostCallers callers, each with a lock of its own
}

// measureAll measures one system after the other, each alone on the machine, with fresh servers.
func measureAll(ctx context.Context, l *lane) ([]speed, error) {
	var list []speed
	for _, part := range []func(context.Context, *lane) ([]speed, error){
		func(ctx context.Context, l *lane) ([]speed, error) { return speedSingle(ctx, l, "nothing", nil) },
		func(ctx context.Context, l *lane) ([]speed, error) {
			return speedSingle(ctx, l, "each command, fsync", appendAlways)
		},
		func(ctx context.Context, l *lane) ([]speed, error) { return speedRedlock(ctx, l, "nothing", nil) },
		func(ctx context.Context, l *lane) ([]speed, error) {
			return speedRedlock(ctx, l, "each command, fsync", appendAlways)
		},
		func(ctx context.Context, l *lane) ([]speed, error) {
			return speedQuorum(ctx, l, "nothing", true)
		},
		func(ctx context.Context, l *lane) ([]speed, error) {
			return speedQuorum(ctx, l, "majority, fsync", false)
		},
	} {
		rows, err := part(ctx, l)
		if err != nil {
			return nil, err
		}
		list = append(list, rows...)
		if err := l.stop(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func speedSingle(ctx context.Context, l *lane, keeps string, settings []string) ([]speed, error) {
	s, stop, err := startSingle(ctx, l, settings, "redis-caller")
	if err != nil {
		return nil, err
	}
	defer stop()
	row, err := l.measure(ctx, s.a, "Single Redis lock, one replica", keeps)
	return []speed{row}, err
}

func speedRedlock(ctx context.Context, l *lane, keeps string, settings []string) ([]speed, error) {
	s, err := startRedlock(ctx, l, settings, "redlock-caller")
	if err != nil {
		return nil, err
	}
	row, err := l.measure(ctx, s.a, "Redlock, 3 servers", keeps)
	return []speed{row}, err
}

// speedQuorum measures callers on the raft leader, and on another instance, whose requests take one step more.
func speedQuorum(ctx context.Context, l *lane, keeps string, inMemory bool) ([]speed, error) {
	s, err := startQuorum(ctx, l, inMemory)
	if err != nil {
		return nil, err
	}
	i, err := s.whole(ctx)
	if err != nil {
		return nil, err
	}
	other, _ := s.others(i)
	leads, err := l.measure(ctx, s.procs[i], "quorumlock, caller on the leader", keeps)
	if err != nil {
		return nil, err
	}
	follows, err := l.measure(ctx, other, "quorumlock, caller on another", keeps)
	return []speed{leads, follows}, err
}

func (l *lane) measure(ctx context.Context, p *process, system, keeps string) (speed, error) {
	ctx, cancel := demokit.Within(ctx, 2*l.measureFor+actBound, "no measurement")
	defer cancel()
	row := speed{system: system, keeps: keeps}
	for _, m := range []*measurement{&row.one, &row.many} {
		callers := 1
		if m == &row.many {
			callers = mostCallers
		}
		r, err := p.ask(ctx, command{Verb: verbMeasure, Callers: callers, For: l.measureFor})
		if err != nil {
			return speed{}, err
		}
		*m = r.Measurement
	}
	l.say(demokit.Plain, "measured", "%s: %.0f and %.0f cycles/s", system, row.one.perSecond(), row.many.perSecond())
	return row, nil
}
