package scenario_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/watch"
)

// ledger is what a schedule knows of grants, as the log has them, and of holds, as their owners see them. Fake time is one for all instances, so instants
// are compared as they are.
type ledger struct {
	t      *testing.T
	strict bool // holds never overlap
	guard  quorumlock.Guard

	mu      sync.Mutex
	byRev   map[int64]logged
	byToken map[quorumlock.Token]logged
	entered map[quorumlock.Token]bool
	latest  map[string]quorumlock.Token // the highest token under which work began, by lock
	fenced  map[string]quorumlock.Token // what each lock protects
	held    map[*holding]struct{}
	covered []*holding // work that its owner was told no successor overlapped with
	lost    int
}

// logged is a grant when the first instance showed it.
type logged struct {
	rev   int64
	name  string
	token quorumlock.Token
	at    time.Time
}

// holding is one grant as its owner sees it.
type holding struct {
	name  string
	token quorumlock.Token
	spot  *spot
	holds func() bool
	end   time.Time // of the work under it
	err   error     // what the release answered
}

func newLedger(t *testing.T, strict bool) *ledger {
	return &ledger{
		t: t, strict: strict, byRev: make(map[int64]logged), byToken: make(map[quorumlock.Token]logged), entered: make(map[quorumlock.Token]bool),
		latest: make(map[string]quorumlock.Token), fenced: make(map[string]quorumlock.Token), held: make(map[*holding]struct{}),
	}
}

// follow notes what an instance shows until it ends.
func (l *ledger) follow(n *quorumlock.Node) {
	last := make(map[string]quorumlock.Token)
	for {
		for e, err := range n.Watch(context.Background(), "") {
			if errors.Is(err, watch.ErrFellBehind) {
				break
			}
			if err != nil {
				return
			}
			if e.Kind != watch.Granted {
				continue
			}
			if t := quorumlock.Token(e.Token); t <= last[e.Name] {
				l.t.Errorf("instance shows token %v of %q after %v", t, e.Name, last[e.Name])
			} else {
				last[e.Name] = t
			}
			l.granted(logged{e.Rev, e.Name, quorumlock.Token(e.Token), time.Now()})
		}
	}
}

func (l *ledger) granted(g logged) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, seen := l.byRev[g.rev]; seen {
		if other.token != g.token || other.name != g.name {
			l.t.Errorf("revision %d grants %q under %v on one instance, %q under %v on another", g.rev, other.name, other.token, g.name, g.token)
		}
		return
	}
	if other, seen := l.byToken[g.token]; seen {
		l.t.Errorf("token %v granted twice: revisions %d and %d", g.token, other.rev, g.rev)
	}
	l.byRev[g.rev], l.byToken[g.token] = g, g
	for h := range l.held {
		if l.strict && h.name == g.name && h.token < g.token && h.isHeld() {
			l.t.Errorf("%q: instance %d holds under %v while %v is granted", h.name, h.spot.index, h.token, g.token)
		}
	}
}

// isHeld asks the owner; one that is frozen can not be asked.
func (h *holding) isHeld() bool { return !h.spot.frozen.Load() && h.holds() }

// enter begins work under a grant.
func (l *ledger) enter(name string, token quorumlock.Token, s *spot, holds func() bool) *holding {
	h := &holding{name: name, token: token, spot: s, holds: holds}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entered[token] {
		l.t.Errorf("%q: token %v given out twice", name, token)
	}
	l.entered[token] = true
	if l.strict && h.isHeld() {
		if token <= l.latest[name] {
			l.t.Errorf("%q: token %v after %v", name, token, l.latest[name])
		}
		for other := range l.held {
			if other.name == name && other.isHeld() {
				l.t.Errorf("%q: instance %d got %v while instance %d holds under %v", name, s.index, token, other.spot.index, other.token)
			}
		}
	}
	l.latest[name] = max(l.latest[name], token)
	l.held[h] = struct{}{}
	return h
}

// write is work under a hold: it moves what the lock protects on, through the fence.
func (l *ledger) write(h *holding) {
	before := h.isHeld()
	err := l.guard.Do(h.name, h.token, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.token < l.fenced[h.name] {
			l.t.Errorf("%q: a write under %v went through after one under %v", h.name, h.token, l.fenced[h.name])
		}
		l.fenced[h.name] = h.token
		return nil
	})
	if err != nil && before && l.strict {
		l.t.Errorf("%q: the fence refused %v, which was held: %v", h.name, h.token, err)
	}
}

// leave ends the work under a grant, at end; err is what the release answered.
func (l *ledger) leave(h *holding, end time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, h)
	h.end, h.err = end, err
	if errors.Is(err, quorumlock.ErrLost) {
		l.lost++
		return
	}
	// Who got no answer cannot know that the lock was taken by force at once.
	if err == nil || l.strict {
		l.covered = append(l.covered, h)
	}
}

// holder is the instance of some hold, nil if nobody holds.
func (l *ledger) holder() *spot {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.held {
		if h.isHeld() {
			return h.spot
		}
	}
	return nil
}

// report checks what needs the whole history, and gives the number of holds that were lost.
func (l *ledger) report() (lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string][]logged)
	revs := make([]int64, 0, len(l.byRev))
	for rev := range l.byRev {
		revs = append(revs, rev)
	}
	slices.Sort(revs)
	var last quorumlock.Token
	for _, rev := range revs {
		g := l.byRev[rev]
		if g.token <= last {
			l.t.Errorf("token %v of %q was granted after %v", g.token, g.name, last)
		}
		last = g.token
		all[g.name] = append(all[g.name], g)
	}
	for _, h := range l.covered {
		for _, g := range all[h.name] {
			if g.token > h.token && g.at.Before(h.end) {
				l.t.Errorf("%q: work under %v on instance %d ended %v after %v was granted, and the release said %v",
					h.name, h.token, h.spot.index, h.end.Sub(g.at), g.token, h.err)
				break
			}
		}
	}
	if len(revs) < 5 {
		l.t.Errorf("only %d grants: nothing was tested", len(revs))
	}
	l.t.Logf("%d grants, %d of them covered to the end, %d lost", len(revs), len(l.covered), l.lost)
	return l.lost
}
