package gossip

import "strings"

// MaxExpect is the largest Meta.Expect. No deployment is near it.
const MaxExpect = 1 << 16

// idLength is the length of the ids that are generated: of clusters and of processes.
const idLength = 32

// CheckSize is nil if an instance that is configured so can publish whatever it may become later: what is not configured counts
// with its largest value. Else it is a *MetaTooLargeError. addr is host:port to be advertised.
func CheckSize(addr string, m Meta) error {
	id := strings.Repeat("0", idLength)
	m.ClusterID, m.Boot, m.Version, m.Expect, m.HasState = id, id, ^uint32(0), MaxExpect, true
	_, err := record{cluster: ^uint64(0), started: -1 << 63, addr: addr, meta: m}.encode()
	return err
}
