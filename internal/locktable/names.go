package locktable

import "strconv"

var opNames = [...]string{
	OpNone: "none", OpFound: "found", OpOpen: "open", OpRenew: "renew", OpClose: "close", OpExpire: "expire", OpClaim: "claim",
	OpCancel: "cancel", OpUnlock: "unlock", OpForce: "force", OpDrained: "drained", OpInspect: "inspect", OpBarrier: "barrier",
	OpLevel: "level", OpDowngrade: "downgrade", OpProclaim: "proclaim", OpHandOver: "hand-over", OpResize: "resize", OpOffer: "offer",
	OpAccept: "accept", OpList: "list", OpRestart: "restart", OpSessions: "sessions", OpAudit: "audit", OpEnd: "end", OpAct: "act",
}

var codeNames = [...]string{
	CodeNone: "none", CodeOK: "ok", CodeGranted: "granted", CodeWaiting: "waiting", CodeLocked: "locked", CodeCancelled: "cancelled",
	CodeReleased: "released", CodeNotHeld: "not-held", CodeNoSession: "no-session", CodeBelowFloor: "below-floor", CodeStale: "stale",
	CodeMalformed: "malformed", CodeOverloaded: "overloaded", CodeExists: "exists", CodeNotFounded: "not-founded",
	CodeDraining: "draining", CodeMismatch: "mismatch", CodeQuarantined: "quarantined", CodeKind: "kind", CodeLimit: "limit",
	CodeNoWaiter: "no-waiter",
}

var eventNames = [...]string{
	EventQueued: "queued", EventGranted: "granted", EventReleased: "released", EventExpired: "expired", EventForced: "forced",
	EventDraining: "draining", EventCancelled: "cancelled", EventSessionOpen: "session-open", EventSessionClosed: "session-closed",
	EventSessionExpiry: "session-expiry", EventValue: "value", EventResized: "resized", EventFreed: "freed", EventAct: "act",
}

var modeNames = [...]string{Exclusive: "exclusive", Shared: "shared", Permits: "permits"}

// String is for people and scripts; programs compare the values.
func (o Op) String() string { return nameOf(opNames[:], uint64(o)) }

// String is for people and scripts; programs compare the values.
func (c Code) String() string { return nameOf(codeNames[:], uint64(c)) }

// String is for people and scripts; programs compare the values.
func (k EventKind) String() string { return nameOf(eventNames[:], uint64(k)) }

// String is for people and scripts; programs compare the values.
func (m Mode) String() string { return nameOf(modeNames[:], uint64(m)) }

func nameOf(names []string, i uint64) string {
	if i < uint64(len(names)) && names[i] != "" {
		return names[i]
	}
	return strconv.FormatUint(i, 10)
}
