//go:build unix

package demokit

import (
	"fmt"
	"net"
)

// Loopback is any free port there.
const Loopback = "127.0.0.1:0"

// FreeAddrs gives n addresses on loopback whose ports are free now, for TCP and UDP. All are held together until the last one
// is found; the kernel does not soon give out again what was just let go.
func FreeAddrs(n int) ([]string, error) {
	var addrs []string
	for len(addrs) < n {
		addr, release, err := reserve()
		if err != nil {
			return nil, err
		}
		defer release()
		if addr != "" {
			addrs = append(addrs, addr)
		}
	}
	return addrs, nil
}

// reserve holds one port until release is called. addr is "" if the port that TCP was given is taken for UDP; holding it all
// the same keeps it from being offered again.
func reserve() (addr string, release func(), err error) {
	tcp, err := net.Listen("tcp", Loopback)
	if err != nil {
		return "", nil, fmt.Errorf("find a free port: %w", err)
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		return "", func() { _ = tcp.Close() }, nil
	}
	return tcp.Addr().String(), func() { _ = tcp.Close(); _ = udp.Close() }, nil
}
