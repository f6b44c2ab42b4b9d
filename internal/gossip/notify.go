package gossip

import (
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// maxConflicts bounds the conflicts remembered as told, and those waiting to be.
const maxConflicts = 256

// conflict is two live processes under one server id.
type conflict struct {
	serverID string
	a, b     record // a started first, by its own word
}

func newConflict(id string, x, y record) conflict {
	if y.before(x) {
		x, y = y, x
	}
	return conflict{serverID: id, a: x, b: y}
}

// notifier calls the caller's hooks from a goroutine of its own: changes are seen in places where memberlist's lock is held, and
// a hook may want to ask Members. A wake-up is not a message: changes coalesce in one slot, what is true is in the book.
type notifier struct {
	log        hclog.Logger
	onChange   func()
	onConflict func(serverID, addrA, addrB string)
	changed    chan struct{} // one slot
	stop       chan struct{}
	done       chan struct{}

	mu    sync.Mutex
	told  map[string]bool // conflicts by server id and boots
	queue []conflict
}

func startNotifier(opt Options) *notifier {
	n := &notifier{
		log: opt.Logger, onChange: opt.OnChange, onConflict: opt.OnConflict,
		changed: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), told: map[string]bool{},
	}
	go n.run()
	return n
}

func (n *notifier) run() {
	defer close(n.done)
	for {
		select {
		case <-n.stop:
			return
		case <-n.changed:
		}
		for _, c := range n.takeConflicts() {
			n.log.Error("two live processes use one server id: a data directory was copied", "server", c.serverID,
				"first", c.a.addr, "second", c.b.addr)
			if n.onConflict != nil {
				n.onConflict(c.serverID, c.a.addr, c.b.addr)
			}
		}
		if n.onChange != nil {
			n.onChange()
		}
	}
}

func (n *notifier) takeConflicts() []conflict {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.queue
	n.queue = nil
	return q
}

// change wakes the hook. It never blocks.
func (n *notifier) change() { signal(n.changed) }

// signal fills a one-slot channel.
func signal(slot chan struct{}) {
	select {
	case slot <- struct{}{}:
	default:
	}
}

// conflict tells c unless the same pair was told before. It never blocks.
func (n *notifier) conflict(c conflict) {
	key := fmt.Sprintf("%q %q %d %q %d", c.serverID, c.a.meta.Boot, c.a.started, c.b.meta.Boot, c.b.started)
	n.mu.Lock()
	if n.told[key] || len(n.queue) >= maxConflicts {
		n.mu.Unlock()
		return
	}
	if len(n.told) >= maxConflicts {
		clear(n.told) // telling one twice is better than growing
	}
	n.told[key] = true
	n.queue = append(n.queue, c)
	n.mu.Unlock()
	n.change()
}

// close ends the goroutine and waits for a hook that runs.
func (n *notifier) close() {
	close(n.stop)
	<-n.done
}
