package quorumlock

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock/internal/gossip"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/transport"
)

// Config describes one node. Open copies it, fills in defaults, and reports every problem at once, before anything is
// written: as *FieldError values joined by errors.Join.
type Config struct {
	// Cluster is the name of the cluster. It is part of every handshake: nodes of other names are refused. Required, 1
	// to 128 bytes.
	Cluster string
	// Name is shown to people (who holds a lock, logs), and tells a restarted instance from a stranger: two live
	// instances of one name are refused. Keep it the same over restarts. Default: the host name and the port,
	// "web-1:7000"; with port 0 the host name and a random part.
	Name string
	// Dir is the data directory: raft log, snapshots and the node's identity. It is created if it is missing and locked
	// against a second process. "" keeps everything in memory: the node then comes back as a new member, and the loss
	// of all nodes at once loses the locks (never the order of tokens). Nobody can tell then whether there was a
	// cluster before, so each founding without a directory is logged as a warning.
	Dir string
	// LogStore is how raft's log is kept in a Dir that is made now. Default LogStoreDefault.
	LogStore LogStore
	// Addr is the host:port to listen on, TCP and UDP. Port 0 takes a free one. Default "127.0.0.1:0"; with RoleClient
	// there is none, and the node is a caller that listens on nothing.
	Addr string
	// Advertise is the host:port at which other nodes reach this one: an address, IPv6 in brackets, or a DNS name of at
	// most 253 bytes. Default: Addr, which then must not be an unspecified address. A loopback address is for nodes on
	// one machine; it is refused together with an address on another machine in Join, and nodes elsewhere do not see
	// who advertises one.
	Advertise string
	// Join lists addresses (host:port, or DNS name:port) of any members. Names are resolved again for ever, so a
	// headless service name is enough. The node's own address among them does no harm. A node without Join waits to be
	// found by nodes that list it.
	Join []string
	// Expect founds a cluster where none is: it is the full number of instances of the deployment, 1 for a node alone.
	// It must exceed half of the most instances that ever run under this name before a cluster exists. 0 never founds,
	// only joins. At most 65536. Excludes Founders.
	//
	// Two are allowed, at a price: nothing acknowledged is lost with one of them, but each is needed, so the absence of
	// either one, by its death, a deploy that closes it or a partition, stops the cluster until it is back. Only one
	// that leaves (Node.Leave) lets the other go on. Three survive the loss of one.
	//
	// Founding is the one thing that needs wall clocks: the founders' must agree within an hour, and tokens rise over
	// the loss of all state only if the new founders' clocks are later than the last token of the lost cluster. While a
	// cluster exists no wall clock matters.
	Expect int
	// Founders founds a cluster where none is: the Names of the founding instances, the same list everywhere. Excludes
	// Expect.
	Founders []string
	// ClusterID pins the cluster: the node joins only this one and never founds.
	ClusterID string
	// RestartInPlace lets a node that starts again in its data directory end the sessions of its former process at
	// once, so that its locks are free in milliseconds rather than after the TTL. It is done only where it is proven
	// that the former process is over: the same lock file in the same boot of the machine, on a local file system of a
	// kind whose locks can be relied on. Otherwise the TTL is waited for, and a log line says why. What the former
	// process had sent before it ended may still be under way; only a fencing token excludes it (or a Delay makes it
	// unlikely). It needs Dir, and to have been set for the former process too. Default false.
	RestartInPlace bool
	// Timing sets how fast a dead leader is replaced. Default TimingDefault.
	Timing Timing
	// AllowPlaintext permits addresses beyond loopback without TLS.
	AllowPlaintext bool
	// Voters is the wanted number of voting members: 1, 3 or 5. Two more instances stand by: they replicate without a
	// vote, to take the place of a voter that is gone. All others are clients; see Role. Default 3, which is
	// right for two instances as well: then both vote, the absence of either one stops the cluster until it is back, and
	// the loss of one disk loses nothing.
	Voters int
	// Role is what the instance may become. Default RoleAuto.
	Role Role
	// Zone is the failure domain of the instance, such as a data center's availability zone. Voters and standbys are
	// spread over zones as evenly as the instances allow, and moved when an instance of a zone that has too few joins.
	// At most 64 bytes. Default "": one zone.
	Zone string
	// SessionTTL is how long the cluster keeps the node's holds without hearing of it. Between MinSessionTTL and
	// MaxSessionTTL, whole milliseconds: Open judges it before it has met a cluster whose timings it could measure, so
	// a shorter one is for Node.NewSession only. Default 10 s. A holder stops trusting its hold after 0.8 of it.
	SessionTTL time.Duration
	// TLS secures every stream. Nil is plain text, and then only loopback addresses are served unless AllowPlaintext is
	// set.
	TLS *TLSConfig
	// GossipKeys encrypt gossip packets: keys of 16, 24 or 32 bytes. The first one encrypts, all decrypt.
	GossipKeys [][]byte
	// Snapshots is where the leader keeps copies of the state, from which a cluster that was lost with all its disks is
	// restored (see Restore): the same place everywhere, such as package snapshots/dirsnap on a shared directory, or
	// snapshots/s3snap. Default nil: none are made. What is in them is in plain text unless SnapshotKeys is set.
	Snapshots SnapshotStore
	// SnapshotEvery is how often the leader does: at most once in that time, whoever leads, and not if nothing has
	// changed since. From 1 s to 30 days. Default 1 hour. Node.SnapshotStatus tells how it goes.
	SnapshotEvery time.Duration
	// SnapshotKeep is how many snapshots of this cluster are kept, of those in the store the newest; -1 keeps all.
	// SnapshotKeepFor keeps those that are younger, however many. What neither keeps is removed after a newer one was
	// written and read back; those of other cluster ids, also of this name, never are. Default: 48, or with
	// SnapshotKeepFor set the newest one.
	SnapshotKeep    int
	SnapshotKeepFor time.Duration
	// SnapshotKeys encrypt snapshots (AES-256-GCM): keys of 32 random bytes. The first one encrypts, all decrypt. Keep
	// them where the loss of the cluster does not reach: without the key there is nothing to restore.
	SnapshotKeys [][]byte
	// Logger takes what the node has to say. Default: silence. SlogLogger adapts a *slog.Logger.
	Logger hclog.Logger
	// Transport carries everything. Default TCP; tests pass an in-memory one.
	Transport transport.Transport

	sim *sim.Env
}

