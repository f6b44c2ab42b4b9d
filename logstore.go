package quorumlock

import "fmt"

// LogStore is how a node keeps raft's log in its data directory. A directory keeps the one that it was made with,
// whatever is asked for later; both do the same, and the nodes of a cluster may differ. To change it, let the node
// leave, empty its directory, and let it join again.
type LogStore int

const (
	// LogStoreDefault is LogStoreSegments.
	LogStoreDefault LogStore = iota
	// LogStoreBolt keeps the log in a database of raft-boltdb. A commit costs two syncs of the disk, one after the
	// other, on the leader, and then two on a follower.
	LogStoreBolt
	// LogStoreSegments keeps the log in files that are written from the front to the end. A commit costs one sync on the
	// leader, and then one on a follower: where the disk is what a lock waits for, as with few clients or one lock that
	// goes from hand to hand, it takes half the time.
	//
	// A directory needs 12 MiB from the start. A version of this package that does not know this form refuses it, with a
	// *FieldError of Config.Dir.
	LogStoreSegments
)

// String is "default", "bolt" or "segments".
func (s LogStore) String() string {
	switch s {
	case LogStoreDefault:
		return "default"
	case LogStoreBolt:
		return "bolt"
	case LogStoreSegments:
		return "segments"
	}
	return fmt.Sprintf("log store(%d)", int(s))
}

func (s LogStore) segments() bool { return s != LogStoreBolt }

func (c *Config) validateLogStore(p *problems) {
	if c.LogStore < LogStoreDefault || c.LogStore > LogStoreSegments {
		p.add("LogStore", c.LogStore, "must be LogStoreBolt or LogStoreSegments, or 0 for the default")
	}
}
