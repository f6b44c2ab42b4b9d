//go:build !wasip1

package gossip

import (
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hashicorp/memberlist"
	"github.com/quorumlock/quorumlock/internal/quiet"
)

// mlDelegate hears what memberlist finds out. Nearly all its methods are called under memberlist's lock: they must not block and
// not call memberlist. The nodes they are given are memberlist's own and change later, so all that is needed is copied.
type mlDelegate struct {
	book    *book
	addrs   *addressBook
	notify  *notifier
	duels   *duels
	log     hclog.Logger
	lines   *quiet.Limiter
	foreign *foreigners
	watch   *datagramWatch
	poke    func() // wakes the re-join loop
}

var (
	_ memberlist.Delegate         = (*mlDelegate)(nil)
	_ memberlist.EventDelegate    = (*mlDelegate)(nil)
	_ memberlist.AliveDelegate    = (*mlDelegate)(nil)
	_ memberlist.MergeDelegate    = (*mlDelegate)(nil)
	_ memberlist.ConflictDelegate = (*mlDelegate)(nil)
)

// NodeMeta gives the own record; the book accepts none that is too large.
func (d *mlDelegate) NodeMeta(limit int) []byte {
	b, err := d.book.own().encode()
	if err != nil || len(b) > limit {
		return nil
	}
	return b
}

// NotifyAlive refuses members that must not be seen. memberlist asks it for each alive message and each merged state.
func (d *mlDelegate) NotifyAlive(n *memberlist.Node) error {
	if n.Name == d.book.id {
		return nil // about this process: memberlist refutes or reports a conflict
	}
	_, err := d.accept(n)
	if err == nil {
		return nil
	}
	if d.book.refuse(n.Name) {
		d.notify.change()
	}
	if !d.foreign.take(n.Name, n.Address(), err, time.Now()) && d.lines.Allow("refused "+n.Name, time.Now()) {
		d.log.Warn("refused a gossip member", "server", n.Name, "addr", net.IP(n.Addr).String(), "reason", err)
	}
	return err
}

// NotifyMerge refuses to join a pool in which nobody is acceptable. A pool with a few foreign members is not refused as a
// whole, since an instance without a cluster id may have met two clusters; NotifyAlive keeps the foreign ones out.
func (d *mlDelegate) NotifyMerge(peers []*memberlist.Node) error {
	var first error
	for _, n := range peers {
		_, err := d.accept(n)
		if err == nil {
			return nil
		}
		if first == nil {
			first = fmt.Errorf("member %s: %w", n.Name, err)
		}
	}
	if len(peers) > 0 {
		d.foreign.take(peers[0].Name, peers[0].Address(), first, time.Now())
	}
	return first
}

// accept reads a node's record and says whether it may be seen.
func (d *mlDelegate) accept(n *memberlist.Node) (record, error) {
	rec, err := decodeRecord(n.Meta)
	if err != nil {
		return record{}, err
	}
	if err := d.book.admits(rec); err != nil {
		return record{}, err
	}
	ip, port, err := d.addrs.node(rec.addr)
	if err != nil {
		return record{}, err
	}
	if len(n.Name) > maxServerID || !ip.Equal(n.Addr) || port != n.Port {
		return record{}, fmt.Errorf("announced at %s, says it is at %s", joinHostPort(n.Addr.String(), n.Port), rec.addr)
	}
	return rec, nil
}

// NotifyJoin tells of a member that came or came back.
func (d *mlDelegate) NotifyJoin(n *memberlist.Node) {
	if d.confirm(n) {
		d.log.Info("gossip member seen", "server", n.Name, "addr", n.Address())
	}
}

// NotifyUpdate tells of new metadata.
func (d *mlDelegate) NotifyUpdate(n *memberlist.Node) { d.confirm(n) }

func (d *mlDelegate) confirm(n *memberlist.Node) bool {
	rec, err := d.accept(n)
	if err != nil || !d.book.confirm(n.Name, rec, time.Now()) {
		return false
	}
	d.notify.change()
	return true
}

// NotifyLeave tells of a member that left or died; memberlist does not say which of the two.
func (d *mlDelegate) NotifyLeave(n *memberlist.Node) {
	d.watch.over(n.Name)
	rec, err := decodeRecord(n.Meta)
	if err != nil || !d.book.lost(n.Name, rec, time.Now()) {
		return
	}
	d.log.Info("gossip member gone", "server", n.Name, "addr", n.Address())
	d.notify.change()
	d.poke()
}

// NotifyConflict tells of a server id at two addresses while memberlist holds the first one for alive. See duel.go.
func (d *mlDelegate) NotifyConflict(existing, other *memberlist.Node) {
	a, errA := decodeRecord(existing.Meta)
	b, errB := decodeRecord(other.Meta)
	if errA != nil || errB != nil || d.book.own().admits(b) != nil {
		return
	}
	if d.lines.Allow("conflict "+existing.Name, time.Now()) {
		d.log.Warn("one server id at two addresses: restarted elsewhere, or a copied data directory", "server", existing.Name,
			"known", a.addr, "other", b.addr)
	}
	if d.book.claim(existing.Name, b, time.Now()) {
		d.notify.change()
	}
	if existing.Name == d.book.id {
		d.book.contest(time.Now())
	}
	d.duels.ask(existing.Name, a, b)
	d.poke()
}

// NotifyMsg takes a message of a peer.
func (d *mlDelegate) NotifyMsg(b []byte) { d.duels.heard(b) }

// GetBroadcasts has nothing to add.
func (d *mlDelegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState has nothing to add.
func (d *mlDelegate) LocalState(bool) []byte { return nil }

// MergeRemoteState expects nothing.
func (d *mlDelegate) MergeRemoteState([]byte, bool) {}
