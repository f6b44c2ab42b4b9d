// Package fencetest is the conformance suite of fences: what every checker of package fence, and every one written elsewhere, has to refuse and to accept. It is for tests.
package fencetest

import (
	"context"

	"github.com/quorumlock/quorumlock/fence"
)

// Backend is a store of named values behind a fence. Writes and claims are shown the grant that their context carries, and their errors are those of
// [fence.Checker]. All methods may be called at the same time.
type Backend interface {
	// Write sets a resource's value if the fence accepts the grant, in one atomic step.
	Write(ctx context.Context, resource, value string) error
	// Claim makes the resource refuse lower tokens without changing its value.
	Claim(ctx context.Context, resource string) error
	// Read gives the value, "" if there is none. It asks for no grant.
	Read(ctx context.Context, resource string) (string, error)
	// WriteUnfenced sets a value of the same name that no fence guards, kept apart from the fenced one, and ReadUnfenced gives it: the control that shows what
	// the fence prevents.
	WriteUnfenced(ctx context.Context, resource, value string) error
	ReadUnfenced(ctx context.Context, resource string) (string, error)
}

// with gives a context that shows the grant.
func with(ctx context.Context, g fence.Grant) context.Context { return fence.NewContext(ctx, g) }
