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

// fuzzCommand makes a command of eight bytes: operation, session, sequence, floor, flags, value, names, and the sequence of the claim that it
// is about with a bit for a text.
func fuzzCommand(b []byte, ids []SessionID, counter Rev) *Command {
	value := int64(counter) - int64(int8(b[5]))
	c := &Command{
		Op: Op(b[0] % byte(OpAct+2)), Seq: uint64(b[2] % 16), Floor: uint64(b[3] % 16), Try: b[4]&flagTry != 0, Now: b[4]&flagNow != 0,
	}
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
		c.Note = "x"
	}
	if b[4]&flagAll != 0 { // everything set: mostly malformed
		c.Token, c.Since, c.RenewIndex, c.Term, c.Rev, c.From = Token(value), Rev(value), uint64(value), 1, Rev(value), c.Session
		return c
	}
	fitFields(c, b, value)
	fitHold(c, b, value, ids)
	return c
}

// fitFields makes most commands well formed, so that the fuzzer gets past Check.
func fitFields(c *Command, b []byte, value int64) {
	name := c.Names[:min(1, len(c.Names))]
	switch c.Op {
	case OpOpen:
		*c = Command{Op: OpOpen, Node: "n", TTL: time.Duration(binary.LittleEndian.Uint16(b[4:])) * time.Millisecond, Incarnation: c.Note}
	case OpRenew:
		*c = Command{Op: OpRenew, Session: c.Session, Since: Rev(value)}
	case OpClose:
		*c = Command{Op: OpClose, Session: c.Session, Now: c.Now}
	case OpBarrier:
		*c = Command{Op: OpBarrier}
	case OpFound:
		*c = Command{Op: OpFound, ClusterID: "c", Rev: Rev(value), TTL: time.Minute}
	case OpLevel:
		*c = Command{Op: OpLevel, Level: uint32(b[2])}
	case OpInspect:
		*c = Command{Op: OpInspect, Names: name}
	case OpList:
		*c = Command{Op: OpList, Names: name, Count: uint32(b[5] % 4), After: c.Note}
	case OpExpire:
		*c = Command{Op: OpExpire, Session: c.Session, RenewIndex: uint64(b[5]), Term: uint64(b[2] & 1)}
	case OpRestart:
		*c = Command{Op: OpRestart, Node: "n", Incarnation: "x", RenewIndex: uint64(b[3])}
	case OpSessions, OpAudit:
		*c = Command{Op: c.Op, Rev: Rev(value), Count: uint32(b[3] % 4)}
	case OpEnd:
		*c = Command{Op: OpEnd, Session: c.Session, Now: c.Now, Note: "x", Actor: c.Note}
	case OpAct:
		*c = Command{Op: OpAct, Act: Act(b[2] % 7), Node: c.Note, Note: "x", Actor: "y"}
	case OpClaim:
		c.Now = false
		fitClaim(c, b)
	case OpForce:
		*c = Command{Op: OpForce, Names: name, Token: Token(value), Now: c.Now, Note: c.Note, Actor: c.Note}
	case OpDrained:
		*c = Command{Op: OpDrained, Rev: Rev(value), RenewIndex: uint64(b[3]), Term: 1}
	case OpCancel:
		*c = Command{Op: OpCancel, Session: c.Session, Seq: c.Seq, Floor: c.Floor, Now: c.Now}
	case OpResize:
		*c = Command{Op: OpResize, Session: c.Session, Seq: c.Seq, Floor: c.Floor, Names: name, Limit: uint32(b[5] % 8), Former: uint32(b[5] / 8 % 8)}
	}
}

// fitClaim gives a claim its mode; for permits the value byte holds their number and the limit.
func fitClaim(c *Command, b []byte) {
	switch {
	case b[4]&flagShared != 0:
		c.Mode, c.Names = Shared, c.Names[:min(1, len(c.Names))]
	case b[4]&flagPermits != 0:
		c.Mode, c.Names = Permits, c.Names[:min(1, len(c.Names))]
		c.Count, c.Limit = uint32(b[5]&15), uint32(b[5]>>4)
	}
	if b[4]&flagDelay != 0 {
		c.Delay = time.Second
	}
}

// fitHold makes the commands about a hold. The names byte says what else they are about: the waiting claim, or the session that gives.
func fitHold(c *Command, b []byte, value int64, ids []SessionID) {
	about := Command{Op: c.Op, Session: c.Session, Seq: c.Seq, Floor: c.Floor, Of: uint64(b[7] >> 1), Token: Token(value)}
	secret := map[bool]string{false: "s", true: "t"}[c.Now]
	switch c.Op {
	case OpUnlock:
		about.Barring = c.Now
	case OpDowngrade:
		about.Note = c.Note
	case OpProclaim:
		about.Value = c.Note
	case OpHandOver:
		about.Rev = Rev(value) + Rev(int8(b[6]))
	case OpOffer:
		about.Secret = OfferHash(secret)
	case OpAccept:
		about.Secret, about.Note, about.From = secret, c.Note, ids[int(b[6])%len(ids)]
	default:
		return
	}
	*c = about
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

// tamper kinds and, for each, how many fields it knows.
var tamperFields = [...]int{8, 4, 12, 5, 4, 4}

func tamper(r *records, kind uint8, at int, field uint8, value int64) {
	kind %= uint8(len(tamperFields))
	field %= uint8(tamperFields[kind])
	switch kind {
	case 0:
		h := &r.header
		if numbers := []*int{&h.Sessions, &h.Claims, &h.Finished, &h.Lost, &h.Audit, &h.Limits}; int(field) < len(numbers) {
			*numbers[field] = int(value)
		} else if field == 7 {
			h.Quarantine = Quarantine{Rev: Rev(value), Index: uint64(at), Wait: time.Duration(value)}
		} else {
			h.Counter, h.Index = Rev(value), uint64(value)
		}
	case 1:
		s := &r.sessions[at%len(r.sessions)]
		switch field {
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
		tamperClaim(r, at, field, value)
	case 3:
		f := &r.finished[at%len(r.finished)]
		switch field {
		case 0:
			f.Session = SessionID(value)
		case 1:
			f.Seq = uint64(value)
		case 2:
			f.Op = Op(value)
		case 3:
			f.Code = Code(value)
		case 4:
			f.Token = Token(value)
		}
	case 4:
		l := &r.lost[at%len(r.lost)]
		switch field {
		case 0:
			l.Session = SessionID(value)
		case 1:
			l.Lost.Rev = Rev(value)
		case 2:
			l.Lost.Cause = LostCause(value)
		case 3:
			l.Lost.Limit = uint32(value)
		}
	case 5:
		l := &r.limits[at%len(r.limits)]
		switch field {
		case 0:
			l.Limit = uint32(value)
		case 1:
			l.Former = uint32(value)
		case 2:
			l.Set = value&1 != 0
		case 3:
			l.Name = r.claims[uint64(value)%uint64(len(r.claims))].Names[0]
		}
	}
}

func tamperClaim(r *records, at int, field uint8, value int64) {
	c := &r.claims[at%len(r.claims)]
	switch field {
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
	case 6:
		c.Pos = Rev(value)
	case 7:
		c.Grant = Rev(value)
	case 8:
		c.Mode = Mode(value)
	case 9:
		c.Count = uint32(value)
	case 10:
		c.Delay = time.Duration(value)
	case 11:
		c.Barred = !c.Barred
	}
}
