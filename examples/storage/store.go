//go:build unix

package main

import (
	"context"

	"github.com/quorumlock/quorumlock/fence"
)

// section is one of the two places where a store keeps documents. Each name may be in both.
type section string

const (
	fenced   section = "fenced"
	unfenced section = "unfenced" // the control: what is lost here, the fence has prevented there
)

// store keeps named documents. Its Do is the step in which a fenced document is written: put, called with the context of such
// a step, writes in the transaction that also keeps the grant. All methods are safe for concurrent use.
type store interface {
	fence.Checker
	// put keeps a document. In the section fenced it is an error outside a step of Do.
	put(ctx context.Context, in section, name string, content []byte) error
	// get gives a document, and errAbsent if there is none. It must not be called within a step.
	get(ctx context.Context, in section, name string) ([]byte, error)
	close() error
}

type storeError string

func (e storeError) Error() string { return string(e) }

const (
	errAbsent = storeError("no such document")
	errNoStep = storeError("a fenced document is written in a step of the fence only")
)
