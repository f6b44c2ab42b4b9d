package transport

import (
	"net"
	"testing"
)

func (a *admission) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total
}

type namedConn struct {
	net.Conn
	name string
}

func TestAdmissionShedsTheOldestOfTheBusiestSource(t *testing.T) {
	a := newAdmission()
	first, _ := a.admit("busy", namedConn{name: "busy0"})
	for range maxPendingPerSource - 1 {
		if _, shed := a.admit("busy", namedConn{name: "busy"}); shed != nil {
			t.Fatal("shed below the limit")
		}
	}
	quiet, _ := a.admit("quiet", namedConn{name: "quiet"})
	if _, shed := a.admit("busy", namedConn{name: "new"}); shed == nil || shed.(namedConn).name != "busy0" {
		t.Errorf("over the limit of a source: shed %v, want its oldest", shed)
	}
	a.leave(first) // shed already: must not count twice
	for a.count() < maxPending {
		a.admit("s"+name(a.count()/8), namedConn{name: "other"})
	}
	if _, shed := a.admit("quiet", namedConn{name: "quiet2"}); shed == nil || shed.(namedConn).name != "busy" {
		t.Errorf("over the limit in all: shed %v, want one of the busiest source", shed)
	}
	if got := a.count(); got != maxPending {
		t.Errorf("%d pending, want %d", got, maxPending)
	}
	a.leave(quiet)
	if got := a.count(); got != maxPending-1 {
		t.Errorf("%d pending after one left", got)
	}
}
