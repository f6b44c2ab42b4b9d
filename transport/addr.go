package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// The rules for addresses of real networks. They are pure, and apart from the sockets, so that they hold (and are tested) on
// every platform.

var (
	errUnspecified = errors.New("peers can not dial an unspecified address")
	errNoHost      = errors.New("host is missing")
)

// advertised decides what peers are told, given what was configured and what was bound.
func advertised(cfg Config, bound netip.AddrPort) (string, error) {
	addr := cfg.Advertise
	if addr == "" {
		addr = bound.String()
	}
	if err := checkAdvertise(addr); err != nil {
		return "", &AddrError{Option: "Advertise", Addr: addr, Err: err}
	}
	if !plaintextAllowed(cfg) && !isLoopbackHost(addr) {
		return "", &PlaintextError{Use: "advertise", Addr: addr}
	}
	return addr, nil
}

func checkAdvertise(addr string) error {
	host, port, err := splitHostPort(addr)
	switch {
	case err != nil:
		return err
	case host == "":
		return errNoHost
	case port == 0:
		return errors.New("port 0 can not be dialled")
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsUnspecified() {
		return errUnspecified
	}
	return nil
}

func splitHostPort(addr string) (host string, port int, err error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(service)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("port %q is not a number up to 65535", service)
	}
	return host, port, nil
}

// plaintextAllowed: with TLS nothing is in plain text but datagrams, whose encryption is gossip's matter.
func plaintextAllowed(cfg Config) bool { return cfg.TLS != nil || cfg.AllowPlaintext }

// isLoopbackHost does not resolve names other than localhost: what a name means may change after it was checked.
func isLoopbackHost(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
