package history

import (
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/quorumlock/quorumlock/watch"
)

// kind says in the digest what follows, so that two records of different kinds never look alike.
type kind byte

const (
	kindAsks kind = iota + 1
	kindAcquired
	kindRefused
	kindFailed
	kindUnlocked
	kindHandsOver
	kindHandedOver
	kindProclaimed
	kindResized
	kindLeads
	kindInspected
	kindSessionOpened
	kindSessionClosed
	kindForcedNow
	kindHeld
	kindEnded
	kindObserver
	kindEvent
)

// Sum is a hash over everything recorded so far, in the order of recording, with instants relative to the start. Two runs with the same
// sum showed the same to everybody.
func (h *History) Sum() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return hex.EncodeToString(h.sum.Sum(nil))
}

// digest takes a record into the sum. Strings are preceded by their length, and the number of fields follows from the kind, so the encoding is
// injective.
func (h *History) digest(k kind, text string, numbers ...int64) {
	h.buf = appendText(append(h.buf[:0], byte(k)), text)
	h.buf = appendNumbers(h.buf, numbers...)
	h.sum.Write(h.buf)
}

func (h *History) digestClaim(c *Claim) {
	h.buf = appendText(append(h.buf[:0], byte(kindAsks)), c.ID, c.From, strings.Join(c.Names, "\x00"))
	h.buf = appendNumbers(h.buf, int64(c.Mode), int64(c.Permits), int64(c.Limit), int64(c.Delay), int64(c.MaxHold))
	h.sum.Write(h.buf)
}

func (h *History) digestCall(k kind, c call, text string, numbers ...int64) {
	h.buf = appendText(append(h.buf[:0], byte(k)), c.client, c.lock, text)
	h.buf = appendNumbers(h.buf, int64(c.from), int64(c.to))
	h.buf = appendNumbers(h.buf, numbers...)
	h.sum.Write(h.buf)
}

func (h *History) digestObserver(id int64, name string) {
	h.buf = appendText(append(h.buf[:0], byte(kindObserver)), name)
	h.buf = appendNumbers(h.buf, id)
	h.sum.Write(h.buf)
}

func (h *History) digestEvent(observer int64, e *watch.Event, at instant) {
	h.buf = appendText(append(h.buf[:0], byte(kindEvent)), e.Name, e.ServerID, e.Note, e.Value)
	h.buf = appendNumbers(h.buf, observer, int64(at), e.Rev, int64(e.Kind), int64(e.Token), e.Session, int64(e.Claim), int64(e.Index), int64(h.at(e.Time)),
		int64(e.Mode), int64(e.Permits))
	h.sum.Write(h.buf)
}

func appendNumbers(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func appendText(b []byte, texts ...string) []byte {
	for _, t := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(t))), t...)
	}
	return b
}
