package quorumlock

import (
	"context"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/gossip"
)

// farewells are the servers that asked this node, as the leader, to take them out. When all leave at once, the last one is
// alone as soon as it has removed the others, perhaps before they have got its answer. If it stopped then, they would ask
// in vain, and say that they are members still.
type farewells struct {
	mu    sync.Mutex
	asked map[string]struct{} // by server id
}

// add takes note of one, and forgets those that are not there any more.
func (f *farewells) add(id string, there []gossip.Member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := map[string]struct{}{id: {}}
	for _, m := range there {
		if _, still := f.asked[m.ServerID]; still {
			asked[m.ServerID] = struct{}{}
		}
	}
	f.asked = asked
}

// pending tells whether one of them is there yet. One that has got its answer takes leave of gossip next.
func (f *farewells) pending(there []gossip.Member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range there {
		if _, asked := f.asked[m.ServerID]; asked {
			return true
		}
	}
	return false
}

// farewellBound is for those that end without taking leave of gossip, which notices that seconds later.
const farewellBound = time.Second

// awaitFarewells is what the last member does before it stops.
func (n *Node) awaitFarewells(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewellBound)
	defer cancel()
	for ctx.Err() == nil && n.farewells.pending(n.gossip.Members()) {
		pause(ctx, dismissPace)
	}
}
