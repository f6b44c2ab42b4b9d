package snaptest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/snapshots"
)

// Memory is a store in memory. It works in fake time, and has faults to order, each of which lasts until it is ordered
// otherwise. The zero value is ready.
type Memory struct {
	mu      sync.Mutex
	objects map[string]object
	made    int // objects ever

	fail    error
	hang    chan struct{} // non-nil while calls hang; closed to let them go
	cut     int64         // bytes after which a Create fails; with err
	cutErr  error
	slow    time.Duration // each write of a Create
	drop    bool          // what Create acknowledges is cut in half
	refused int
	writing int
}

type object struct {
	content  []byte
	modified time.Time
}

var _ snapshots.Store = (*Memory)(nil)

// Fail makes every call fail with err; nil ends it.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// Hang makes calls wait until Hang(false), or their contexts end.
func (m *Memory) Hang(hang bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case hang && m.hang == nil:
		m.hang = make(chan struct{})
	case !hang && m.hang != nil:
		close(m.hang)
		m.hang = nil
	}
}

// Cut makes each Create fail with err once it has got that many bytes; a nil err ends it.
func (m *Memory) Cut(after int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut, m.cutErr = after, err
}

// Slow makes each write of a Create take d.
func (m *Memory) Slow(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slow = d
}

// Drop makes the store one that lies: it acknowledges objects of which it keeps the first half.
func (m *Memory) Drop(drop bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop = drop
}

// Made is how many objects have been created so far.
func (m *Memory) Made() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made
}

// Refused is how many calls have failed because of a fault, or have hung.
func (m *Memory) Refused() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused
}

func (m *Memory) note(change int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writing += change
}

// Writing is how many objects are being written now.
func (m *Memory) Writing() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writing
}

// Put puts an object there, whatever was under its name, as if it had been made that long ago.
func (m *Memory) Put(name string, content []byte, age time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(name, content, time.Now().Add(-age))
}

func (m *Memory) put(name string, content []byte, at time.Time) {
	if m.objects == nil {
		m.objects = make(map[string]object)
	}
	m.objects[name] = object{content, at}
	m.made++
}

// begin is what all calls have in common.
func (m *Memory) begin(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := snapshots.CheckName(name); err != nil {
		return err
	}
	m.mu.Lock()
	hang, fail := m.hang, m.fail
	if hang != nil || fail != nil {
		m.refused++
	}
	m.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fail
}

// Create is snapshots.Store.Create.
func (m *Memory) Create(ctx context.Context, name string, write func(w io.Writer) error) error {
	if err := m.begin(ctx, name); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	w := &writer{ctx: ctx, store: m}
	m.note(1)
	err := write(w)
	m.note(-1)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, exists := m.objects[name]; exists {
		return fmt.Errorf("create %s: %w", name, snapshots.ErrExists)
	}
	content := w.content.Bytes()
	if m.drop {
		content = content[:len(content)/2]
		m.refused++
	}
	m.put(name, content, time.Now())
	return nil
}

type writer struct {
	ctx     context.Context
	store   *Memory
	content bytes.Buffer
}

func (w *writer) Write(p []byte) (int, error) {
	s := w.store
	s.mu.Lock()
	slow, hang, fail := s.slow, s.hang, s.fail
	if fail == nil && s.cutErr != nil && int64(w.content.Len()+len(p)) > s.cut {
		fail = s.cutErr
	}
	if hang != nil || fail != nil {
		s.refused++
	}
	s.mu.Unlock()
	if slow > 0 {
		timer := time.NewTimer(slow)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.ctx.Done():
		}
	}
	if hang != nil {
		select {
		case <-hang:
		case <-w.ctx.Done():
		}
	}
	if err := cmp.Or(w.ctx.Err(), fail); err != nil {
		return 0, err
	}
	return w.content.Write(p)
}

// Open is snapshots.Store.Open.
func (m *Memory) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := m.begin(ctx, name); err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[name]
	if !ok {
		return nil, fmt.Errorf("open %s: %w", name, snapshots.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(o.content)), nil
}

// List is snapshots.Store.List.
func (m *Memory) List(ctx context.Context, prefix string) ([]snapshots.Object, error) {
	if err := m.begin(ctx, "any"); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []snapshots.Object
	for name, o := range m.objects {
		if strings.HasPrefix(name, prefix) {
			found = append(found, snapshots.Object{Name: name, Size: int64(len(o.content)), Modified: o.modified})
		}
	}
	slices.SortFunc(found, func(a, b snapshots.Object) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// Remove is snapshots.Store.Remove.
func (m *Memory) Remove(ctx context.Context, name string) error {
	if err := m.begin(ctx, name); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
	return nil
}
