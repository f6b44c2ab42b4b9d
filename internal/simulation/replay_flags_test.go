package simulation_test

import (
	"flag"
	"time"
)

// The exact replay; -length is that of native runs, with a default of its own, since exact ones are slower.
var (
	replay = flag.Uint64("replay", 0, "play the schedule of this seed in the exact mode, twice; the same must happen")
	order  = flag.Uint64("order", 0, "seed of the randomness that orders goroutines in the exact mode; 0 is that of -replay")
	orders = flag.Uint64("orders", 1, "how many orders to try, from -order on, for one in which the schedule fails")
)

const (
	replayLength = 20 * time.Second

	// eventsPrefix precedes the hash of what happened, at the end of a line of the guest's.
	eventsPrefix = "events: "
)
