package wire

const statusReplyVersion = 1

// StatusReply tells how a node sees itself and its cluster. The request for it is empty.
type StatusReply struct {
	ServerID     string
	Name         string
	ClusterID    string // empty while the node belongs to no cluster
	LeaderID     string // empty while none is known
	LeaderAddr   string
	Term         uint64
	AppliedIndex uint64 // of the state machine, not of raft, which counts entries that it has only handed over
	LastIndex    uint64 // of the log
	Level        uint32 // feature level of the binary
	Voter        bool
	Boot         string // random, made at each start: tells a restarted process from its former self
	Zone         string
}

// AppendStatusReply appends the encoding of m to dst.
func AppendStatusReply(dst []byte, m *StatusReply) []byte {
	w := beginMessage(dst, statusReplyVersion)
	w.String(m.ServerID)
	w.String(m.Name)
	w.String(m.ClusterID)
	w.String(m.LeaderID)
	w.String(m.LeaderAddr)
	w.Uvarint(m.Term)
	w.Uvarint(m.AppliedIndex)
	w.Uvarint(m.LastIndex)
	w.Uvarint(uint64(m.Level))
	w.Bool(m.Voter)
	w.String(m.Boot)
	w.String(m.Zone)
	return w.buf
}

// DecodeStatusReply is the inverse of AppendStatusReply.
func DecodeStatusReply(b []byte) (StatusReply, error) {
	var m StatusReply
	err := decodeMessage("status reply", b, statusReplyVersion, func(r *Reader) {
		m.ServerID = r.String()
		m.Name = r.String()
		m.ClusterID = r.String()
		m.LeaderID = r.String()
		m.LeaderAddr = r.String()
		m.Term = r.Uvarint()
		m.AppliedIndex = r.Uvarint()
		m.LastIndex = r.Uvarint()
		m.Level = r.Uint32()
		m.Voter = r.Bool()
		m.Boot = r.String()
		m.Zone = r.String()
	})
	if err != nil {
		return StatusReply{}, err
	}
	return m, nil
}
