package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// dialHandshake makes a stream out of a fresh connection. The deadline of ctx bounds it and is cleared before it returns.
func (e *endpoint) dialHandshake(ctx context.Context, raw net.Conn, kind Kind, addr, target string) (*stream, error) {
	disarm := interruptible(ctx, raw)
	s, err := e.greet(raw, kind, addr, target)
	if interrupted := disarm(); interrupted != nil {
		return nil, interrupted
	}
	if err != nil {
		return nil, err
	}
	return s, raw.SetDeadline(time.Time{})
}

// interruptible makes the end of ctx break reads and writes of c. disarm ends that and tells the ctx error if it was too late.
func interruptible(ctx context.Context, c net.Conn) (disarm func() error) {
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	return func() error {
		if !stop() {
			return context.Cause(ctx)
		}
		return nil
	}
}

func (e *endpoint) greet(raw net.Conn, kind Kind, addr, target string) (*stream, error) {
	s := &stream{Conn: raw, raw: raw, kind: kind}
	if e.tlsClient != nil {
		if err := s.startTLS(tls.Client(s.cap(raw), clientConfigFor(e.tlsClient, addr))); err != nil {
			return nil, fmt.Errorf("tls handshake: %w", err)
		}
	}
	clusterID := e.identify(s)
	h := hello{
		version: preambleVersion, kind: kind, cluster: e.cfg.Cluster, from: e.cfg.ServerID, to: target,
		clusterID: clusterID, advertise: e.advertise,
	}
	if _, err := s.Write(h.encode()); err != nil {
		return nil, fmt.Errorf("write preamble: %w", err)
	}
	a, err := readAnswer(s)
	if err != nil {
		return nil, err
	}
	if code, detail := judgeAnswer(h, a); code != statusAccepted {
		e.met(code, h.kind, clusterID, a.clusterID)
		return nil, &RefusedError{Code: code, Addr: addr, Detail: detail}
	}
	s.peer.ServerID, s.peer.ClusterID, s.peer.Addr = a.serverID, a.clusterID, a.advertise
	return s, nil
}

// clientConfigFor checks the certificate against the dialled host unless the caller named another.
func clientConfigFor(base *tls.Config, addr string) *tls.Config {
	if base.ServerName != "" || base.InsecureSkipVerify {
		return base
	}
	c := base.Clone()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		c.ServerName = host
	}
	return c
}

// judgeAnswer trusts no acceptor to have checked: what it says of itself must also fit what was asked.
func judgeAnswer(h hello, a answer) (RefusedCode, string) {
	told := fmt.Sprintf("answered by server %q of cluster id %q", a.serverID, a.clusterID)
	switch {
	case a.status != statusAccepted:
		return RefusedCode(a.status), told
	case a.version != h.version:
		return RefusedVersion, fmt.Sprintf("version %d answered to version %d", a.version, h.version)
	case h.to != "" && a.serverID != h.to:
		return RefusedTarget, told
	case !sameCluster(h.kind, h.clusterID, a.clusterID):
		return RefusedClusterID, told
	}
	return statusAccepted, ""
}

// judgeHello is the acceptor's side. The name is checked before anything that only means something within one name.
func judgeHello(h hello, cluster, serverID, clusterID string) RefusedCode {
	switch {
	case h.version != preambleVersion:
		return RefusedVersion
	case !knownKind(h.kind):
		return RefusedKind
	case h.cluster != cluster:
		return RefusedCluster
	case !sameCluster(h.kind, h.clusterID, clusterID):
		return RefusedClusterID
	case h.to != serverID && (h.to != "" || h.kind == KindRaft):
		return RefusedTarget
	}
	return statusAccepted
}

// met tells of another cluster, if that is why a stream was refused.
func (e *endpoint) met(code RefusedCode, kind Kind, own, other string) {
	if code == RefusedClusterID && kind != KindRaft && own != other && own != "" && other != "" && e.cfg.OnForeign != nil {
		e.cfg.OnForeign(other)
	}
}

// sameCluster: a node without a cluster may call and gossip (that is how it joins), but a raft byte needs proof on both sides.
func sameCluster(kind Kind, a, b string) bool {
	if kind == KindRaft {
		return a != "" && a == b
	}
	return a == "" || b == "" || a == b
}

func knownKind(k Kind) bool { return k == KindRaft || k == KindCall || k == KindGossip }
