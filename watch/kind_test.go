package watch

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// TestKindsAreTheStateMachines: the root package converts the numbers, so they must be the same ones.
func TestKindsAreTheStateMachines(t *testing.T) {
	for _, c := range []struct {
		kind  Kind
		event locktable.EventKind
		name  string
	}{
		{Queued, locktable.EventQueued, "queued"},
		{Granted, locktable.EventGranted, "granted"},
		{Released, locktable.EventReleased, "released"},
		{Expired, locktable.EventExpired, "expired"},
		{Forced, locktable.EventForced, "forced"},
		{Draining, locktable.EventDraining, "draining"},
		{Cancelled, locktable.EventCancelled, "cancelled"},
		{SessionOpened, locktable.EventSessionOpen, "session-opened"},
		{SessionClosed, locktable.EventSessionClosed, "session-closed"},
		{SessionExpired, locktable.EventSessionExpiry, "session-expired"},
		{ValueChanged, locktable.EventValue, "value-changed"},
		{Resized, locktable.EventResized, "resized"},
		{Freed, locktable.EventFreed, "freed"},
		{Act, locktable.EventAct, "act"},
	} {
		if uint8(c.kind) != uint8(c.event) {
			t.Errorf("%v is %d here and %d in the state machine", c.kind, c.kind, c.event)
		}
		if c.kind.String() != c.name {
			t.Errorf("kind %d prints as %q, want %q", c.kind, c.kind, c.name)
		}
	}
	for kind, name := range map[Kind]string{0: "kind(0)", 15: "kind(15)", 255: "kind(255)"} {
		if kind.String() != name {
			t.Errorf("kind %d prints as %q, want %q", kind, kind, name)
		}
	}
}

// TestModesAreTheStateMachines: as for kinds.
func TestModesAreTheStateMachines(t *testing.T) {
	for mode, is := range map[Mode]locktable.Mode{
		Exclusive: locktable.Exclusive, Shared: locktable.Shared, Permits: locktable.Permits,
	} {
		if uint8(mode) != uint8(is) || mode.String() != is.String() {
			t.Errorf("%v is %d here, and %d (%v) in the state machine", mode, uint8(mode), uint8(is), is)
		}
	}
	if unknown := Mode(3).String(); unknown != "mode(3)" {
		t.Errorf("mode 3 prints as %q", unknown)
	}
}