// TLSConfig holds the settings of both sides of a stream. They are cloned; TLS 1.3 is the least version. With
// ClientAuth = tls.RequireAndVerifyClientCert in Server, only holders of a certificate can connect.
type TLSConfig struct {
	Server *tls.Config
	Client *tls.Config
}

// Timing is a set of raft timings that fit each other: Lease <= Heartbeat <= Election, all of them set, or none for
// TimingDefault. The shortest that Config accepts is 150, 150 and 75 ms, since below it a busy machine elects without a
// reason; it is for machines with processor time to spare and round trips of a few ms. The longest is 10 s each. All
// nodes of a cluster are given the same.
//
// With the time that a change of leader takes it bounds how short a session may be: see [Node.NewSession].
type Timing struct {
	Heartbeat time.Duration // a follower that heard nothing for one to two of it starts an election
	Election  time.Duration // a candidate waits one to two of it
	Lease     time.Duration // a leader that did not reach a quorum for it steps down
}

var (
	// TimingDefault replaces a dead leader in about 1 s.
	TimingDefault = Timing{Heartbeat: 500 * time.Millisecond, Election: 500 * time.Millisecond, Lease: 250 * time.Millisecond}
	// TimingFast replaces a dead leader in about 0.65 s; for networks with round trips below 10 ms.
	TimingFast = Timing{Heartbeat: 300 * time.Millisecond, Election: 300 * time.Millisecond, Lease: 150 * time.Millisecond}
)

const (
	// MinSessionTTL is the shortest session TTL that is accepted without measuring: a change of leader fits in with the
	// timings of any usual network.
	MinSessionTTL = 5 * time.Second
	// ShortestSessionTTL is the shortest one that NewSession accepts where the measured timings allow it. Below it the
	// machine's scheduler and garbage collector, and not the network, would decide how long a session lives.
	ShortestSessionTTL = 500 * time.Millisecond
	// MaxSessionTTL is the longest one. A cluster replicates it at its founding.
	MaxSessionTTL = 60 * time.Second

	maxClusterName = 128
	maxNodeName    = 128
	maxZone        = 64
	maxHost        = 253                    // of a DNS name
	minTiming      = 150 * time.Millisecond // below it, elections start without a reason on a busy machine
	minTimingLease = 75 * time.Millisecond
	maxTiming      = 10 * time.Second
)

