package locktable

import (
	"encoding/binary"
	"testing"
	"time"
)

// FuzzApply applies commands read from bytes without any check, in few sessions and names so that they meet, and holds the table
// against its invariants, its snapshot and a twin.
func FuzzApply(f *testing.F) {
	f.Add([]byte{}) // the other seeds are the stories
	f.Fuzz(func(t *testing.T, data []byte) {
		table, ids := founded(t, 2)
		twin, _ := founded(t, 2)
		for len(data) >= 8 && table.index < 400 {
			c := fuzzCommand(data[:8], ids, table.counter)
			data = data[8:]
			table.Apply(table.index+1, 1, 5, c, new(Effects))
			twin.Apply(twin.index+1, 1, 5, c, nil)
		}
		if err := checkInvariants(table); err != nil {
			t.Fatal(err)
		}
		if hash := table.Snapshot().Hash(); hash != twin.Snapshot().Hash() || hash != restored(t, table).Snapshot().Hash() {
			t.Fatal("hashes differ")
		}
	})
}

// fuzzCommand makes a command of eight bytes: operation, session, sequence, floor, flags, value, names, text.
func fuzzCommand(b []byte, ids []SessionID, counter Rev) *Command {
	value := int64(counter) - int64(int8(b[5]))
	c := &Command{Op: Op(b[0] % 15), Seq: uint64(b[2] % 16), Floor: uint64(b[3] % 16), Try: b[4]&1 != 0, Now: b[4]&2 != 0}
	if b[1] < 250 {
		c.Session = ids[int(b[1])%len(ids)]
	} else {
		c.Session = SessionID(value)
	}
	for i, name := range []string{"a", "b", "c", "d", ""} {
		if b[6]&(1<<i) != 0 {
			c.Names = append(c.Names, name)
		}
	}
	if b[7]&1 != 0 {
		c.Note = string(b[7:8])
	}
	switch {
	case b[4]&4 != 0: // leave everything set: mostly malformed
		c.Token, c.Since, c.RenewIndex, c.Term, c.Rev = Token(value), Rev(value), uint64(value), 1, Rev(value)
		return c
	case c.Op == OpUnlock || c.Op == OpForce || c.Op == OpDrained:
		c.Token = Token(value)
	}
	fitFields(c, b, value)
	return c
}

// fitFields makes most commands well formed, so that the fuzzer gets past Check.
func fitFields(c *Command, b []byte, value int64) {
	switch c.Op {
	case OpOpen:
		*c = Command{Op: OpOpen, Node: "n", TTL: time.Duration(binary.LittleEndian.Uint16(b[4:])) * time.Millisecond}
	case OpRenew:
		*c = Command{Op: OpRenew, Session: c.Session, Since: Rev(value)}
	case OpClose:
		*c = Command{Op: OpClose, Session: c.Session}
	case OpBarrier:
		*c = Command{Op: OpBarrier}
	case OpFound:
		*c = Command{Op: OpFound, ClusterID: "c", Rev: Rev(value), TTL: time.Minute}
	case OpLevel:
		*c = Command{Op: OpLevel, Level: uint32(b[2])}
	case OpInspect:
		*c = Command{Op: OpInspect, Names: c.Names[:min(1, len(c.Names))]}
	case OpExpire:
		*c = Command{Op: OpExpire, Session: c.Session, RenewIndex: uint64(b[5]), Term: uint64(b[2] & 1)}
	case OpClaim:
		c.Now = false
	case OpCancel, OpUnlock:
		c.Names, c.Try, c.Now, c.Note = nil, false, false, ""
	case OpForce:
		*c = Command{Op: OpForce, Names: c.Names[:min(1, len(c.Names))], Token: c.Token, Now: c.Now, Note: c.Note, Actor: c.Note}
	case OpDrained:
		*c = Command{Op: OpDrained, Token: c.Token, RenewIndex: uint64(b[3]), Term: 1}
	}
}

// FuzzBuilder edits numbers of a sound snapshot; what the builder accepts must satisfy every invariant.
func FuzzBuilder(f *testing.F) {
	f.Add(uint8(0), uint16(0), uint8(0), int64(1))
	f.Add(uint8(1), uint16(3), uint8(3), int64(1000))
	base := recordsOf(rich(f).Snapshot())
	f.Fuzz(func(t *testing.T, kind uint8, at uint16, field uint8, value int64) {
		r := clone(base)
		tamper(&r, kind, int(at), field, value)
		table, err := rebuild(r)
		if (table == nil) == (err == nil) {
			t.Fatalf("table %v, error %v", table, err)
		}
		if err != nil {
			return
		}
		if err := checkInvariants(table); err != nil {
			t.Fatalf("accepted %+v: %v", r, err)
		}
		if table.Snapshot().Hash() != restored(t, table).Snapshot().Hash() {
			t.Fatal("a snapshot of an accepted snapshot differs")
		}
	})
}

func tamper(r *records, kind uint8, at int, field uint8, value int64) {
	switch kind % 5 {
	case 0:
		numbers := []*int{&r.header.Sessions, &r.header.Claims, &r.header.Finished, &r.header.Lost, &r.header.Audit}
		if i := int(field) % 8; i < len(numbers) {
			*numbers[i] = int(value)
		} else {
			r.header.Counter, r.header.Index = Rev(value), uint64(value)
		}
	case 1:
		s := &r.sessions[at%len(r.sessions)]
		switch field % 4 {
		case 0:
			s.ID = SessionID(value)
		case 1:
			s.TTL = time.Duration(value)
		case 2:
			s.RenewIndex = uint64(value)
		case 3:
			s.Floor = uint64(value)
		}
	case 2:
		c := &r.claims[at%len(r.claims)]
		switch field % 6 {
		case 0:
			c.Rev = Rev(value)
		case 1:
			c.Session = SessionID(value)
		case 2:
			c.Seq = uint64(value)
		case 3:
			c.Token = Token(value)
		case 4:
			c.DrainRev = Rev(value)
		case 5:
			c.Names = r.claims[uint64(value)%uint64(len(r.claims))].Names
		}
	case 3:
		f := &r.finished[at%len(r.finished)]
		f.Session, f.Seq = f.Session+SessionID(field), uint64(value)
	case 4:
		l := &r.lost[at%len(r.lost)]
		l.Session, l.Lost.Rev = l.Session+SessionID(field), Rev(value)
	}
}
