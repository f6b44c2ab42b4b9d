package quorumlock

import "io"

const (
	snapshotEntries = 65_536   // raft's own trigger, by count: for a log of small entries, which bytes do not show
	snapshotBytes   = 16 << 20 // ours, by bytes, as long as the state is smaller than that
)

// snapshotDue goes by the state's size, and in a simulation by what that sets.
func (n *Node) snapshotDue() bool {
	if fixed := n.cfg.sim.SnapshotBytes; fixed > 0 {
		return n.fsm.appliedBytes() >= fixed
	}
	return n.fsm.snapshotDue(snapshotBytes)
}

func (f *fsm) appliedBytes() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}

// snapshotDue tells whether so much log was applied since the last snapshot that it is time for another: least, or as much as the state takes if that is more. A snapshot costs what the state
// takes, so with a fixed amount of log a member with a million holds would spend more on snapshots than on its work.
func (f *fsm) snapshotDue(least uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes >= max(least, f.written)
}

// snapshotWritten notes what the newest snapshot takes.
func (f *fsm) snapshotWritten(size uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written = size
}

// countingWriter and countingReader count what went through.
type countingWriter struct {
	io.Writer
	n uint64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n += uint64(n)
	return n, err
}

type countingReader struct {
	io.Reader
	n uint64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += uint64(n)
	return n, err
}
