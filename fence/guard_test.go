package fence_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/fencetest"
)

// inMemory are values in memory behind a Guard.
type inMemory struct {
	guard fence.Guard

	mu               sync.Mutex
	fenced, unfenced map[string]string
}

func newInMemory() *inMemory {
	return &inMemory{fenced: make(map[string]string), unfenced: make(map[string]string)}
}

func (m *inMemory) Write(ctx context.Context, resource, value string) error {
	return m.guard.Do(ctx, resource, func(context.Context) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.fenced[resource] = value
		return nil
	})
}

func (m *inMemory) Claim(ctx context.Context, resource string) error {
	return fence.Claim(ctx, &m.guard, resource)
}

func (m *inMemory) Read(_ context.Context, resource string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fenced[resource], nil
}

func (m *inMemory) WriteUnfenced(_ context.Context, resource, value string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unfenced[resource] = value
	return nil
}

func (m *inMemory) ReadUnfenced(_ context.Context, resource string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unfenced[resource], nil
}

func TestGuardConforms(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Backend { return newInMemory() })
}

func TestGuardRefusesStaleHolders(t *testing.T) {
	fencetest.Stale(t, newInMemory(), fencetest.Successions(t))
}

// What is missing is told before anything is judged, and takes no place in the Guard.
func TestGuardNeedsAWrite(t *testing.T) {
	ctx := fence.NewContext(t.Context(), fence.Grant{Cluster: "c", Lock: "l", Token: 42})
	var g fence.Guard
	if err := g.Do(ctx, "r", nil); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("no write: %v", err)
	}
	if last := g.Last("r"); last != (fence.Grant{}) {
		t.Errorf("accepted: %v", last)
	}
	if err := fence.Claim(ctx, nil, "r"); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("no checker: %v", err)
	}
}
