package gossip

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// receive merges datagrams until Close.
func (g *memoryGossip) receive() {
	for {
		select {
		case <-g.ctx.Done():
			return
		case p, ok := <-g.opt.Endpoint.Packets():
			if !ok {
				return
			}
			g.handle(p.From, p.Data, time.Now())
		}
	}
}

// handle takes one datagram from anybody.
func (g *memoryGossip) handle(from string, data []byte, now time.Time) {
	plain, err := g.sealer.open(data)
	if err != nil {
		g.refused(from, err, now)
		return
	}
	m, err := decodeMessage(plain)
	if err != nil {
		g.refused(from, err, now)
		return
	}
	if m.cluster != g.book.own().cluster {
		g.refused(from, errOtherName, now)
		return
	}
	if m.kind == kindDuel {
		g.duels.heard(m.duel)
		return
	}
	changed := false
	for _, r := range m.rows {
		changed = g.merge(r, now) || changed
	}
	if changed {
		g.notify.change()
	}
	if m.kind == kindAsking {
		g.mu.Lock()
		rows := g.rows(now)
		g.mu.Unlock()
		g.sendTable(from, kindTable, rows)
	}
}

func (g *memoryGossip) refused(who string, err error, now time.Time) {
	if !g.foreign.take(who, who, err, now) && g.lines.Allow("refused "+who, now) {
		g.log.Warn("refused gossip", "from", who, "reason", err)
	}
}

// merge takes one row and says whether the view changed.
func (g *memoryGossip) merge(r row, now time.Time) (changed bool) {
	rec, err := decodeRecord(r.rec)
	if err == nil {
		err = g.book.admits(rec)
	}
	if err != nil || len(r.id) > maxServerID || r.id == "" {
		g.refused(r.id, err, now)
		return g.drop(r.id)
	}
	if r.id == g.opt.ServerID {
		g.mergeOwn(rec)
		return false
	}
	if g.book.isCopy(r.id, rec) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.peers[r.id]
	switch {
	case p == nil:
		if r.left || len(g.peers) >= maxEntries {
			return false
		}
		g.peers[r.id] = &peer{rec: rec, raw: r.rec, beat: r.beat, advanced: now}
		return g.book.confirm(r.id, rec, now)
	case rec.sameProcess(p.rec):
		return g.advance(p, r, rec, now)
	default:
		return g.replace(p, r, rec, now)
	}
}

// drop forgets a member whose latest word can not be accepted.
func (g *memoryGossip) drop(id string) (changed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.peers, id)
	return g.book.refuse(id)
}

// mergeOwn takes news about the own server id: an echo, or another process. The other one may long be dead, so it is asked.
func (g *memoryGossip) mergeOwn(rec record) {
	if own := g.book.own(); !rec.sameProcess(own) {
		g.duels.ask(g.opt.ServerID, own, rec)
	}
}

// advance takes a newer heartbeat of the known process. The lock is held.
func (g *memoryGossip) advance(p *peer, r row, rec record, now time.Time) (changed bool) {
	if r.beat <= p.beat || p.left {
		return false
	}
	p.beat, p.advanced, p.rec, p.raw, p.left, p.dead = r.beat, now, rec, r.rec, r.left, r.left
	if r.left {
		g.log.Info("gossip member left", "server", r.id, "addr", rec.addr)
		return g.book.lost(r.id, rec, now)
	}
	return g.book.confirm(r.id, rec, now)
}

// replace decides between two processes of one server id: a living one gives way only to one that started later, a dead one to
// any that is not old news. The lock is held.
func (g *memoryGossip) replace(p *peer, r row, rec record, now time.Time) (changed bool) {
	key := processKey(rec)
	if beat, known := p.retired[key]; (known && r.beat <= beat) || r.left {
		return false
	}
	if !p.dead && !g.book.isCopy(r.id, p.rec) {
		g.duels.ask(r.id, p.rec, rec)
		if rec.before(p.rec) {
			return false
		}
	}
	if p.retired == nil || len(p.retired) >= maxRetired {
		p.retired = map[string]uint64{}
	}
	p.retired[processKey(p.rec)] = p.beat
	delete(p.retired, key)
	p.rec, p.raw, p.beat, p.advanced, p.left, p.dead = rec, r.rec, r.beat, now, false, false
	return g.book.confirm(r.id, rec, now)
}

func (g *memoryGossip) sendDuel(addr, _ string, msg []byte) {
	w := wire.NewWriter(nil)
	putHeader(w, kindDuel, g.book.own().cluster)
	w.Blob(msg)
	_ = g.opt.Endpoint.SendPacket(addr, g.sealer.seal(w.Bytes())) // asked again while the reason lasts
}
