package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock"
)

// secrets are the files that certificates and keys are read from.
type secrets struct {
	ca, cert, key, serverName string
	gossipKeys                string
}

func (s *secrets) flags(flags *pflag.FlagSet) {
	flags.StringVar(&s.ca, "tls-ca", "", "file of the CAs that the members' certificates are signed by, PEM; turns TLS on")
	fromEnv(flags, "tls-ca", "QUORUMLOCK_TLS_CA")
	flags.StringVar(&s.cert, "tls-cert", "", "file of this side's certificate, PEM")
	fromEnv(flags, "tls-cert", "QUORUMLOCK_TLS_CERT")
	flags.StringVar(&s.key, "tls-key", "", "file of its key, PEM")
	fromEnv(flags, "tls-key", "QUORUMLOCK_TLS_KEY")
	flags.StringVar(&s.serverName, "tls-server-name", "", "name that the members' certificates are for (default: the host dialled)")
	fromEnv(flags, "tls-server-name", "QUORUMLOCK_TLS_SERVER_NAME")
	flags.StringVar(&s.gossipKeys, "gossip-keys", "", "file of the keys that encrypt gossip, base64, one per line; the first one encrypts")
	fromEnv(flags, "gossip-keys", "QUORUMLOCK_GOSSIP_KEYS")
}

// apply reads the files into cfg.
func (s *secrets) apply(cfg *quorumlock.Config) (err error) {
	if cfg.TLS, err = s.tls(); err != nil {
		return err
	}
	cfg.GossipKeys, err = s.keys()
	return err
}

// tls asks for certificates on both sides where both are given. A client that the members do not ask for one needs only --tls-ca.
func (s *secrets) tls() (*quorumlock.TLSConfig, error) {
	if s.ca == "" && s.cert == "" && s.key == "" {
		return nil, nil
	}
	server := &tls.Config{MinVersion: tls.VersionTLS13}
	client := &tls.Config{ServerName: s.serverName, MinVersion: tls.VersionTLS13}
	if s.cert != "" || s.key != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, usage("--tls-cert, --tls-key: %w", err)
		}
		server.Certificates, client.Certificates = []tls.Certificate{pair}, []tls.Certificate{pair}
	}
	if s.ca != "" {
		pem, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, usage("--tls-ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, usage("--tls-ca: no certificate in %s", s.ca)
		}
		client.RootCAs, server.ClientCAs = pool, pool
		server.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return &quorumlock.TLSConfig{Server: server, Client: client}, nil
}

func (s *secrets) keys() ([][]byte, error) {
	if s.gossipKeys == "" {
		return nil, nil
	}
	text, err := os.ReadFile(s.gossipKeys)
	if err != nil {
		return nil, usage("--gossip-keys: %w", err)
	}
	var keys [][]byte
	for i, line := range strings.Fields(string(text)) {
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return nil, usage("--gossip-keys: %w", fmt.Errorf("key %d of %s is not base64", i+1, s.gossipKeys))
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, usage("--gossip-keys: no key in %s", s.gossipKeys)
	}
	return keys, nil
}