// withDefaults is a deep copy with every default filled in.
func (c Config) withDefaults() Config {
	c.Join = slices.Clone(c.Join)
	c.Founders = slices.Clone(c.Founders)
	c.GossipKeys = slices.Clone(c.GossipKeys)
	for i, k := range c.GossipKeys {
		c.GossipKeys[i] = slices.Clone(k)
	}
	c.snapshotDefaults()
	if c.Addr == "" && c.Role != RoleClient {
		c.Addr = "127.0.0.1:0"
	}
	if c.Name == "" {
		c.Name = defaultName(c.Addr)
	}
	if c.Timing == (Timing{}) {
		c.Timing = TimingDefault
	}
	if c.Voters == 0 {
		c.Voters = 3
	}
	if c.SessionTTL == 0 {
		c.SessionTTL = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Transport == nil {
		c.Transport = transport.TCP()
	}
	if c.sim == nil {
		c.sim = &sim.Env{}
	}
	return c
}

func defaultName(addr string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	host = host[:min(len(host), maxNodeName/2)]
	if _, port, err := net.SplitHostPort(addr); err == nil && port != "" && port != "0" {
		return host + ":" + port
	}
	return host + "-" + newID()[:8]
}

// problems collects every *FieldError.
type problems []error

func (p *problems) add(field string, value any, problem string, args ...any) {
	*p = append(*p, &FieldError{Field: "Config." + field, Value: value, Problem: fmt.Sprintf(problem, args...)})
}

// validate checks fields and the relations between them, all at once. It expects defaults to be filled in.
func (c *Config) validate() error {
	var p problems
	c.validateNames(&p)
	c.validateAddresses(&p)
	if !c.caller() {
		c.validateRecord(&p)
	}
	c.validateFounding(&p)
	c.validateTimes(&p)
	c.validateSnapshots(&p)
	if c.RestartInPlace && c.Dir == "" && c.sim.Disk == nil {
		p.add("RestartInPlace", nil, "needs Dir: without one nothing is known of a former process")
	}
	for i, k := range c.GossipKeys {
		if n := len(k); n != 16 && n != 24 && n != 32 {
			p.add("GossipKeys", nil, "key %d has %d bytes; 16, 24 or 32 are needed", i, n)
		}
	}
	switch {
	case c.TLS == nil:
	case c.caller():
		if c.TLS.Client == nil {
			p.add("TLS", nil, "Client is needed")
		}
	case c.TLS.Server == nil || c.TLS.Client == nil:
		p.add("TLS", nil, "both Server and Client are needed: every node is both")
	case len(c.TLS.Server.Certificates) == 0 && c.TLS.Server.GetCertificate == nil && c.TLS.Server.GetConfigForClient == nil:
		p.add("TLS", nil, "Server has no certificate")
	}
	return errors.Join(p...)
}

func (c *Config) validateNames(p *problems) {
	label := func(field, value string, most int) {
		switch {
		case value == "":
			p.add(field, nil, "must not be empty")
		case len(value) > most:
			p.add(field, value, "has %d bytes; %d is the most", len(value), most)
		case !utf8.ValidString(value):
			p.add(field, value, "is not valid UTF-8")
		case containsControl(value):
			p.add(field, value, "contains a control character")
		}
	}
	label("Cluster", c.Cluster, maxClusterName)
	label("Name", c.Name, maxNodeName)
	if c.Zone != "" {
		label("Zone", c.Zone, maxZone)
	}
	seen := make(map[string]bool)
	for _, f := range c.Founders {
		label("Founders", f, maxNodeName)
		if seen[f] {
			p.add("Founders", f, "is listed twice")
		}
		seen[f] = true
	}
}

func containsControl(s string) bool {
	for _, r := range s {
		if unicode.IsControl(r) {
			return true
		}
	}
	return false
}

func (c *Config) validateAddresses(p *problems) {
	if c.caller() {
		c.validateCaller(p)
		return
	}
	checkHostPort(p, "Addr", c.Addr, true)
	if c.Advertise != "" {
		checkHostPort(p, "Advertise", c.Advertise, false)
	} else if unspecified(c.Addr) {
		p.add("Advertise", nil, "is needed: Addr %q names no address that others could dial", c.Addr)
	}
	for _, j := range c.Join {
		checkHostPort(p, "Join", j, false)
	}
	c.validateReach(p)
}

// validateReach finds an address to be advertised that means another machine to those it is told. Names in Join may stand for
// this machine or for another one, which shows only when they are resolved.
func (c *Config) validateReach(p *problems) {
	field, own := "Advertise", c.Advertise
	if own == "" {
		field, own = "Addr", c.Addr
	}
	if !gossip.IsLoopback(own) {
		return
	}
	for _, j := range c.Join {
		if gossip.IsElsewhere(j) {
			p.add(field, own, "is a loopback address, which %s of Join, on another machine, could not reach: "+
				"name one that it can, by Addr or Advertise", j)
			return
		}
	}
}

// validateRecord makes sure that what the node has to tell by gossip fits into one message, now and later.
func (c *Config) validateRecord(p *problems) {
	addr := c.Advertise
	if addr == "" {
		addr = c.Addr + "65535" // with the port that is taken
	}
	var large *gossip.MetaTooLargeError
	if !errors.As(gossip.CheckSize(addr, c.gossipMeta()), &large) {
		return
	}
	field, value := "Name", c.Name
	if len(addr) > len(c.Name) {
		field, value = "Advertise", c.Advertise
	}
	if len(*p) == 0 { // else what is too long has been named
		p.add(field, value, "is too long beside the others: they travel together in a message of %d bytes, which has room "+
			"for %d", large.Size, large.Limit)
	}
}

// gossipMeta is what is configured of the node's gossip metadata.
func (c *Config) gossipMeta() gossip.Meta { return gossip.Meta{Name: c.Name, Zone: c.Zone} }

// unspecified tells that addr means every address of the machine.
func unspecified(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "" || (ip != nil && ip.IsUnspecified())
}

// checkHostPort judges the form only; whether an address can be bound or advertised is the transport's to say.
func checkHostPort(p *problems, field, addr string, listen bool) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		p.add(field, addr, "is not host:port")
		return
	}
	if len(host) > maxHost {
		p.add(field, addr, "has a host of %d bytes; %d is the most", len(host), maxHost)
	}
	if host == "" && !listen {
		p.add(field, addr, "has no host")
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 0 || n > 65535 || (n == 0 && !listen) {
		p.add(field, addr, "has no usable port number")
	}
}

