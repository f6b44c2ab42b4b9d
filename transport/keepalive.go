package transport

import (
	"errors"
	"time"
)

const (
	pingAfter = time.Second     // of silence, and again each second
	deadAfter = 3 * time.Second // of silence
)

var errSilent = errors.New("no byte from the peer for 3s")

// keepAlive pings a silent peer while this side has an interest in it, and gives it up when it stays silent. It returns when the
// peer is dead or the connection ends.
//
// Silence is counted from the later of three moments: the last byte, the begin of the interest (a peer nobody asked may be as
// silent as it likes), and the last time this goroutine woke late (then this process stood still, and the peer's bytes may be
// lying in the socket).
func (c *callConn) keepAlive() error {
	t := time.NewTimer(pingAfter)
	defer t.Stop()
	var w watch
	w.restart(c.now())
	for {
		planned := c.now() + w.wait
		select {
		case <-t.C:
		case <-c.interest:
			w.restart(c.now())
		case <-c.ctx.Done():
			return nil
		}
		now := c.now()
		if now > planned+pingAfter || !c.interested() || c.saturated.Load() {
			w.restart(now)
			if c.saturated.Load() { // it can not hear our pings answered, but the peer must hear something
				c.ping()
			}
		}
		ping, dead := w.look(now, time.Duration(c.heard.Load()))
		if dead {
			return errSilent
		}
		if ping {
			c.ping()
		}
		t.Reset(w.wait)
	}
}

// watch is the arithmetic of keepAlive; times are since the connection was made.
type watch struct {
	since    time.Duration // silence is not counted from before
	lastPing time.Duration
	wait     time.Duration // until the next look
}

func (w *watch) restart(now time.Duration) {
	w.since, w.lastPing, w.wait = now, now, pingAfter
}

func (w *watch) look(now, heard time.Duration) (ping, dead bool) {
	from := max(w.since, heard)
	if now-from >= deadAfter {
		return false, true
	}
	if next := max(from, w.lastPing) + pingAfter; now < next {
		w.wait = min(next, from+deadAfter) - now
		return false, false
	}
	w.lastPing = now
	w.wait = min(pingAfter, from+deadAfter-now)
	return true, false
}

func (c *callConn) now() time.Duration { return time.Since(c.born) }

func (c *callConn) ping() { c.out.offer(&frame{kind: framePing}) }

// interested: calls are outstanding (or were, and nothing came since: callers that give up fast must not keep a dead connection
// alive), or pushes may come or go. An acceptor always is, because the connection is where it pushes, and calls it serves end
// with it.
func (c *callConn) interested() bool {
	if c.inbound || c.calls.onPush != nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = len(c.pending) == 0 && c.owed <= time.Duration(c.heard.Load())
	return !c.idle
}

func (c *callConn) noteInterest() {
	select {
	case c.interest <- struct{}{}:
	default: // told already
	}
}
