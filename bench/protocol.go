//go:build unix

package main

import (
	"time"

	"github.com/quorumlock/quorumlock"
)

// The driver and its workers speak JSON lines over a worker's standard input and output: an order has a number, and its answer has the same one. Orders are carried out side by side,
// so that a waiter can wait in a worker that is asked for something else meanwhile.
const (
	verbOpen    = "open"    // connect to the system, or for an embedded one become a part of it; must come first
	verbStatus  = "status"  // embedded: who leads, and how many vote
	verbClients = "clients" // have that many clients, each with a session of its own
	verbCycle   = "cycle"   // all clients lock and unlock until the end of a window
	verbLock    = "lock"    // one client takes a lock and keeps it; answered when it has it
	verbUnlock  = "unlock"  // and gives it back
	verbQueue   = "queue"   // all clients lock and unlock once; answered when the last one has
	verbProfile = "profile" // begin to take profiles, or end it
	verbFollow  = "follow"  // floor: be a follower, answered with its address
	verbFloor   = "floor"   // floor: measure one of the physical limits
)

type order struct {
	ID   int    `json:"id"`
	Verb string `json:"verb"`

	Place   *placing      `json:"place,omitempty"`   // open
	Clients int           `json:"clients,omitempty"` // clients: how many; lock, unlock: the index of one
	TTL     time.Duration `json:"ttl,omitempty"`     // clients
	Name    string        `json:"name,omitempty"`    // of a lock. cycle: a prefix of one for each client if Own is set
	Own     bool          `json:"own,omitempty"`     // cycle, lock: not one lock for all
	Start   instant       `json:"start,omitempty"`   // cycle: when to begin; what ends before Count or after End is not counted
	Count   instant       `json:"count,omitempty"`   // cycle
	End     instant       `json:"end,omitempty"`     // cycle: no client begins anew after it
	Log     bool          `json:"log,omitempty"`     // cycle: tell each grant
	Retry   bool          `json:"retry,omitempty"`   // cycle: after an error try again
	Part    int           `json:"part,omitempty"`    // number of the worker
	File    string        `json:"file,omitempty"`    // profile: where to; "" ends it. follow, floor: what to append to
	Peers   []string      `json:"peers,omitempty"`   // floor: addresses of the followers
	For     time.Duration `json:"for,omitempty"`     // floor
}

// placing is what a worker needs to know to find the system, or its place in it.
type placing struct {
	System  string   `json:"system"`
	Servers []string `json:"servers,omitempty"` // addresses, or one DSN
	Name    string   `json:"name,omitempty"`    // embedded: of this node
	Addr    string   `json:"addr,omitempty"`    // embedded: of this node
	Dir     string   `json:"dir,omitempty"`     // embedded: its data directory, "" for none

	LogStore quorumlock.LogStore `json:"log_store,omitzero"` // quorumlock's own
}

type answer struct {
	ID    int    `json:"id"`
	Error string `json:"error,omitempty"`

	Leads  bool    `json:"leads,omitempty"`  // status
	Voters int     `json:"voters,omitempty"` // status
	At     instant `json:"at,omitempty"`     // lock: when it was granted; unlock: when its release was begun
	Addr   string  `json:"addr,omitempty"`   // follow
	Cycles int     `json:"cycles,omitempty"` // cycle: finished in the window
	Failed int     `json:"failed,omitempty"` // cycle with Retry: attempts that ended in an error
	Waits  []byte  `json:"waits,omitempty"`  // cycle: histogram of the time from the call of Lock to its return. floor: of its operations
	Grants []grant `json:"grants,omitempty"` // cycle with Log, queue
}

// grant is one lock held by one client.
type grant struct {
	Client   int     `json:"c"`           // over all workers
	Asked    instant `json:"a"`           // Lock was called
	Granted  instant `json:"g"`           // it returned
	Released instant `json:"r,omitempty"` // the release was begun
}
