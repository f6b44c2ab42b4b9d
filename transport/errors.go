package transport

import (
	"errors"
	"fmt"
)

func (c RefusedCode) String() string {
	switch c {
	case RefusedVersion:
		return "other protocol version"
	case RefusedCluster:
		return "other cluster name"
	case RefusedClusterID:
		return "other cluster id"
	case RefusedTarget:
		return "other server id"
	case RefusedKind:
		return "unknown kind of stream"
	case RefusedBusy:
		return "too many streams pending"
	case RefusedCut:
		return "raft streams are cut"
	}
	return fmt.Sprintf("refusal code %d", byte(c))
}

// Error names the address, the reason and what was expected.
func (e *RefusedError) Error() string {
	s := "stream to " + e.Addr + " refused: " + e.Code.String()
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s
}

// Is matches any RefusedError of the same code: errors.Is(err, &RefusedError{Code: RefusedTarget}).
func (e *RefusedError) Is(target error) bool {
	t, ok := target.(*RefusedError)
	return ok && t.Code == e.Code
}

// ErrDialOnly is the error of what an endpoint without a port cannot do.
var ErrDialOnly = errors.New("the endpoint opens no port")

// PlaintextError is an address outside loopback that would have been used without TLS.
type PlaintextError struct {
	Use  string // "serve", "advertise", "dial" or "send to"
	Addr string
}

func (e *PlaintextError) Error() string {
	return fmt.Sprintf("refusing to %s %s in plain text: set TLS, or AllowPlaintext if the network is trusted", e.Use, e.Addr)
}

// AddrError is an address of the Config that can not be used. Err wraps the reason, syscall.EADDRINUSE among them.
type AddrError struct {
	Option string // the field of Config to change: "Addr" or "Advertise"
	Addr   string
	Err    error
}

func (e *AddrError) Error() string { return fmt.Sprintf("%s %q: %v", e.Option, e.Addr, e.Err) }

func (e *AddrError) Unwrap() error { return e.Err }

// DialError is a call of which nothing was sent: the peer can not have seen it. It wraps the dial's error, the refusal, or the
// ctx error if ctx ended before.
type DialError struct {
	Addr string
	Err  error
}

func (e *DialError) Error() string { return fmt.Sprintf("call to %s not sent: %v", e.Addr, e.Err) }

func (e *DialError) Unwrap() error { return e.Err }

// UnknownError is a call that was sent (perhaps in part) and not answered: the peer may or may not have acted on it. It wraps the
// connection's error, or the ctx error if ctx ended first.
type UnknownError struct {
	Addr string
	Err  error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("call to %s sent, outcome unknown: %v", e.Addr, e.Err)
}

func (e *UnknownError) Unwrap() error { return e.Err }

// RemoteError is an error that the peer's Handler returned. A Handler that wants a code to travel returns (or wraps) a
// *RemoteError itself; any other error travels as its text with code 0.
type RemoteError struct {
	Code uint32
	Text string
}

func (e *RemoteError) Error() string {
	if e.Code == 0 {
		return e.Text
	}
	return fmt.Sprintf("%s (code %d)", e.Text, e.Code)
}
