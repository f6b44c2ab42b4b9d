package quorumlock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// take ends the hold because it is about to be moved elsewhere. It is not held any more before anything is sent: what takes its place, and readers that join a
// downgraded one, may be granted before the answer is here. A ctx that has ended already costs nothing.
func (h *Hold) take(ctx context.Context, op string, why error) error {
	if ctx.Err() != nil {
		return &WaitError{Op: op, Name: h.claim.name, Err: ended(ctx)}
	}
	s := h.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := h.errLocked(s.node.clock.Now()); err != nil && !errors.Is(err, ErrUnsure) {
		return err
	}
	h.forgetLocked()
	h.endLocked(why)
	s.parted++
	return nil
}

// giveBack releases in the background a hold that has ended here, was counted as parted, and may still be in the cluster, by unlock or forfeit. If its session is over, that is what
// releases it.
func (h *Hold) giveBack(release func(seq uint64) locktable.Command) {
	s := h.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return
	}
	cmd := release(s.beginLocked())
	s.node.spawn(func() {
		if h.persistUnlock(cmd) {
			s.part(-1)
		}
	})
}

// refused turns a refusal to move the hold into an error.
func (h *Hold) refused(op string, res *locktable.Result) error {
	if res.Code == locktable.CodeNotHeld || res.Code == locktable.CodeDraining {
		return h.forcedBy(res)
	}
	return refusal(op, h.claim.name, res)
}

// succeed moves the hold to a claim of r in its own session, by cmd, in one step.
func (h *Hold) succeed(ctx context.Context, op string, r *request, cmd *locktable.Command) (*Hold, error) {
	if err := h.take(ctx, op, ErrUnlocked); err != nil {
		return nil, err
	}
	s := h.session()
	cmd.Of, cmd.Token = h.claim.seq, locktable.Token(h.token)
	c, err := s.newClaim(ctx, op, r, cmd)
	if err != nil {
		h.giveBack(h.unlock)
		return nil, err
	}
	if c.limit = h.limit; c.limit != nil { // a cap goes on
		c.want.maxHold = h.claim.want.maxHold
	}
	res, err := c.ask(ctx, op, cmd)
	if err == nil && res.Code == locktable.CodeGranted {
		s.part(-1)
		return c.wait(ctx, op, &res)
	}
	c.giveUp(err)
	if err == nil {
		err = h.refused(op, &res)
	}
	h.giveBack(h.unlock)
	return nil, s.lossOr(ctx, err)
}

// Ticket gives a hold away. It is opaque text, good once, and as secret as the lock is: whoever has it can take the
// hold over.
type Ticket string

// ticketVersion is the layout of tickets.
const ticketVersion = 1

// Transfer gives the hold away: it ends here (ErrTransferred), and whoever receives the ticket, in this process or
// another, gets it by Receive without anybody else being granted the lock in between. Until then nobody works under the
// lock and it stays taken, for as long as this session lives, which releases it at its end; MaxHold does not count
// meanwhile. The ticket carries MaxHold along, and it counts anew for who receives it.
//
// So a lost ticket blocks the lock. Inspect, Locks and the errors of who waits show it as given away (Holder.Offered).
// Keep the ticket until the receiver has confirmed: Receive takes the hold back here too, for as long as nobody else has
// received it. Without the ticket ForceRelease frees the lock (while Holder.Offered is set nobody works under the
// hold, so Now harms nobody), and so does the end of this session.
//
// ctx bounds the round trip; if it has ended before, nothing changes. Otherwise an error means that there is no ticket
// and nothing is held any more: if it is not the hold's own, the hold is given back in the background.
func (h *Hold) Transfer(ctx context.Context) (Ticket, error) {
	const op = "transfer"
	if err := h.take(ctx, op, ErrTransferred); err != nil {
		return "", err
	}
	s := h.session()
	ticket := h.ticket()
	res, err := s.once(ctx, op, h.claim.name, &locktable.Command{
		Op: locktable.OpOffer, Of: h.claim.seq, Token: locktable.Token(h.token), Secret: locktable.OfferHash(ticketSecret(ticket)),
	})
	if err == nil && res.Code != locktable.CodeOK {
		err = h.refused(op, &res)
	}
	if err != nil {
		h.giveBack(h.unlock)
		return "", s.lossOr(ctx, err)
	}
	return encodeTicket(ticket), nil
}

