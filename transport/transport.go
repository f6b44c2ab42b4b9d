// Package transport carries everything that nodes say to each other over one port: raft streams, calls and gossip.
package transport

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Transport opens endpoints. TCP is the real one; Memory is for tests and simulation.
type Transport interface {
	Listen(cfg Config) (Endpoint, error)
}

// Kind says what a stream is for; it is the first thing a preamble tells.
type Kind byte

const (
	KindRaft   Kind = 'R' // needs equal, non-empty cluster ids on both sides and a target server id
	KindCall   Kind = 'C'
	KindGossip Kind = 'G'
)

// Config is what one endpoint needs.
type Config struct {
	// DialOnly opens no port: the endpoint dials and is found by nobody. It has no address to tell, so Addr and Advertise must be
	// empty and are; Accept waits for Close, datagrams are neither sent nor received, and of TLS only Client is needed.
	DialOnly  bool
	Addr      string // host:port to listen on (TCP and UDP); port 0 takes a free pair
	Advertise string // host:port peers are told; empty: the bound address. Unspecified hosts are refused
	Cluster   string // cluster name; streams of another name are refused
	ServerID  string
	// ClusterID is asked at each handshake; it is empty until the node belongs to a cluster. Two non-empty ids that differ
	// refuse each other; for KindRaft empty is refused too.
	ClusterID func() string
	// RaftClusterID is asked instead for KindRaft; nil: ClusterID. A node that has promised itself to a cluster, or is about to join one, accepts
	// that cluster's raft streams and no others, while it does not belong to it yet and must stay able to call everybody.
	RaftClusterID  func() string
	TLS            *TLS // nil: plain text, and then only loopback addresses unless AllowPlaintext
	AllowPlaintext bool
	Logger         hclog.Logger
	// OnForeign, if set, is told the id of another cluster of the same name that a handshake met, on whichever side, for a call or for
	// gossip: raft streams are refused between nodes that are about to join, too. It returns at once, and may be called at any time.
	OnForeign func(clusterID string)
	// HandshakeTimeout bounds dial + TLS + preamble; default 3 s.
	HandshakeTimeout time.Duration
}

// TLS holds the two sides' settings; both are cloned. Identity and rotation are the caller's matter.
type TLS struct {
	Server *tls.Config
	Client *tls.Config
}

// Packet is one datagram received.
type Packet struct {
	From string
	Data []byte // owned by the receiver
	At   time.Time
}

// Endpoint is one node's port.
type Endpoint interface {
	// Addr is the address that was bound, Advertise the one to tell peers.
	Addr() string
	Advertise() string
	// Dial opens a stream of a kind to addr. A non-empty target is the server id that must answer: another one refuses.
	// ctx bounds the dial with its handshake, not the stream. A refusal is a *RefusedError.
	Dial(ctx context.Context, kind Kind, addr, target string) (Conn, error)
	// Accept waits for the next stream of a kind that passed its handshake; net.ErrClosed after Close.
	Accept(kind Kind) (Conn, error)
	// SendPacket sends one datagram, best effort; Packets delivers those received and is closed by Close. With Config.DialOnly there
	// are none: SendPacket fails with ErrDialOnly.
	SendPacket(addr string, b []byte) error
	Packets() <-chan Packet
	// CutRaft refuses new raft streams and closes the open ones until RestoreRaft; calls and gossip go on. (For a stalled or
	// failed store.) A stream whose handshake began before CutRaft is refused even if RestoreRaft came meanwhile, so after a change
	// of RaftClusterID the two together leave no stream of the former cluster.
	CutRaft()
	RestoreRaft()
	// Close ends listeners, streams and packets, and returns when every goroutine of the endpoint is gone. Twice is fine.
	Close() error
}

// Conn is a stream with what its handshake told about the other side.
type Conn interface {
	net.Conn
	Peer() Peer
}

// Peer is the other side of a stream. Without TLS it is a claim, not a proof.
type Peer struct {
	ServerID  string
	ClusterID string
	Addr      string // the advertised address it told
	TLS       *tls.ConnectionState
}

// RefusedCode says why a handshake was refused. The list is append-only: codes cross the wire.
type RefusedCode byte

const (
	RefusedVersion   RefusedCode = 1 // protocol version
	RefusedCluster   RefusedCode = 2 // other cluster name
	RefusedClusterID RefusedCode = 3 // other cluster id (or none, for raft)
	RefusedTarget    RefusedCode = 4 // the target is another server
	RefusedKind      RefusedCode = 5
	RefusedBusy      RefusedCode = 6 // too many streams pending
	RefusedCut       RefusedCode = 7 // CutRaft is in force
)

// RefusedError is a handshake that the other side (or, for what it answered, this side) refused.
type RefusedError struct {
	Code   RefusedCode
	Addr   string
	Detail string
}
