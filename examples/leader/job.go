package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
)

// preparation is how long one step of the job takes before its result is written.
const preparation = 100 * time.Millisecond

// lead is the job. It runs only while this instance leads, and ctx ends when leadership does.
//
// Each step asks whether this instance still leads, works, and writes. The process may be stopped for any time between the
// question and the write: by a suspended machine, a long collection of garbage, a SIGSTOP. Leadership passes on meanwhile,
// rightly, and the write comes late. Asking once more just before the write would narrow that gap and never close it, since
// the process can be stopped after the last question too. What closes it is the token: the ledger has accepted a higher one
// by then, and refuses.
func (s *instance) lead(ctx context.Context, l *quorumlock.Leadership) error {
	t := l.Token()
	s.log.Info("leading", "token", t)
	for seq := 1; ctx.Err() == nil; seq++ {
		prepare()
		// The write has a deadline of its own. Broken off half way because leadership ends, it would leave nobody
		// knowing whether it took place; and whether it may is not this process's to judge any more. The grant is in ctx
		// all the same, and goes with the request.
		err := s.ledger.append(context.WithoutCancel(ctx), seq)
		s.results.add(t, err)
		if err != nil {
			return err
		}
	}
	return nil
}

// prepare stands for the work proper: reading, computing, asking other services.
func prepare() { time.Sleep(preparation) }

// results counts what came of this instance's writes, by the token they were made with.
type results struct {
	mu    sync.Mutex
	terms []result
}

// result is one term of leadership, as the leader itself saw it.
type result struct {
	Token    quorumlock.Token `json:"token"`
	Accepted int              `json:"accepted"` // writes that were acknowledged
	Refused  int              `json:"refused"`  // writes that came too late
	Unknown  int              `json:"unknown"`  // writes without an answer
}

func (r *results) add(t quorumlock.Token, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.terms); n == 0 || r.terms[n-1].Token != t {
		r.terms = append(r.terms, result{Token: t})
	}
	term := &r.terms[len(r.terms)-1]
	switch {
	case err == nil:
		term.Accepted++
	case errors.Is(err, quorumlock.ErrStaleToken):
		term.Refused++
	default:
		term.Unknown++
	}
}

func (r *results) list() []result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]result{}, r.terms...)
}
