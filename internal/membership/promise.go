package membership

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// promiseVersion is the first byte of an encoded promise.
const promiseVersion = 1

// Promise binds an instance to one proposed cluster. While it is held the instance promises to nobody else and accepts raft streams
// of that cluster only. The proposer's promise to itself is the proposal.
type Promise struct {
	ID       string   // proposal id, and the cluster's id once it is founded
	Proposer Server   // the only instance that may bootstrap the cluster
	Boot     string   // boot of the proposer when it asked last; for people
	Founders []Server // ordered by id; all must promise, those marked Voter form the first configuration
}

// Encode gives the versioned form in which a promise is stored. It carries no checksum: the store adds one to all it keeps.
func (p Promise) Encode() []byte {
	var w wire.Writer
	w.Byte(promiseVersion)
	writePromise(&w, p)
	return w.Bytes()
}

// DecodePromise reads what Encode wrote. A promise of an unknown version, or one that no proposer could have made, is an error:
// guessing what was promised would be worse than not starting.
func DecodePromise(b []byte) (Promise, error) {
	r := wire.NewReader(b)
	if v := r.Byte(); r.Err() == nil && v != promiseVersion {
		return Promise{}, fmt.Errorf("decode promise: unknown version %d", v)
	}
	p := readPromise(r)
	if err := r.Done(); err != nil {
		return Promise{}, fmt.Errorf("decode promise: %w", err)
	}
	if err := p.check(); err != nil {
		return Promise{}, fmt.Errorf("decode promise: %w", err)
	}
	return p, nil
}

// check tells whether p is a proposal at all: founders in order, each once, the proposer the first of them and a voter.
func (p Promise) check() error {
	if p.ID == "" {
		return fmt.Errorf("proposal without an id: %w", wire.ErrMalformed)
	}
	if len(p.Founders) == 0 || p.Founders[0].ID != p.Proposer.ID || !p.Founders[0].Voter {
		return fmt.Errorf("proposer is not the first founder: %w", wire.ErrMalformed)
	}
	names := make(map[string]bool, len(p.Founders))
	for i, s := range p.Founders {
		if s.ID == "" || i > 0 && s.ID <= p.Founders[i-1].ID {
			return fmt.Errorf("founders out of order: %w", wire.ErrMalformed)
		}
		if names[s.Name] {
			return fmt.Errorf("founders share the name %q: %w", s.Name, wire.ErrMalformed)
		}
		names[s.Name] = true
	}
	return nil
}

// wants tells whether a server id is one of the founders.
func (p Promise) wants(id string) bool {
	return slices.ContainsFunc(p.Founders, func(s Server) bool { return s.ID == id })
}

// voters are the servers of the first configuration.
func (p Promise) voters() []Server {
	var vs []Server
	for _, s := range p.Founders {
		if s.Voter {
			vs = append(vs, s)
		}
	}
	return vs
}

// names are the founders' names in order.
func (p Promise) names() []string {
	names := make([]string, len(p.Founders))
	for i, s := range p.Founders {
		names[i] = s.Name
	}
	slices.Sort(names)
	return names
}

func (p Promise) equal(q Promise) bool {
	return p.ID == q.ID && p.Proposer == q.Proposer && p.Boot == q.Boot && slices.Equal(p.Founders, q.Founders)
}

func writePromise(w *wire.Writer, p Promise) {
	w.String(p.ID)
	writeServer(w, p.Proposer)
	w.String(p.Boot)
	w.Uvarint(uint64(len(p.Founders)))
	for _, s := range p.Founders {
		writeServer(w, s)
	}
}

func readPromise(r *wire.Reader) Promise {
	p := Promise{ID: r.String(), Proposer: readServer(r), Boot: r.String()}
	for range r.Count(serverSize) {
		p.Founders = append(p.Founders, readServer(r))
	}
	return p
}

// serverSize is the least number of bytes of an encoded Server.
const serverSize = 4

func writeServer(w *wire.Writer, s Server) {
	w.String(s.ID)
	w.String(s.Name)
	w.String(s.Addr)
	w.Bool(s.Voter)
}

func readServer(r *wire.Reader) Server {
	return Server{ID: r.String(), Name: r.String(), Addr: r.String(), Voter: r.Bool()}
}
