//go:build !wasip1

package gossip

import (
	"crypto/sha256"
	"net"
	"sync"
)

// addressBook maps between advertised addresses, which may carry host names, and memberlist's addresses, which are an IP and a
// port. An address that is not the canonical text of an IP and a port gets an alias: an IP of a reserved range, computed from
// the text, so that all members compute the same one without talking about it. Resolving the name once instead would pin
// an instance to the IP it had when it was first seen.
type addressBook struct {
	mu     sync.Mutex
	byText map[string]string // alias as host:port -> advertised
}

// aliasPrefix lies in fd00::/8, the range for local use; its random part is ours.
var aliasPrefix = [4]byte{0xfd, 0x71, 0x6c, 0x6b}

// node gives memberlist's form of an advertised address and remembers the alias if there is one.
func (a *addressBook) node(addr string) (net.IP, uint16, error) {
	host, port, err := splitHostPort(addr)
	if err != nil {
		return nil, 0, err
	}
	if ip := net.ParseIP(host); ip != nil && joinHostPort(ip.String(), port) == addr {
		if v4 := ip.To4(); v4 != nil {
			ip = v4
		}
		return ip, port, nil
	}
	ip := alias(addr)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byText == nil {
		a.byText = map[string]string{}
	}
	if len(a.byText) >= 2*maxEntries {
		clear(a.byText) // live ones come back with the next alive message or join
	}
	a.byText[joinHostPort(ip.String(), port)] = addr
	return ip, port, nil
}

// dialable gives back the advertised form of an address of memberlist's.
func (a *addressBook) dialable(text string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if addr, ok := a.byText[text]; ok {
		return addr
	}
	return text
}

func alias(addr string) net.IP {
	sum := sha256.Sum256([]byte(addr))
	ip := make(net.IP, net.IPv6len)
	copy(ip, aliasPrefix[:])
	copy(ip[len(aliasPrefix):], sum[:])
	return ip
}
