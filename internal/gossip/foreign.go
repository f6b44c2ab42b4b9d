package gossip

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock/transport"
)

// foreignEvery is how often a meeting with another cluster is logged, however many members that has and however many addresses
// lead to it.
const foreignEvery = time.Minute

// foreigners counts what was refused because it belongs to another cluster. That is a standing state as a rule (an address that
// was given away, a seed of another deployment), met again with each attempt, so one line a minute with the count says as much
// as one for each.
type foreigners struct {
	log hclog.Logger

	mu    sync.Mutex
	count uint64
	told  time.Time
}

// take counts err if it is of another cluster, and says whether it is: the caller then has nothing to log itself.
func (f *foreigners) take(who, addr string, err error, now time.Time) bool {
	if !isForeign(err) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if !f.told.IsZero() && now.Sub(f.told) < foreignEvery {
		return true
	}
	f.told = now
	f.log.Warn("met another cluster, and refused it", "member", who, "addr", addr, "reason", err, "refusals", f.count)
	return true
}

// isForeign tells the refusals of this package and those of the handshake.
func isForeign(err error) bool {
	return errors.Is(err, errOtherName) || errors.Is(err, errOtherID) ||
		errors.Is(err, &transport.RefusedError{Code: transport.RefusedCluster}) ||
		errors.Is(err, &transport.RefusedError{Code: transport.RefusedClusterID})
}

// isForeignText is isForeign for what memberlist passes on, which keeps an error's words only.
func isForeignText(err error) bool {
	for _, words := range []string{
		errOtherName.Error(), errOtherID.Error(), "refused: " + transport.RefusedCluster.String(), "refused: " + transport.RefusedClusterID.String(),
	} {
		if err != nil && strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}
