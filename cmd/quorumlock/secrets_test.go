//go:build unix

package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// certificates writes a CA, and a certificate of it for loopback with its key.
func certificates(t *testing.T, dir string) (ca, cert, key string) {
	t.Helper()
	made := func(serial int64, isCA bool, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}
		if parent == nil {
			parent, signer = template, private
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &private.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c, private
	}
	root, rootKey := made(1, true, nil, nil)
	leaf, leafKey := made(2, false, root, rootKey)
	der, err := x509.MarshalECPrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, dir, "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw})),
		file(t, dir, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw})),
		file(t, dir, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func file(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTLS has an agent ask for certificates: who has one is served, who has none, or another CA's, is told that it is about TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, cert, key := certificates(t, dir)
	otherCA, _, _ := certificates(t, t.TempDir())
	keys := file(t, dir, "keys", []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n"))
	addrs, err := demokit.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	launcher := demokit.NewLauncher()
	defer launcher.Close()
	reach := []string{"--cluster", "secret", "--join", addrs[0]}
	agent := program(t, append(reach, "agent", "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key, "--gossip-keys", keys, "--addr", addrs[0], "--expect", "1", "--voters", "1")...)
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(agent); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agent.Process.Kill(); _ = agent.Wait() }()
	lines := bufio.NewScanner(out)
	for ready := false; !ready && lines.Scan(); {
		ready = strings.HasPrefix(lines.Text(), "ready")
	}
	ask := func(code int, flags ...string) answer {
		t.Helper()
		return call(t, append(append(reach, flags...), "status")...).want(t, code)
	}
	ask(codeOK, "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key)
	for name, flags := range map[string][]string{
		"no TLS": nil, "no certificate": {"--tls-ca", ca}, "another CA": {"--tls-ca", otherCA, "--tls-cert", cert, "--tls-key", key},
	} {
		if a := ask(codeUnreachable, flags...); !strings.Contains(a.errs, addrs[0]) {
			t.Errorf("%s: %s", name, a.errs)
		}
	}
	ask(codeUsage, "--tls-ca", keys)
	ask(codeUsage, "--tls-ca", ca, "--tls-cert", cert)
	ask(codeUsage, "--tls-ca", filepath.Join(dir, "missing"))
	for name, text := range map[string]string{"empty": "", "not base64": "***\n", "a bad length": base64.StdEncoding.EncodeToString(make([]byte, 7))} {
		bad := file(t, dir, "bad", []byte(text))
		if a := call(t, append(reach, "agent", "--addr", "127.0.0.1:0", "--expect", "1", "--gossip-keys", bad)...); a.code != codeUsage {
			t.Errorf("%s: exit code %d: %s", name, a.code, a.errs)
		}
	}
}
