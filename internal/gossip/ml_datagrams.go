//go:build !wasip1

package gossip

import (
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
)

const (
	// deafAfter failed probes in a row, over deafFor at least, datagrams to a member that is alive are taken for blocked. Loss
	// alone hardly does both: a member that is dead has left the view by then, and of a network that loses one datagram in ten,
	// five pairs of question and answer in a row fail once in 4,000.
	deafAfter = 5
	deafFor   = 15 * time.Second
)

// datagramWatch finds members to which datagrams do not get through, in one direction at least, while they are alive by the
// word of others or by streams. memberlist goes around such a fault without a word, as it should: nobody is lost by it. But
// what it goes around with is then the only way left, so an operator is told, once until it is over.
type datagramWatch struct {
	log  hclog.Logger
	addr func(serverID string) (string, bool)

	mu   sync.Mutex
	deaf map[string]*deafness // by server id
}

// deafness is a row of probes that failed.
type deafness struct {
	count int
	since time.Time
	told  bool
}

var _ memberlist.PingDelegate = (*datagramWatch)(nil)

// failedProbe is memberlist's debug line about a probe by datagram without an answer; it has no hook for that.
const failedProbe = "Failed UDP ping: "

// line takes a line of memberlist's.
func (w *datagramWatch) line(text string, now time.Time) {
	_, rest, ok := strings.Cut(text, failedProbe)
	if id, _, named := strings.Cut(rest, " "); ok && named {
		w.failed(id, now)
	}
}

func (w *datagramWatch) failed(id string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.deaf[id]
	if d == nil {
		if w.deaf == nil || len(w.deaf) >= maxEntries {
			w.deaf = map[string]*deafness{}
		}
		d = &deafness{since: now}
		w.deaf[id] = d
	}
	d.count++
	if d.told || d.count < deafAfter || now.Sub(d.since) < deafFor {
		return
	}
	d.told = true
	addr, _ := w.addr(id)
	w.log.Warn("datagrams do not get through, at least one way; gossip goes around: is UDP let through on the port?", "server", id, "addr", addr)
}

// over forgets a member's failures: it answered, or it is gone, which is told by others.
func (w *datagramWatch) over(id string) (told bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.deaf[id]
	delete(w.deaf, id)
	return d != nil && d.told
}

// NotifyPingComplete is called for an answer that came by datagram, in time.
func (w *datagramWatch) NotifyPingComplete(n *memberlist.Node, _ time.Duration, _ []byte) {
	if w.over(n.Name) {
		w.log.Info("datagrams get through again", "server", n.Name)
	}
}

// AckPayload has nothing to add.
func (w *datagramWatch) AckPayload() []byte { return nil }