func (c *Config) validateFounding(p *problems) {
	if c.Voters != 1 && c.Voters != 3 && c.Voters != 5 {
		p.add("Voters", c.Voters, "must be 1, 3 or 5")
	}
	c.validateRole(p)
	c.validateLogStore(p)
	if c.Expect < 0 {
		p.add("Expect", c.Expect, "must not be negative")
	}
	if c.Expect > gossip.MaxExpect {
		p.add("Expect", c.Expect, "is above %d", gossip.MaxExpect)
	}
	if c.Expect > 0 && len(c.Founders) > 0 {
		p.add("Expect", c.Expect, "excludes Founders")
	}
	if n := len(c.Founders); n > 0 {
		if n > c.Voters {
			p.add("Founders", nil, "%d founders are more than %d Voters", n, c.Voters)
		}
		if !slices.Contains(c.Founders, c.Name) && len(c.Join) == 0 {
			p.add("Join", nil, "is needed: Name %q is not among the Founders, so this node can only join", c.Name)
		}
	}
	if c.ClusterID != "" && (c.Expect > 0 || len(c.Founders) > 0) {
		p.add("ClusterID", c.ClusterID, "a pinned cluster is never founded: leave Expect and Founders out")
	}
	if c.Expect == 0 && len(c.Founders) == 0 && len(c.Join) == 0 && c.Dir == "" && c.sim.Disk == nil {
		p.add("Join", nil, "is needed, or Expect or Founders: the node would wait for ever")
	}
}

func (c *Config) validateTimes(p *problems) {
	switch {
	case c.SessionTTL < MinSessionTTL:
		p.add("SessionTTL", c.SessionTTL, "is below %v: a change of leader could outlast it. "+
			"Node.NewSession opens shorter sessions where the timings measured allow it", MinSessionTTL)
	case c.SessionTTL > MaxSessionTTL:
		p.add("SessionTTL", c.SessionTTL, "is above %v", MaxSessionTTL)
	case c.SessionTTL%time.Millisecond != 0:
		p.add("SessionTTL", c.SessionTTL, "must be whole milliseconds")
	}
	t := c.Timing
	switch {
	case t.Heartbeat == 0 || t.Election == 0 || t.Lease == 0:
		p.add("Timing", t, "Heartbeat, Election and Lease are set together or not at all")
	case t.Heartbeat < minTiming || t.Election < minTiming || t.Lease < minTimingLease:
		p.add("Timing", t, "is below %v, %v, %v: a busy machine would elect without a reason", minTiming, minTiming, minTimingLease)
	case t.Heartbeat > maxTiming || t.Election > maxTiming:
		p.add("Timing", t, "is above %v", maxTiming)
	case t.Lease > t.Heartbeat || t.Heartbeat > t.Election:
		p.add("Timing", t, "must keep Lease <= Heartbeat <= Election")
	}
}
