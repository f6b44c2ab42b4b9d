package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/quorumlock/quorumlock/transport"
)

// Options is what one instance's gossip needs. Both forms take the same.
type Options struct {
	Endpoint transport.Endpoint
	ServerID string
	// Cluster is the cluster's name. Instances of another name never enter the view.
	Cluster string
	Meta    Meta
	// Started orders the processes of one server id: one that runs on the state of another, or on a copy of it, must have a later one whatever its clock says.
	// Default: now.
	Started time.Time
	// Seeds are host:port, by address or by DNS name. They are resolved again and joined for ever; the own address is ignored,
	// and a seed that can not be resolved or reached is no error.
	Seeds []string
	// Keys encrypt gossip with AES-GCM: 16, 24 or 32 bytes each. The first one encrypts, all of them decrypt. None: no encryption.
	Keys [][]byte
	// Resolve gives the addresses (without port) of a host name. Default: A and AAAA records by net.DefaultResolver.
	Resolve func(ctx context.Context, host string) ([]string, error)
	// Logger gets at most one line per peer in 30 s about failures that repeat. Default: silent.
	Logger hclog.Logger
	// OnChange is told that Members changed. Changes may be coalesced. No lock is held, but it must neither block nor call Close.
	OnChange func()
	// OnConflict is told, once per pair of processes, that two live processes use one server id: a copied data directory. addrA
	// is the one that says it started first; all members are told the same order, and believe in that one only. Both answered just now, so a restart at a new address is never reported. The rules
	// of OnChange hold.
	OnConflict func(serverID, addrA, addrB string)
	// OnForeign is told, each time one shows itself, the id of another cluster of this cluster's name, whose instances are refused. It is called with locks
	// held and must only take note.
	OnForeign func(clusterID string)
}

var errClosed = errors.New("gossip is closed")

// maxServerID is the longest server id; the state machine has the same limit.
const maxServerID = 256

// withDefaults checks opt and fills in what was left out. All problems are told at once.
func (opt Options) withDefaults() (Options, error) {
	var errs []error
	if opt.Endpoint == nil {
		errs = append(errs, errors.New("no Endpoint was given"))
	} else if err := checkAdvertise(opt.Endpoint.Advertise()); err != nil {
		errs = append(errs, err)
	}
	if opt.ServerID == "" || len(opt.ServerID) > maxServerID {
		errs = append(errs, fmt.Errorf("ServerID has %d bytes, want 1 to %d", len(opt.ServerID), maxServerID))
	}
	for i, key := range opt.Keys {
		if n := len(key); n != 16 && n != 24 && n != 32 {
			errs = append(errs, fmt.Errorf("key %d has %d bytes, want 16, 24 or 32", i, n))
		}
	}
	for _, seed := range opt.Seeds {
		if _, _, err := splitHostPort(seed); err != nil {
			errs = append(errs, fmt.Errorf("seed: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return opt, fmt.Errorf("gossip options: %w", err)
	}
	return opt.withOthers(), nil
}

// withOthers fills in what has a default that needs no check.
func (opt Options) withOthers() Options {
	if opt.Resolve == nil {
		opt.Resolve = net.DefaultResolver.LookupHost
	}
	if opt.Logger == nil {
		opt.Logger = hclog.NewNullLogger()
	}
	return opt
}

// self is the record that this process publishes. It is made once per start: its started time tells it from its predecessors.
func (opt Options) self(now time.Time) record {
	if !opt.Started.IsZero() {
		now = opt.Started
	}
	return record{cluster: fingerprint(opt.Cluster), started: now.UnixNano(), addr: opt.Endpoint.Advertise(), meta: opt.Meta}
}

// checkAdvertise refuses what nobody could dial: 0.0.0.0 and :: would make every peer talk to itself.
func checkAdvertise(addr string) error {
	host, _, err := splitHostPort(addr)
	if err != nil {
		return fmt.Errorf("advertised address: %w", err)
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsUnspecified() {
		return fmt.Errorf("advertised address %s is unspecified: nobody could reach it", addr)
	}
	return nil
}

// splitHostPort splits host:port and wants both to be usable.
func splitHostPort(addr string) (host string, port uint16, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 || host == "" {
		return "", 0, fmt.Errorf("address %q is not host:port", addr)
	}
	return host, uint16(n), nil
}
