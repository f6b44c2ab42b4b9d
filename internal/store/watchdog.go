package store

import (
	"sync"
	"time"
)

// snapshotPatience is how many times longer the closing of a snapshot may take than other writes: it syncs a whole file, in the
// background, while the log's own writes are watched as ever.
const snapshotPatience = 10

// ticksPerLimit is how many looks the watchdog takes within the limit, so a stall is reported at most 2/ticksPerLimit late.
const ticksPerLimit = 12

// watchdog reports writes that hang. It counts in time during which the process verifiably ran: a look that comes late (the
// process was stopped, frozen or starved) counts as one regular step however long the gap was, so a pause of our own is never
// taken for a hung disk.
//
// Both reports come from its one goroutine, hence in order.
type watchdog struct {
	limit   time.Duration
	step    time.Duration
	report  func(stalled bool)
	recheck chan struct{} // one slot: a stalled write has ended
	stop    chan struct{}
	stopped chan struct{}

	mu       sync.Mutex
	ran      time.Duration // running time counted up to the last look
	lastLook time.Time
	writes   map[*watched]struct{}
	stalled  bool // reported true, not yet false
	healed   bool // the last stalled write to end has succeeded
}

// watched is one write in flight.
type watched struct {
	begun   time.Duration // watchdog.ran at the last look before it began: up to one step too early
	limit   time.Duration
	stalled bool
}

func startWatchdog(limit time.Duration, report func(bool)) *watchdog {
	w := newWatchdog(limit, report, time.Now())
	go w.run()
	return w
}

func newWatchdog(limit time.Duration, report func(bool), now time.Time) *watchdog {
	return &watchdog{
		limit:    limit,
		step:     max(limit/ticksPerLimit, time.Millisecond),
		report:   report,
		recheck:  make(chan struct{}, 1),
		stop:     make(chan struct{}),
		stopped:  make(chan struct{}),
		lastLook: now,
		writes:   make(map[*watched]struct{}),
	}
}

func (w *watchdog) run() {
	defer close(w.stopped)
	tick := time.NewTicker(w.step)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.recheck:
		case <-w.stop:
			return
		}
		if stalled, changed := w.look(time.Now()); changed && w.report != nil {
			w.report(stalled)
		}
	}
}

// close ends the goroutine and returns when it is gone. It must be called once.
func (w *watchdog) close() {
	close(w.stop)
	<-w.stopped
}

func (w *watchdog) begin(patience int) *watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := &watched{begun: w.ran, limit: w.limit * time.Duration(patience)}
	w.writes[x] = struct{}{}
	return x
}

func (w *watchdog) end(x *watched, ok bool) {
	w.mu.Lock()
	delete(w.writes, x)
	if x.stalled {
		w.healed = ok
	}
	w.mu.Unlock()
	if x.stalled {
		select {
		case w.recheck <- struct{}{}:
		default:
		}
	}
}

// look advances the running time to now and says whether the state to report has changed. A stall ends only by a success: after
// a write that hung and then failed the latch speaks, not the watchdog.
func (w *watchdog) look(now time.Time) (stalled, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	gap := now.Sub(w.lastLook)
	if gap > 2*w.step {
		gap = w.step
	}
	w.ran += gap
	w.lastLook = now

	hangs := false
	for x := range w.writes {
		if w.ran-x.begun-w.step > x.limit {
			x.stalled, hangs = true, true
		}
	}
	switch {
	case hangs && !w.stalled:
		w.stalled, w.healed = true, false
		return true, true
	case !hangs && w.stalled && w.healed:
		w.stalled, w.healed = false, false
		return false, true
	}
	return w.stalled, false
}
