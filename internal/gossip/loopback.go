package gossip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// A loopback address means another machine to each who reads it. So a process that advertises one belongs with those that do,
// on one machine, and with nobody else: it is not seen by the others, and goes to none of them.

var errLoopback = errors.New("one of the two advertises a loopback address, and the other one does not: " +
	"Config.Advertise must be an address that all peers can reach")

// IsLoopback tells that addr, host:port, is one of this machine for whoever reads it. It resolves no names but
// localhost.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr) // port 0 may still be chosen
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// IsElsewhere tells that addr is an IP which is certainly not a loopback one. A name may stand for either.
func IsElsewhere(addr string) bool {
	host, _, err := net.SplitHostPort(addr) // port 0 may still be chosen
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && !ip.Unmap().IsLoopback()
}

// reachable leaves out of the seeds' addresses those where the own one means another machine.
func (s *seeds) reachable(addrs []string) []string {
	if !IsLoopback(s.own) {
		return addrs
	}
	return slices.DeleteFunc(addrs, func(addr string) bool {
		elsewhere := IsElsewhere(addr)
		if elsewhere && s.lines.Allow("elsewhere "+addr, time.Now()) {
			s.log.Warn("a seed is on another machine, which cannot reach the loopback address that this node advertises: set Config.Advertise",
				"seed", addr, "advertised", s.own)
		}
		return elsewhere
	})
}

// checkReach refuses a peer of which one knows that an address means different machines to the two.
func checkReach(own, peer string) error {
	if IsLoopback(own) && IsElsewhere(peer) || IsLoopback(peer) && IsElsewhere(own) {
		return fmt.Errorf("%w (%s, %s)", errLoopback, own, peer)
	}
	return nil
}
