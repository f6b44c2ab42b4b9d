package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"testing"
	"time"
)

// authority is a certificate authority of one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, key: must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	a.cert = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, a.key, nil)
	return a
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey, parent *x509.Certificate) *x509.Certificate {
	a.t.Helper()
	template.SerialNumber = big.NewInt(1)
	template.Subject = pkix.Name{CommonName: "test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent = template
	}
	der := must[[]byte](a.t)(x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key))
	return must[*x509.Certificate](a.t)(x509.ParseCertificate(der))
}

// mutual gives both sides a certificate of the authority and makes them ask for one.
func (a *authority) mutual() *TLS {
	key := must[*ecdsa.PrivateKey](a.t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	leaf := a.sign(&x509.Certificate{
		DNSNames: []string{"a", "b"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key, a.cert)
	pair := []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &TLS{
		Server: &tls.Config{Certificates: pair, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert},
		Client: &tls.Config{Certificates: pair, RootCAs: pool},
	}
}

func TestMutualTLS(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		settings := newAuthority(t).mutual()
		a, b := n.listen("a", withTLS(settings)), n.listen("b", withTLS(settings))
		for _, kind := range []Kind{KindRaft, KindCall, KindGossip} {
			d, s := n.pair(a, b, kind)
			wantCarries(t, d, s, "there")
			wantCarries(t, s, d, "and back")
			for _, c := range []Conn{d, s} {
				p := c.Peer()
				if p.TLS == nil || p.TLS.Version != tls.VersionTLS13 || len(p.TLS.PeerCertificates) != 1 {
					t.Fatalf("peer %+v", p)
				}
			}
			d.Close()
			if _, err := s.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("after a regular end: %v, want EOF", err)
			}
		}
		if settings.Server.MinVersion != 0 {
			t.Error("the caller's settings were changed")
		}
	})
}

func TestTLSRefusals(t *testing.T) {
	eachLab(t, func(t *testing.T, n *network) {
		ours := newAuthority(t)
		b := n.listen("b", withTLS(ours.mutual()))
		noCert := ours.mutual()
		noCert.Client.Certificates = nil
		oldVersion := ours.mutual()
		oldVersion.Client.MaxVersion = tls.VersionTLS12
		for what, opt := range map[string]option{
			"other authority": withTLS(newAuthority(t).mutual()),
			"no certificate":  withTLS(noCert),
			"old version":     withTLS(oldVersion),
			"plain text":      withTLS(nil),
		} {
			a := n.listen("a", opt)
			c, err := a.Dial(n.ctx(5*time.Second), KindCall, b.Addr(), "b")
			if err == nil {
				t.Errorf("%s: accepted", what)
				c.Close()
			}
			a.Close()
		}
		a := n.listen("a", withTLS(ours.mutual()))
		_, err := a.Dial(n.ctx(5*time.Second), KindCall, b.Addr(), "x")
		wantRefused(t, err, RefusedTarget)
		n.pair(a, b, KindCall)
	})
}

// A name that is not in the certificate must not do, even if the authority is right.
func TestTLSChecksTheDialledHost(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		settings := newAuthority(t).mutual()
		a, stranger := n.listen("a", withTLS(settings)), n.listen("stranger", withTLS(settings))
		if _, err := a.Dial(n.ctx(5*time.Second), KindCall, stranger.Addr(), ""); err == nil {
			t.Error("accepted a certificate for another host")
		}
	})
}

// crypto/tls would give its goodbye five seconds when the peer does not read.
func TestTLSCloseIsBounded(t *testing.T) {
	inMemory(t, func(t *testing.T, n *network) {
		settings := newAuthority(t).mutual()
		a, b := n.listen("a", withTLS(settings)), n.listen("b", withTLS(settings))
		d, _ := n.pair(a, b, KindCall)
		d.SetWriteDeadline(time.Now().Add(time.Second))
		raw := d.(*stream).raw
		raw.SetWriteDeadline(time.Now().Add(time.Second))
		raw.Write(make([]byte, 2*flowBuffer)) // fill the way, below TLS
		start := time.Now()
		d.Close()
		if took := time.Since(start); took > goodbyeTimeout {
			t.Errorf("Close took %v", took)
		}
	})
}
