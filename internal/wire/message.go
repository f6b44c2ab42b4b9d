package wire

import "fmt"

// Status is how a call to the leader ended. The list is append-only: values travel between nodes of different versions. A value
// that the receiver does not know is to be taken for StatusUnknown: nothing may be concluded from it.
type Status uint8

// The outcomes of a call to the leader. Zero is never sent, so that a reply that was never filled in is not a success.
const (
	StatusDone       Status = 1 // it was done; the reply says with what result
	StatusNotLeader  Status = 2 // nothing was done; LeaderID and LeaderAddr are a hint, empty if unknown
	StatusOverloaded Status = 3 // nothing was done; try again later
	StatusUnknown    Status = 4 // it may have been done, and may still be
	StatusStopping   Status = 5 // nothing was done; this node is about to go
	StatusNoQuorum   Status = 6 // nothing was done; no majority of the voters answers
	StatusRefused    Status = 7 // nothing was done and nothing will be, however often it is asked; Detail says why
	StatusEnough     Status = 8 // nothing was done: there are replicas enough, and who asked should be a client
	StatusLevel      Status = 9 // as StatusRefused: who asks has a binary below the cluster's feature level; Detail tells of both
)

var statusNames = [...]string{
	StatusDone:       "done",
	StatusNotLeader:  "not leader",
	StatusOverloaded: "overloaded",
	StatusUnknown:    "unknown outcome",
	StatusStopping:   "stopping",
	StatusNoQuorum:   "no quorum",
	StatusRefused:    "refused",
	StatusEnough:     "replicas enough",
	StatusLevel:      "binary too old",
}

// String is for logs and errors.
func (s Status) String() string {
	if s == 0 || int(s) >= len(statusNames) {
		return fmt.Sprintf("status %d", uint8(s))
	}
	return statusNames[s]
}

// beginMessage starts a message with its version.
func beginMessage(dst []byte, version byte) Writer {
	w := Writer{buf: dst}
	w.Byte(version)
	return w
}

// decodeMessage reads a message of which this binary knows the given version. Fields are only ever appended, so of a newer
// message the fields known here are read and the rest is left; of our own version nothing may be left. When a message gets
// its second version, the fields that came with it are read only if the message has them.
func decodeMessage(what string, b []byte, known byte, fields func(r *Reader)) error {
	r := Reader{buf: b}
	version := r.presentByte()
	fields(&r)
	if version <= known {
		_ = r.Done() // remembered in r.err
	}
	if r.err != nil {
		return fmt.Errorf("decode %s: %w", what, r.err)
	}
	return nil
}

// status accepts values of newer nodes, but not the zero one.
func (r *Reader) status() Status { return Status(r.presentByte()) }
