package quorumlock

import (
	"fmt"
	"testing"

	"github.com/quorumlock/quorumlock/internal/gossip"
)

// A leader for months sees many instances go. Those that are gone are not kept in mind, and those that wait for their answer are.
func TestFarewellsAreForgottenWithThoseThatWent(t *testing.T) {
	var f farewells
	waits := []gossip.Member{{ServerID: "waits"}}
	f.add("waits", waits)
	for i := range 1_000 {
		id := fmt.Sprint(i)
		f.add(id, append(waits[:1:1], gossip.Member{ServerID: id}))
	}
	if len(f.asked) > 2 {
		t.Errorf("%d are kept in mind", len(f.asked))
	}
	if !f.pending(waits) {
		t.Error("one that is there was forgotten")
	}
	if f.pending(nil) {
		t.Error("somebody who went is waited for")
	}
}
