package hub

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/quorumlock/watch"
)

var update = flag.Bool("update", false, "write what the scripts give into testdata")

// TestGolden runs the scripts in testdata. A line without "=" in front is a command, the lines with it are its answer:
//
//	hub HISTORY             a new hub
//	publish FIRST NAME...   events with revisions from FIRST on, "-" is no name
//	fill FIRST COUNT NAME   COUNT such events of one name, each in a call of its own
//	reset REV               a snapshot was installed
//	close [CAUSE]           the hub ends
//	sub ID PREFIX SINCE     a subscription, "-" is the empty prefix
//	next ID                 one event; "nothing yet" if Next waits
//	drain ID                all that Next gives until it waits or ends, revisions in short
//	seen ID
//	end ID                  closes the subscription
func TestGolden(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range scripts {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			synctest.Test(t, func(t *testing.T) { got = runScript(t, string(text)) })
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got != string(text) {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

// runScript returns the script with the answers that it gets.
func runScript(t *testing.T, text string) string {
	p := &player{t: t, subs: make(map[string]*Subscription)}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "=") {
			continue
		}
		out.WriteString(line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			if answer := p.do(words[0], words[1:]); answer != "" {
				fmt.Fprintf(&out, "= %s\n", answer)
			}
		}
	}
	return out.String()
}

type player struct {
	t    *testing.T
	hub  *Hub
	subs map[string]*Subscription
}

func (p *player) do(command string, args []string) string {
	switch command {
	case "hub":
		p.hub = NewHub(int(p.number(args[0])))
	case "publish":
		return p.answer(p.hub.Publish(events(p.number(args[0]), args[1:]...)))
	case "fill":
		first, count := p.number(args[0]), p.number(args[1])
		for i := range count {
			if err := p.hub.Publish(events(first+i, args[2])); err != nil {
				return p.answer(err)
			}
		}
	case "reset":
		p.hub.Reset(p.number(args[0]))
	case "close":
		var cause error
		if len(args) > 0 {
			cause = errors.New(strings.Join(args, " "))
		}
		p.hub.Close(cause)
	case "sub":
		p.subs[args[0]] = p.hub.Subscribe(name(args[1]), p.number(args[2]))
	case "next":
		return p.next(p.subs[args[0]])
	case "drain":
		return p.drain(p.subs[args[0]])
	case "seen":
		return strconv.FormatInt(p.subs[args[0]].Seen(), 10)
	case "end":
		p.subs[args[0]].Close()
	default:
		p.t.Fatalf("unknown command %q", command)
	}
	return ""
}

func (p *player) number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *player) answer(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// next waits in fake time: when the whole bubble is idle, Next is really waiting.
func (p *player) next(s *Subscription) string {
	e, err, ok := p.try(s)
	switch {
	case !ok:
		return "nothing yet"
	case err != nil:
		return p.answer(err)
	}
	return fmt.Sprintf("%d %v %s", e.Rev, e.Kind, e.Name)
}

func (p *player) try(s *Subscription) (e watch.Event, err error, ok bool) {
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e, err = s.Next(ctx)
	}()
	synctest.Wait()
	cancel()
	<-done
	return e, err, !errors.Is(err, context.Canceled)
}

func (p *player) drain(s *Subscription) string {
	var first, last, count int64
	for {
		e, err, ok := p.try(s)
		if ok && err == nil {
			if count++; count == 1 {
				first = e.Rev
			}
			last = e.Rev
			continue
		}
		end := "nothing yet"
		if ok {
			end = p.answer(err)
		}
		return fmt.Sprintf("%d events, revisions %d to %d, then: %s", count, first, last, end)
	}
}

func name(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

func events(first int64, names ...string) []watch.Event {
	list := make([]watch.Event, len(names))
	for i, n := range names {
		list[i] = watch.Event{Rev: first + int64(i), Kind: watch.Granted, Name: name(n)}
	}
	return list
}
