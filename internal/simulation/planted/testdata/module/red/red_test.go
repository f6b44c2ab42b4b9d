package red

import (
	"os"
	"testing"
)

// TestRed fails where it is told to, so that a control run can be seen to fail.
func TestRed(t *testing.T) {
	if os.Getenv("PLANTED_RED") != "" {
		t.Error("red before anything was planted")
	}
}
