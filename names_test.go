package quorumlock

import (
	"fmt"
	"testing"

	"github.com/quorumlock/quorumlock/internal/gossip"
	"github.com/quorumlock/quorumlock/internal/membership"
)

// A name outlives its server's presence in gossip while the server is in the group, and no longer, however many servers come and go.
func TestNamesAreKeptForTheGroupAndTheViewOnly(t *testing.T) {
	var b nameBook
	group := []membership.Server{{ID: "voter"}, {ID: "stranger"}}
	b.renew([]gossip.Member{{ServerID: "voter", Meta: gossip.Meta{Name: "a"}}}, nil)
	for i := range 1000 {
		id := fmt.Sprint(i)
		b.renew([]gossip.Member{{ServerID: id, Meta: gossip.Meta{Name: "b"}}}, group)
		if b.of("voter") != "a" || b.of(id) != "b" || b.of("stranger") != "" || len(b.names) != 2 {
			t.Fatalf("round %d: names %v", i, b.names)
		}
	}
	b.renew(nil, nil)
	if len(b.names) != 0 {
		t.Errorf("names %v of nobody", b.names)
	}
}
