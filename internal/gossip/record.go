package gossip

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// maxRecord is memberlist's limit for metadata. It panics above it, so the limit is enforced before anything gets there.
const maxRecord = 512

// recordVersion leads every record. Fields may be appended within a version, a reader skips what it does not know; only a change
// that an old reader would misunderstand takes a new version, and old readers then ignore the member.
const recordVersion = 1

// MetaTooLargeError tells that a Meta (with the address that travels beside it) does not fit into one gossip message.
type MetaTooLargeError struct {
	Size, Limit int
}

func (e *MetaTooLargeError) Error() string {
	return fmt.Sprintf("gossip metadata has %d bytes encoded, limit %d: shorten the node's name or zone", e.Size, e.Limit)
}

// record is what travels about one process: Meta with what gossip itself has to know.
type record struct {
	cluster uint64 // fingerprint of the cluster name
	started int64  // wall clock at the start, Unix nanoseconds: orders the processes of one server id where nothing better is known
	addr    string // advertised host:port
	meta    Meta
}

// encode gives the bytes of r, or a *MetaTooLargeError.
func (r record) encode() ([]byte, error) {
	if r.meta.Expect < 0 || r.meta.Expect > MaxExpect {
		return nil, fmt.Errorf("gossip metadata: Expect is %d, want 0 to %d", r.meta.Expect, MaxExpect)
	}
	w := wire.NewWriter(nil)
	w.Byte(recordVersion)
	w.Uvarint(r.cluster)
	w.Varint(r.started)
	w.String(r.addr)
	w.String(r.meta.Name)
	w.String(r.meta.Zone)
	w.String(r.meta.ClusterID)
	w.Uvarint(uint64(r.meta.Version))
	w.Uvarint(uint64(r.meta.Expect))
	w.Bool(r.meta.HasState)
	w.String(r.meta.Boot)
	if n := len(w.Bytes()); n > maxRecord {
		return nil, &MetaTooLargeError{Size: n, Limit: maxRecord}
	}
	return w.Bytes(), nil
}

// decodeRecord never trusts its input: whatever it returns without an error can be encoded and dialled.
func decodeRecord(b []byte) (record, error) {
	if len(b) > maxRecord {
		return record{}, &MetaTooLargeError{Size: len(b), Limit: maxRecord}
	}
	rd := wire.NewReader(b)
	if v := rd.Byte(); rd.Err() == nil && v != recordVersion {
		return record{}, fmt.Errorf("gossip metadata of version %d, this binary knows %d", v, recordVersion)
	}
	r := record{cluster: rd.Uvarint(), started: rd.Varint(), addr: rd.String()}
	r.meta = Meta{Name: rd.String(), Zone: rd.String(), ClusterID: rd.String()}
	version, expect := rd.Uvarint(), rd.Uvarint()
	r.meta.HasState = rd.Bool()
	r.meta.Boot = rd.String()
	if err := rd.Err(); err != nil {
		return record{}, fmt.Errorf("gossip metadata: %w", err)
	}
	if version > 1<<32-1 || expect > MaxExpect {
		return record{}, fmt.Errorf("gossip metadata: %w", wire.ErrMalformed)
	}
	if err := checkAdvertise(r.addr); err != nil {
		return record{}, err
	}
	r.meta.Version, r.meta.Expect = uint32(version), int(expect)
	return r, nil
}

// before orders two processes of one server id. Wall clocks may be wrong, so the order only says which one to believe first; it
// never proves anything. The boot breaks ties so that all members choose alike.
func (r record) before(o record) bool {
	if r.started != o.started {
		return r.started < o.started
	}
	return r.meta.Boot < o.meta.Boot
}

// sameProcess tells whether two records of one server id were published by one process.
func (r record) sameProcess(o record) bool {
	return r.started == o.started && r.meta.Boot == o.meta.Boot
}

var (
	errOtherName = errors.New("belongs to a cluster of another name")
	errOtherID   = errors.New("belongs to another cluster of this name")
)

// admits says whether a member with record o may be seen by the process of record r.
func (r record) admits(o record) error {
	if r.cluster != o.cluster {
		return errOtherName
	}
	if a, b := r.meta.ClusterID, o.meta.ClusterID; a != "" && b != "" && a != b {
		return fmt.Errorf("%w: its cluster id is %s, ours %s", errOtherID, b, a)
	}
	return checkReach(r.addr, o.addr)
}

// fingerprint stands for the cluster name in records: a name may be longer than a record.
func fingerprint(cluster string) uint64 {
	sum := sha256.Sum256([]byte("quorumlock gossip\x00" + cluster))
	return binary.BigEndian.Uint64(sum[:8])
}
