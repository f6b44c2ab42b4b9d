//go:build !wasip1

package transport

import (
	"testing"
	"time"
)

var tcpLabs = []lab{{"tcp", func(t *testing.T, f func(*testing.T, *network)) {
	f(t, &network{
		t: t, patience: 150 * time.Millisecond,
		host: func(string) Transport { return TCP() },
		addr: func(string) string { return "127.0.0.1:0" },
		carrier: func(string) (carrier, string) {
			s := must[*tcpSockets](t)(openSockets(Config{Addr: "127.0.0.1:0"}))
			return s, s.bound().String()
		},
	})
}}}
