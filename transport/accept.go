package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	minAcceptBackoff = 5 * time.Millisecond
	maxAcceptBackoff = time.Second
)

// acceptLoop never handshakes itself: one silent peer must not keep the next one waiting.
func (e *endpoint) acceptLoop() {
	backoff := minAcceptBackoff
	for {
		raw, err := e.carrier.accept()
		switch {
		case err == nil:
			backoff = minAcceptBackoff
			e.admit(raw)
		case errors.Is(err, net.ErrClosed):
			e.shut()
			return
		default: // out of descriptors, most likely: it passes, and spinning makes it worse
			e.cfg.Logger.Warn("accept failed", "addr", e.addr, "error", err, "retry", backoff)
			if !e.sleep(backoff) {
				return
			}
			backoff = min(2*backoff, maxAcceptBackoff)
		}
	}
}

func (e *endpoint) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-e.done:
		return false
	}
}

func (e *endpoint) admit(raw net.Conn) {
	if !e.track(raw) {
		raw.Close()
		return
	}
	t, shed := e.pending.admit(e.carrier.source(raw), raw)
	if shed != nil {
		shed.Close()
	}
	e.running.Go(func() {
		defer e.pending.leave(t)
		if err := e.welcome(raw); err != nil {
			e.drop(raw)
			raw.Close()
			e.refusals.log(e.cfg.Logger, raw.RemoteAddr(), err)
		}
	})
}

// track lets Close reach a connection that is still in its handshake.
func (e *endpoint) track(raw net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.conns[raw] = 0
	}
	return !e.closed
}

// welcome is the acceptor's side of the handshake. One deadline covers all of it.
func (e *endpoint) welcome(raw net.Conn) error {
	if err := raw.SetDeadline(time.Now().Add(e.cfg.HandshakeTimeout)); err != nil {
		return err
	}
	s := &stream{Conn: raw, raw: raw}
	if e.tlsServer != nil {
		if err := s.startTLS(tls.Server(s.cap(raw), e.tlsServer)); err != nil {
			return fmt.Errorf("tls handshake: %w", err)
		}
	}
	h, err := readHello(s)
	if err != nil {
		return err
	}
	s.kind = h.kind
	clusterID := e.identify(s)
	s.peer.ServerID, s.peer.ClusterID, s.peer.Addr = h.from, h.clusterID, h.advertise
	if code := e.receive(s, h, clusterID); code != statusAccepted {
		e.met(code, h.kind, clusterID, h.clusterID)
		s.Write(e.answer(byte(code), clusterID))
		return &RefusedError{Code: code, Addr: raw.RemoteAddr().String(), Detail: fmt.Sprintf(
			"server %q at %s of cluster %q id %q, for target %q", h.from, h.advertise, h.cluster, h.clusterID, h.to)}
	}
	return e.handOver(s, clusterID)
}

func (e *endpoint) answer(status byte, clusterID string) []byte {
	return answer{preambleVersion, status, e.cfg.ServerID, clusterID, e.advertise}.encode()
}

// receive judges the hello and, if it is welcome, takes a place in the queue and in the list of streams.
func (e *endpoint) receive(s *stream, h hello, clusterID string) RefusedCode {
	if code := judgeHello(h, e.cfg.Cluster, e.cfg.ServerID, clusterID); code != statusAccepted {
		return code
	}
	if s.kind == KindRaft && e.isCut() {
		return RefusedCut
	}
	if !e.queue(s.kind).reserve(e.done) {
		return RefusedBusy
	}
	if err := e.keep(s); err != nil {
		e.queue(s.kind).release()
		return RefusedCut
	}
	return statusAccepted
}

// handOver answers before it queues: the owner's first byte must not overtake the answer.
func (e *endpoint) handOver(s *stream, clusterID string) error {
	q := e.queue(s.kind)
	_, err := s.Write(e.answer(statusAccepted, clusterID))
	if err == nil {
		err = s.raw.SetDeadline(time.Time{})
	}
	if err != nil {
		q.release()
		return fmt.Errorf("answer preamble: %w", err)
	}
	if l, ok := s.raw.(interface{ labelInbound(Kind) }); ok {
		l.labelInbound(s.kind)
	}
	q.streams <- s
	return nil
}

// streamQueue holds streams for Accept. A place is reserved before the peer is told "accepted", so a queue that nobody empties
// shows as RefusedBusy at the dialer and not as a stream that never answers.
type streamQueue struct {
	places  chan struct{}
	streams chan *stream // never blocks: as large as places
}

func newStreamQueue() *streamQueue {
	return &streamQueue{places: make(chan struct{}, acceptQueue), streams: make(chan *stream, acceptQueue)}
}

func (q *streamQueue) reserve(done <-chan struct{}) bool {
	select {
	case q.places <- struct{}{}:
		return true
	default:
	}
	t := time.NewTimer(acceptQueueWait)
	defer t.Stop()
	select {
	case q.places <- struct{}{}:
		return true
	case <-t.C:
	case <-done:
	}
	return false
}

func (q *streamQueue) release() { <-q.places }

const refusalLogEvery = 10 * time.Second

// refusalLog tells of each kind of refusal at most once in refusalLogEvery: two clusters that meet dial each other for ever.
type refusalLog struct {
	mu   sync.Mutex
	last map[RefusedCode]time.Time
}

func (l *refusalLog) log(logger interface{ Warn(string, ...any) }, from net.Addr, err error) {
	var refused *RefusedError
	if errors.As(err, &refused) && l.due(refused.Code) {
		logger.Warn("stream refused", "from", from, "error", err)
	} else if refused == nil && l.due(0) {
		logger.Warn("handshake failed", "from", from, "error", err)
	}
}

func (l *refusalLog) due(code RefusedCode) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if last, ok := l.last[code]; ok && now.Sub(last) < refusalLogEvery {
		return false
	}
	if l.last == nil {
		l.last = map[RefusedCode]time.Time{}
	}
	l.last[code] = now
	return true
}
