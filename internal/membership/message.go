package membership

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// messageVersion is the first byte of each founding message and answer.
const messageVersion = 1

// requestKind is append-only: it crosses the wire.
type requestKind byte

const (
	kindPropose requestKind = 1 // promise me this proposal
	kindQuery   requestKind = 2 // what became of your proposal?
	kindAbandon requestKind = 3 // I shall never use this proposal
)

// request is one founding message. A query and an abandonment need of the promise only its id.
type request struct {
	kind    requestKind
	promise Promise

	// What the proposer was configured with. A promiser with another configuration refuses: a founding set is only as good as the
	// agreement on what it must be.
	cluster  string
	expect   int
	founders []string
	wall     time.Time // the proposer's wall clock, now
}

// verdict is append-only: it crosses the wire.
type verdict byte

const (
	verdictPromised  verdict = 1 // the promise is durable
	verdictRefused   verdict = 2 // not to this proposal; the proposer abandons it
	verdictLater     verdict = 3 // an older promise is being checked; ask again
	verdictMember    verdict = 4 // the instance belongs to a cluster
	verdictLive      verdict = 5 // to a query: the proposal stands
	verdictAbandoned verdict = 6 // to a query: this instance does not stand behind the proposal; to an abandonment: noted
)

// answer is what a peer says, and who it is.
type answer struct {
	verdict   verdict
	from      Server
	boot      string
	clusterID string // of a member; may be empty for a moment
	reason    string // for people
}

func (q request) encode() []byte {
	var w wire.Writer
	w.Byte(messageVersion)
	w.Byte(byte(q.kind))
	if q.kind != kindPropose {
		w.String(q.promise.ID)
		return w.Bytes()
	}
	writePromise(&w, q.promise)
	w.String(q.cluster)
	w.Uvarint(uint64(q.expect))
	w.Uvarint(uint64(len(q.founders)))
	for _, name := range q.founders {
		w.String(name)
	}
	w.Varint(q.wall.UnixMicro())
	return w.Bytes()
}

func decodeRequest(b []byte) (request, error) {
	r := wire.NewReader(b)
	if v := r.Byte(); r.Err() == nil && v != messageVersion {
		return request{}, fmt.Errorf("decode founding message: unknown version %d", v)
	}
	q := request{kind: requestKind(r.Byte())}
	switch q.kind {
	case kindPropose:
		readProposal(r, &q)
	case kindQuery, kindAbandon:
		q.promise.ID = r.String()
	default:
		return request{}, fmt.Errorf("decode founding message: kind %d: %w", q.kind, wire.ErrMalformed)
	}
	if err := r.Done(); err != nil {
		return request{}, fmt.Errorf("decode founding message: %w", err)
	}
	return q, q.check()
}

func readProposal(r *wire.Reader, q *request) {
	q.promise = readPromise(r)
	q.cluster = r.String()
	q.expect = int(min(r.Uvarint(), 1<<31-1))
	for range r.Count(1) {
		q.founders = append(q.founders, r.String())
	}
	q.wall = time.UnixMicro(r.Varint())
}

func (q request) check() error {
	if q.kind != kindPropose {
		return nil
	}
	if err := q.promise.check(); err != nil {
		return fmt.Errorf("decode founding message: %w", err)
	}
	return nil
}

func (a answer) encode() []byte {
	var w wire.Writer
	w.Byte(messageVersion)
	w.Byte(byte(a.verdict))
	writeServer(&w, a.from)
	w.String(a.boot)
	w.String(a.clusterID)
	w.String(a.reason)
	return w.Bytes()
}

func decodeAnswer(b []byte) (answer, error) {
	r := wire.NewReader(b)
	if v := r.Byte(); r.Err() == nil && v != messageVersion {
		return answer{}, fmt.Errorf("decode founding answer: unknown version %d", v)
	}
	a := answer{verdict: verdict(r.Byte()), from: readServer(r), boot: r.String(), clusterID: r.String(), reason: r.String()}
	if r.Err() == nil && (a.verdict < verdictPromised || a.verdict > verdictAbandoned) {
		return answer{}, fmt.Errorf("decode founding answer: verdict %d: %w", a.verdict, wire.ErrMalformed)
	}
	if err := r.Done(); err != nil {
		return answer{}, fmt.Errorf("decode founding answer: %w", err)
	}
	return a, nil
}
