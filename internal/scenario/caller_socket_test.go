package scenario_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
)

// mutualTLS has one certificate for all of 127.0.0.1, which proves both sides to each other.
func mutualTLS(t *testing.T) *quorumlock.TLSConfig {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	pair := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}
	return &quorumlock.TLSConfig{
		Server: &tls.Config{Certificates: pair, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert},
		Client: &tls.Config{Certificates: pair, RootCAs: pool},
	}
}

// Over real sockets, with mutual TLS and gossip keys as the members have them: a caller locks, the leader goes, and it locks on. Without the certificate it is not let in.
func TestCallerOverTLS(t *testing.T) {
	t.Parallel()
	secrets, keys := mutualTLS(t), [][]byte{make([]byte, 32)}
	addrs := []string{freeAddr(t), freeAddr(t), freeAddr(t)}
	nodes := make([]*quorumlock.Node, len(addrs))
	var all sync.WaitGroup
	for i, addr := range addrs {
		all.Go(func() {
			n, err := quorumlock.Open(context.Background(), quorumlock.Config{
				Cluster: "sealed", Name: addr, Addr: addr, Join: addrs, Expect: 3, TLS: secrets, GossipKeys: keys,
			})
			if err != nil {
				t.Error(err)
				return
			}
			nodes[i] = n
			readyIn(t, n, 30*time.Second)
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	defer closeAll(t, nodes)
	open := func(s *quorumlock.TLSConfig) *quorumlock.Node {
		n, err := quorumlock.Open(context.Background(), quorumlock.Config{
			Cluster: "sealed", Name: "tool", Role: quorumlock.RoleClient, Join: addrs, TLS: s, GossipKeys: keys,
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	tool := open(&quorumlock.TLSConfig{Client: secrets.Client})
	defer tool.Close()
	first := lockIn(t, tool, "k", 10*time.Second)
	lead := leaderOf(t, nodes)
	if err := nodes[lead].Close(); err != nil {
		t.Error(err)
	}
	if first.Err() != nil {
		t.Error(first.Err())
	}
	unlock(t, first)
	follows(t, first, lockIn(t, tool, "k", 10*time.Second))

	stranger := open(&quorumlock.TLSConfig{Client: &tls.Config{RootCAs: secrets.Client.RootCAs}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := stranger.Ready(ctx); err == nil {
		t.Error("let in without a certificate")
	}
	if err := stranger.Close(); err != nil {
		t.Error(err)
	}
}