// ticket says where the hold is and what it is, so that Receive has nothing to ask, and has something in it that nobody can guess.
func (h *Hold) ticket() []byte {
	want := h.claim.want
	w := wire.NewWriter(nil)
	w.Byte(ticketVersion)
	w.String(h.session().node.clusterIDNow())
	w.Varint(int64(h.session().id))
	w.Uvarint(h.claim.seq)
	w.Varint(int64(h.token))
	w.String(rand.Text())
	w.Byte(byte(want.mode))
	w.Uvarint(uint64(want.count))
	w.Varint(int64(want.maxHold))
	w.Uvarint(uint64(len(want.names)))
	for _, name := range want.names {
		w.String(name)
	}
	return w.Bytes()
}

// ticketSecret is what the cluster wants to see of who takes the hold over. It is made of the whole ticket, so that one that was altered, in its names for instance, is as good as none.
func ticketSecret(ticket []byte) string { return locktable.OfferHash(string(ticket)) }

func encodeTicket(ticket []byte) Ticket { return Ticket(base64.RawURLEncoding.EncodeToString(ticket)) }

// parsedTicket is what a Ticket says.
type parsedTicket struct {
	cluster string
	from    locktable.SessionID
	of      uint64
	token   locktable.Token
	secret  string
	request request
}

func (t Ticket) parse() (*parsedTicket, error) {
	bad := &FieldError{Field: "ticket", Problem: "is not a transfer ticket of this version"}
	b, err := base64.RawURLEncoding.DecodeString(string(t))
	if err != nil {
		return nil, bad
	}
	r := wire.NewReader(b)
	version := r.Byte()
	p := &parsedTicket{
		cluster: r.String(), from: locktable.SessionID(r.Varint()), of: r.Uvarint(), token: locktable.Token(r.Varint()), secret: ticketSecret(b),
	}
	_ = r.Blob() // what nobody can guess
	p.request.mode, p.request.count, p.request.maxHold = locktable.Mode(r.Byte()), int(r.Uint32()), time.Duration(r.Varint())
	for range r.Count(1) {
		p.request.names = append(p.request.names, r.String())
	}
	if p.request.mode == locktable.Permits {
		p.request.limit = p.request.count // the semaphore's own is not known, and does not matter
	}
	if r.Done() != nil || version != ticketVersion || !p.sound() {
		return nil, bad
	}
	return p, nil
}

// sound says whether the ticket could be one of Transfer.
func (p *parsedTicket) sound() bool {
	claim := p.request.command()
	claim.Session, claim.Seq = 1, 1
	return locktable.Check(claim) == nil && locktable.Check(p.command()) == nil && p.request.checkOptions() == nil
}

// command is what takes the hold over, with placeholders for the session and its sequence.
func (p *parsedTicket) command() *locktable.Command {
	return &locktable.Command{Op: locktable.OpAccept, Session: 1, Seq: 1, From: p.from, Of: p.of, Token: p.token, Secret: p.secret}
}

// Receive takes over the hold that a ticket of Transfer gives away, for the owner o. The new hold has a token of its
// own, higher than the former one, so that a fenced resource refuses what the former holder still has under way;
// readers keep the token of their phase. Of the options Note and MaxHold count. MaxHold begins anew: the one given here, or
// else the giver's; MaxHold(0) is none. A Delay stays what it was.
//
// ctx bounds the round trip. ErrTicket means that the ticket has been used, or that the hold was released or lost
// before, or is being released by force. A *FieldError means that it is no ticket, and nothing was sent. After a
// *WaitError nothing is held: if the ticket was used up by this call, the lock is given back in the background.
func Receive(ctx context.Context, o Owner, t Ticket, opts ...LockOption) (*Hold, error) {
	const op = "receive"
	p, err := t.parse()
	if err != nil {
		return nil, err
	}
	r := &p.request
	r.owner = o
	r.apply(opts)
	if err := r.check(); err != nil {
		return nil, err
	}
	s, err := sessionFor(ctx, o, op, r.label())
	if err != nil {
		return nil, err
	}
	if id := s.node.clusterIDNow(); id != p.cluster {
		return nil, fmt.Errorf("receive %q: %w: the ticket is of cluster %s, not %s", r.label(), ErrClusterChanged, p.cluster, id)
	}
	cmd := p.command()
	cmd.Note = r.note
	c, err := s.newClaim(ctx, op, r, cmd)
	if err != nil {
		return nil, err
	}
	return c.acquire(ctx, op, cmd)
}
