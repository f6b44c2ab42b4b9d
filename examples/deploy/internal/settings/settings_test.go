package settings

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func readMap(env map[string]string) (Settings, error) {
	return Read(func(name string) string { return env[name] })
}

func TestAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		env             map[string]string
		addr, advertise string
	}{
		"nothing said": {nil, "127.0.0.1:7000", ""},
		"a pod":        {map[string]string{IP: "10.1.2.3"}, ":7000", "10.1.2.3:7000"},
		"IPv6":         {map[string]string{IP: "fd00::1", Port: "7100"}, ":7100", "[fd00::1]:7100"},
		"loopback":     {map[string]string{IP: "::1", Port: "0"}, "[::1]:0", ""},
	} {
		s, err := readMap(c.env)
		if err != nil || s.Node.Addr != c.addr || s.Node.Advertise != c.advertise {
			t.Errorf("%s: listens on %q, advertises %q, %v", name, s.Node.Addr, s.Node.Advertise, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	s, err := readMap(map[string]string{
		Cluster: "orders", Name: "orders-1", Join: "a:1,b:2", Expect: "3", Dir: "/data", Plaintext: "true", StopBound: "20s", HTTP: ":80",
	})
	if err != nil {
		t.Fatal(err)
	}
	n := s.Node
	if n.Cluster != "orders" || n.Name != "orders-1" || !slices.Equal(n.Join, []string{"a:1", "b:2"}) || n.Expect != 3 || n.Dir != "/data" || !n.AllowPlaintext {
		t.Errorf("%+v", n)
	}
	if s.StopBound != 20*time.Second || s.HTTP != ":80" || !s.Returns {
		t.Errorf("%+v", s)
	}
	if s, _ := readMap(nil); s.Returns || s.StopBound <= 0 {
		t.Errorf("without a directory: %+v", s)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	bad := map[string]string{Port: "x", Expect: "three", Plaintext: "perhaps", StopBound: "-1s", TLSDir: filepath.Join(t.TempDir(), "none")}
	_, err := readMap(bad)
	if err == nil {
		t.Fatal("no error")
	}
	for name, value := range bad {
		if !strings.Contains(err.Error(), name+"=") || !strings.Contains(err.Error(), value) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
}

func TestCertificates(t *testing.T) {
	dir := certificates(t)
	s, err := readMap(map[string]string{TLSDir: dir, TLSName: "orders-lock"})
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Node.TLS; c.Client.ServerName != "orders-lock" || c.Server.ClientAuth != tls.RequireAndVerifyClientCert || len(c.Server.Certificates) != 1 {
		t.Errorf("%+v", c)
	}
	if _, err := readMap(map[string]string{TLSDir: dir}); err == nil || !strings.Contains(err.Error(), TLSName) {
		t.Errorf("without a name: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readMap(map[string]string{TLSDir: dir, TLSName: "orders-lock"}); err == nil || !strings.Contains(err.Error(), "ca.crt") {
		t.Errorf("without an authority: %v", err)
	}
}

// certificates makes a directory with a certificate that is its own authority.
func certificates(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "orders"}, DNSNames: []string{"orders-lock"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	shown := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	for name, content := range map[string][]byte{
		"tls.crt": shown, "ca.crt": shown, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
