package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/watch"
)

// world is a sequential lock service with clients, made of chance: each command is applied at an instant, calls begin before and end after it, and
// observers see it a while later. What it records is right by construction. Its rule of grants is as naive as can be, and shares nothing with the checker.
type world struct {
	rng      *rand.Rand
	now      time.Time
	rev      int64
	index    uint64
	serial   int
	sessions []int64
	claims   []*worldClaim // that wait, hold, or bar, in the order of their places
	limit    int           // of the pool, 0 while nobody uses it
	fixed    bool
	former   int          // the limit before, which claims may name as well; 0 if there is none
	shown    [3]time.Time // how far each observer is
	tape     []record
}

type worldClaim struct {
	Claim
	number  uint64
	session int64
	token   int64
	start   time.Time // of the call
	given   time.Time // when its caller got it
	holds   bool
	barred  bool
	drained bool
	orphan  bool // its caller had given up
}

const poolLimit = 3

var worldLocks = []string{"hot", "hot", "hot", "hot", "warm", "warm", "cool"} // some are used more than others

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), now: ms(50), rev: 1_000_000, index: 7, limit: poolLimit, fixed: false}
	for i := range w.shown {
		w.tape = append(w.tape, record{kind: kindObserver, observer: i})
	}
	return w
}

// generate is a tape of some commands.
func generate(seed uint64, commands int) []record {
	w := newWorld(seed)
	for range commands {
		w.command()
	}
	return w.tape
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d) + 1)) }

const jitter = 5 * time.Millisecond

// around is a call that was applied now.
func (w *world) around(lock string, notBefore time.Time) Call {
	start := w.now.Add(-w.upTo(jitter))
	if start.Before(notBefore) {
		start = notBefore
	}
	return Call{Client: "c", Lock: lock, Start: start, End: w.now.Add(w.upTo(jitter))}
}

func (w *world) note(r record) { w.tape = append(w.tape, r) }

// tell shows an event to all observers, to each at its own time.
func (w *world) tell(e watch.Event) int64 {
	w.rev++
	e.Rev, e.ServerID, e.Index, e.Time = w.rev, "n", w.index, w.now
	if e.Kind == watch.SessionOpened {
		e.Session = e.Rev
	}
	for i := range w.shown {
		if at := w.now.Add(w.upTo(jitter)); at.After(w.shown[i]) {
			w.shown[i] = at
		}
		w.note(record{kind: kindEvent, observer: i, event: e, at: w.shown[i]})
	}
	return e.Rev
}

// emit tells of a claim on each of its names.
func (w *world) emit(kind watch.Kind, c *worldClaim, note string) {
	for _, name := range c.Names {
		w.tell(watch.Event{Kind: kind, Name: name, Token: fence.Token(c.token), Session: c.session, Claim: c.number, Note: note, Mode: c.Mode, Permits: c.Permits})
	}
}

func (w *world) command() {
	if w.rng.IntN(4) > 0 { // some commands share an instant, and an entry
		w.now = w.now.Add(w.upTo(2 * time.Millisecond))
		w.index++
	}
	if len(w.sessions) == 0 {
		w.open()
		return
	}
	switch p := w.rng.IntN(100); {
	case p < 2 && len(w.sessions) < 8:
		w.open()
	case p < 3:
		w.end(watch.SessionExpired, watch.Expired)
	case p < 4:
		w.end(watch.SessionClosed, watch.Released)
	case p < 35:
		w.claim()
	case p < 38:
		w.cancel()
	case p < 42:
		w.force()
	case p < 44:
		w.free()
	case p < 48:
		w.downgrade()
	case p < 52:
		w.receive()
	case p < 55:
		w.handOver()
	case p < 57:
		w.proclaim()
	case p < 58:
		w.resize()
	case p < 72:
		w.inspect()
	default:
		w.unlock()
	}
}

func (w *world) open() {
	id := w.tell(watch.Event{Kind: watch.SessionOpened})
	w.sessions = append(w.sessions, id)
	w.note(record{kind: kindSessionOpened, call: w.around("", epoch), token: id})
}

// ask is a new claim of some session.
func (w *world) ask(mode watch.Mode, names ...string) *worldClaim {
	w.serial++
	c := &worldClaim{
		Claim:   Claim{ID: fmt.Sprint("c", w.serial), Names: names, Mode: mode},
		number:  uint64(w.serial),
		session: w.sessions[w.rng.IntN(len(w.sessions))], orphan: w.rng.IntN(10) == 0,
	}
	if w.rng.IntN(5) == 0 {
		c.Delay = time.Duration(1+w.rng.IntN(20)) * time.Millisecond
	}
	if w.rng.IntN(5) == 0 {
		c.MaxHold = time.Hour
	}
	return c
}

func (w *world) asked(c *worldClaim) { w.note(record{kind: kindAsks, claim: c.Claim}) }

