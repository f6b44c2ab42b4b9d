package wire

import (
	"iter"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// A snapshot is
//
//	magic (8 bytes), format, level          these keep their places for ever, and so does the hash
//	header                                  a record: cluster id, counter, index, max TTL, quarantine, the six counts
//	sections, by rising id                  tag = id<<1 | required, count, that many records
//	0                                       instead of a tag: no more sections
//	SHA-256 of everything before            32 bytes, then nothing
//
// and a record is its length and its content. A section that a reader does not know is skipped, unless its required bit says
// that the state is not whole without it. The first six sections are required and always there. The seventh is not required: its one
// record is a hash of the state, for the reader to compare with what it has built. Those after it came with level 2, add to records of earlier sections, and
// are left out where they would be empty, so a state of level 1 is written as level 1 wrote it.
const (
	snapshotMagic  = "QLOCKSNP"
	snapshotFormat = 1

	// maxRecord bounds one record, and so the memory that reading takes before anything is verified. The largest record that
	// the state machine's limits allow is a claim with all its names, a note, a value and a drain, about 41 KiB.
	maxRecord = 128 << 10
)

// Section ids are append-only.
const (
	sectionSessions uint64 = 1 + iota
	sectionClaims
	sectionFinished
	sectionLost
	sectionAudit
	sectionLimits
	sectionStateHash
	sectionOpenings // required, and there only if there are records; so is the next
	sectionActs

	lastOfTable = sectionLimits // up to it, sections are required
)

// requiredBit of a section's tag.
const requiredBit = 1

// state is what a snapshot is written from: a *locktable.Snapshot, whose records come in the order that types.go documents.
type state interface {
	Header() locktable.Header
	Sessions() iter.Seq[locktable.SessionRecord]
	Claims() iter.Seq[locktable.ClaimRecord]
	Finished() iter.Seq[locktable.FinishedRecord]
	Lost() iter.Seq[locktable.LostRecord]
	Audit() iter.Seq[locktable.AuditRecord]
	Limits() iter.Seq[locktable.LimitRecord]
}

// builder is what a snapshot is read into: a *locktable.Builder, which checks what the records say. This package checks only
// that they are whole.
type builder interface {
	Session(locktable.SessionRecord) error
	Opened(id locktable.SessionID, wall int64) error
	Claim(locktable.ClaimRecord) error
	Finished(locktable.FinishedRecord) error
	Lost(locktable.LostRecord) error
	Audit(locktable.AuditRecord) error
	Limit(locktable.LimitRecord) error
}
