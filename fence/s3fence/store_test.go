package s3fence

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
)

// scripted is a store in memory whose answers a test can take away, hold back and fake. Its ETags are hashes of the content, as
// on most stores. Tests of servers are in conformance.
type scripted struct {
	mu      sync.Mutex
	objects map[string][]byte
	late    []func() // requests still under way, each to be applied or not by its condition
	puts    int

	// put decides what happens to the n-th write, counted from 1; nil means that it happens.
	put func(n int) fault
	// overtake runs before a write that is overtaken, without the lock.
	overtake func()
	// beforeGet runs before each read, without the lock.
	beforeGet func()
}

type fault int

const (
	none       fault = iota
	dropped          // the request does not arrive
	unanswered       // it takes effect, the answer does not arrive
	delayed          // it arrives later, when deliver is called
	repeated         // it takes effect without an answer, and the client sends it again
	busy             // 409, though nothing has changed
	late             // it arrives when deliver is called; the client sends it again, which is answered by 409
	overtaken        // overtake runs before it arrives
)

var errWire = errors.New("connection reset")

func tag(body []byte) string {
	sum := md5.Sum(body)
	return hex.EncodeToString(sum[:])
}

func (s *scripted) Get(ctx context.Context, key string, limit int64) ([]byte, string, error) {
	if s.beforeGet != nil {
		s.beforeGet()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	body, ok := s.objects[key]
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case !ok:
		return nil, "", ErrNotFound
	case int64(len(body)) > limit:
		return nil, "", ErrTooLarge
	}
	return slices.Clone(body), tag(body), nil
}

func (s *scripted) Create(ctx context.Context, key string, body []byte) error {
	return s.send(ctx, func() bool { return s.store(key, "", body) })
}

func (s *scripted) Replace(ctx context.Context, key, etag string, body []byte) error {
	return s.send(ctx, func() bool { return s.store(key, etag, body) })
}

func (s *scripted) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	return nil
}

func (s *scripted) store(key, etag string, body []byte) bool {
	now, ok := s.objects[key]
	if ok != (etag != "") || ok && tag(now) != etag {
		return false
	}
	if s.objects == nil {
		s.objects = make(map[string][]byte)
	}
	s.objects[key] = slices.Clone(body)
	return true
}

func (s *scripted) send(ctx context.Context, apply func() bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.puts++
	what := none
	if s.put != nil {
		what = s.put(s.puts)
	}
	switch what {
	case dropped:
		return errWire
	case unanswered:
		apply()
		return errWire
	case delayed:
		s.late = append(s.late, func() { apply() })
		return errWire
	case repeated:
		apply()
		if !apply() {
			return errors.Join(ErrConflict, ErrRepeated)
		}
	case busy:
		return ErrConflict
	case late:
		s.late = append(s.late, func() { apply() })
		return errors.Join(ErrConflict, ErrRepeated)
	case overtaken:
		s.mu.Unlock()
		s.overtake()
		s.mu.Lock()
		if !apply() {
			return ErrConflict
		}
	default:
		if !apply() {
			return ErrConflict
		}
	}
	return nil
}

// afterFirstPut runs do once, before the first read that follows the first write.
func (s *scripted) afterFirstPut(do func()) {
	s.beforeGet = func() {
		if s.puts == 1 {
			s.beforeGet = nil
			do()
		}
	}
}

// deliver lets the delayed requests arrive.
func (s *scripted) deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, apply := range s.late {
		apply()
	}
	s.late = nil
}