func (w *world) someClaim() *worldClaim {
	name := worldLocks[w.rng.IntN(len(worldLocks))]
	switch w.rng.IntN(6) {
	case 0, 1:
		return w.ask(shared, name)
	case 2:
		c := w.ask(permits, "pool")
		c.Permits, c.Limit = 1+w.rng.IntN(min(2, w.limit)), w.limit
		if w.former > 0 && w.rng.IntN(2) == 0 {
			c.Limit = w.former
		}
		return c
	case 3:
		names := []string{"hot", "warm", "cool"}
		w.rng.Shuffle(3, func(i, k int) { names[i], names[k] = names[k], names[i] })
		return w.ask(exclusive, names[:2+w.rng.IntN(2)]...)
	}
	return w.ask(exclusive, name)
}

// on are the claims on a name.
func (w *world) on(name string) (list []*worldClaim) {
	for _, c := range w.claims {
		if slices.Contains(c.Names, name) {
			list = append(list, c)
		}
	}
	return list
}

// blocked says that a claim cannot be granted; one that is not in the list yet stands behind all.
func (w *world) blocked(c *worldClaim) bool {
	for _, name := range c.Names {
		used := 0
		for _, d := range w.on(name) {
			if d == c {
				break
			}
			if !d.holds || c.Mode == exclusive || d.Mode == exclusive {
				return true
			}
			used += d.Permits
		}
		if c.Mode == permits && used+c.Permits > w.limit {
			return true
		}
	}
	return false
}

func (w *world) claim() {
	c := w.someClaim()
	w.asked(c)
	call := w.around(c.lock(), epoch)
	c.start = call.Start
	switch {
	case !w.blocked(c):
		w.claims = append(w.claims, c)
		w.grant(c)
	case w.rng.IntN(3) == 0:
		w.refuse(c, call)
	case len(w.claims) < 12:
		w.claims = append(w.claims, c)
		w.emit(watch.Queued, c, c.ID)
	}
}

// lock is the one name of a claim, "" if there are several.
func (c *worldClaim) lock() string {
	if len(c.Names) > 1 {
		return ""
	}
	return c.Names[0]
}

func (w *world) refuse(c *worldClaim, call Call) {
	r := record{kind: kindRefused, call: call, id: c.ID}
	for _, name := range c.Names {
		for _, d := range w.on(name) {
			if d.holds && r.other == "" {
				r.other = d.ID
			}
		}
	}
	if w.rng.IntN(20) == 0 {
		r.other = ""
	}
	w.note(r)
}

func (w *world) grant(c *worldClaim) {
	c.holds, c.token = true, w.rev+1
	if c.Mode == shared {
		for _, d := range w.on(c.Names[0]) {
			if d != c && d.holds {
				c.token = d.token
			}
		}
	}
	w.emit(watch.Granted, c, c.ID)
	w.give(c)
	if c.Mode == exclusive && len(c.Names) == 1 {
		w.note(record{kind: kindLeads, id: "o", call: Call{Lock: c.lock()}, token: c.token, at: w.now.Add(jitter)})
	}
}

// give tells the caller.
func (w *world) give(c *worldClaim) {
	call := Call{Client: "c", Lock: c.lock(), Start: c.start, End: w.now.Add(w.upTo(jitter))}
	c.given = call.End
	if c.orphan {
		w.note(record{kind: kindFailed, call: call, id: c.ID})
		return
	}
	w.note(record{kind: kindAcquired, call: call, id: c.ID, token: c.visible()})
	w.note(record{kind: kindHeld, id: c.ID, at: call.End})
}

func (c *worldClaim) visible() int64 {
	if c.Mode == permits {
		return 0
	}
	return c.token
}

// promote grants whatever can be.
func (w *world) promote() {
	for _, c := range slices.Clone(w.claims) {
		if !c.holds && !w.blocked(c) {
			w.grant(c)
		}
	}
	if len(w.on("pool")) == 0 && !w.fixed {
		w.limit, w.former = 1+w.rng.IntN(4), 0
	}
}

func (w *world) remove(c *worldClaim) {
	w.claims = slices.DeleteFunc(w.claims, func(d *worldClaim) bool { return d == c })
}

// some is a claim that is fit, nil if none is.
func (w *world) some(fit func(c *worldClaim) bool) *worldClaim {
	var list []*worldClaim
	for _, c := range w.claims {
		if fit(c) {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[w.rng.IntN(len(list))]
}

// settled is a hold whose caller has it.
func (w *world) settled(c *worldClaim) bool { return c.holds && !c.barred && !c.given.After(w.now) }

// stops records that the owner of a hold gives it up.
func (w *world) stops(c *worldClaim, at time.Time) {
	w.note(record{kind: kindHeld, id: c.ID, at: at})
	w.note(record{kind: kindEnded, id: c.ID, at: at})
}
