// Package settings turns the environment of a process into what its node is opened with, for the service in examples/deploy. The
// tests of its manifests use it, too: what stands in them must be what the service reads.
package settings

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
)

// The variables that are read. All but Cluster, and one of Join, Expect and Dir, have defaults.
const (
	Cluster   = "QUORUMLOCK_CLUSTER"         // Config.Cluster
	Name      = "QUORUMLOCK_NAME"            // Config.Name
	IP        = "QUORUMLOCK_IP"              // at which others reach this instance; default 127.0.0.1, where it listens then
	Port      = "QUORUMLOCK_PORT"            // TCP and UDP; default 7000
	Join      = "QUORUMLOCK_JOIN"            // Config.Join, separated by commas
	Expect    = "QUORUMLOCK_EXPECT"          // Config.Expect
	Dir       = "QUORUMLOCK_DIR"             // Config.Dir; "" keeps everything in memory
	TLSDir    = "QUORUMLOCK_TLS_DIR"         // directory of tls.crt, tls.key and ca.crt
	TLSName   = "QUORUMLOCK_TLS_NAME"        // DNS name in the certificates of all instances
	Plaintext = "QUORUMLOCK_ALLOW_PLAINTEXT" // Config.AllowPlaintext: true or false
	StopBound = "QUORUMLOCK_STOP_BOUND"      // how long the node's end may take, as "15s"; default 15s
	HTTP      = "HTTP_ADDR"                  // host:port of the HTTP service; default 127.0.0.1:8080
)

// Names lists the variables.
func Names() []string {
	return []string{Cluster, Name, IP, Port, Join, Expect, Dir, TLSDir, TLSName, Plaintext, StopBound, HTTP}
}

// RequestBound is how long the service gives its own requests to finish, before StopBound begins.
const RequestBound = 5 * time.Second

// Settings is what one instance is started with.
type Settings struct {
	Node quorumlock.Config
	HTTP string
	// StopBound is how long the end of the node may take.
	StopBound time.Duration
	// Returns says that the instance starts again as itself, in its directory: then the node is closed, else it leaves.
	Returns bool
}

// Read reads the settings by get, which is os.Getenv but for tests, and names all problems at once. Those of the node's
// own Config, Open finds.
func Read(get func(string) string) (Settings, error) {
	r := reader{get: get}
	ip, port := r.text(IP, "127.0.0.1"), strconv.Itoa(r.number(Port, 7000))
	s := Settings{
		HTTP: r.text(HTTP, "127.0.0.1:8080"), StopBound: r.duration(StopBound, 15*time.Second), Returns: get(Dir) != "",
		Node: quorumlock.Config{
			Cluster: get(Cluster), Name: get(Name), Dir: get(Dir), Expect: r.number(Expect, 0),
			Addr: net.JoinHostPort(ip, port), AllowPlaintext: r.truth(Plaintext),
		},
	}
	if !net.ParseIP(ip).IsLoopback() {
		// Every address is listened on, so that the one that others use may be translated on the way.
		s.Node.Addr, s.Node.Advertise = net.JoinHostPort("", port), net.JoinHostPort(ip, port)
	}
	if list := get(Join); list != "" {
		s.Node.Join = strings.Split(list, ",")
	}
	if dir := get(TLSDir); dir != "" {
		s.Node.TLS = r.tls(dir, get(TLSName))
	}
	return s, errors.Join(r.problems...)
}

// reader collects the problems of all variables.
type reader struct {
	get      func(string) string
	problems []error
}

func (r *reader) wrong(name string, err error) {
	r.problems = append(r.problems, fmt.Errorf("%s=%q: %w", name, r.get(name), err))
}

func (r *reader) text(name, other string) string {
	if v := r.get(name); v != "" {
		return v
	}
	return other
}

func (r *reader) number(name string, other int) int {
	v := r.get(name)
	if v == "" {
		return other
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		r.wrong(name, errors.New("is no number"))
	}
	return n
}

func (r *reader) duration(name string, other time.Duration) time.Duration {
	v := r.get(name)
	if v == "" {
		return other
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		r.wrong(name, errors.New("is no positive duration"))
	}
	return d
}

func (r *reader) truth(name string) bool {
	v := r.get(name)
	if v == "" {
		return false
	}
	yes, err := strconv.ParseBool(v)
	if err != nil {
		r.wrong(name, errors.New("is neither true nor false"))
	}
	return yes
}

// tls has every instance show the certificate of the service, and accept only who shows one of the same authority.
func (r *reader) tls(dir, name string) *quorumlock.TLSConfig {
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		r.wrong(TLSDir, err)
		return nil
	}
	pem, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		r.wrong(TLSDir, err)
		return nil
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(pem) {
		r.wrong(TLSDir, errors.New("no certificate in ca.crt"))
		return nil
	}
	if name == "" {
		r.wrong(TLSName, fmt.Errorf("is needed with %s", TLSDir))
	}
	shown := []tls.Certificate{certificate}
	return &quorumlock.TLSConfig{
		Server: &tls.Config{Certificates: shown, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority},
		Client: &tls.Config{Certificates: shown, RootCAs: authority, ServerName: name},
	}
}
