//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/quorumlock/quorumlock/fence"
)

// boltStore keeps documents, and the grants that it has accepted, in one bbolt file. It shows how a checker is made for a
// store that package fence does not know: a transaction that reads the last grant, asks fence.Judge, keeps the grant, and
// writes.
type boltStore struct {
	db *bbolt.DB
	// turn holds one element while somebody writes. bbolt has a lock of its own for that, but who waits for it cannot be
	// called off.
	turn chan struct{}
}

var _ store = (*boltStore)(nil)

const (
	grantsBucket = "accepted"
	fileBound    = time.Second // for the lock of the file, which another process may have
)

func openBolt(path string) (*boltStore, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: fileBound})
	if err != nil {
		return nil, fmt.Errorf("open documents: %w", err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{grantsBucket, string(fenced), string(unfenced)} {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create documents: %w", err), db.Close())
	}
	return &boltStore{db: db, turn: make(chan struct{}, 1)}, nil
}

func (s *boltStore) close() error { return s.db.Close() }

type boltTxKey struct{}

// boltStep is the transaction of a step, and the store that it is of.
type boltStep struct {
	store *boltStore
	tx    *bbolt.Tx
}

// step is the transaction that ctx carries; nil if there is none of this store.
func (s *boltStore) step(ctx context.Context) *bbolt.Tx {
	if step, ok := ctx.Value(boltTxKey{}).(boltStep); ok && step.store == s {
		return step.tx
	}
	return nil
}

// Do is fence.Checker.Do. An error of write takes the grant back with everything else. ctx bounds the wait for other writers;
// nothing is committed that was not under way when it ended. A commit that fails is fence.ErrUnknownOutcome: bbolt cannot say
// how much of it reached the disk.
func (s *boltStore) Do(ctx context.Context, resource string, write func(ctx context.Context) error) error {
	g, err := fence.FromContext(ctx, resource)
	if err != nil {
		return err
	}
	if err := fence.Judge(resource, fence.Grant{}, g); err != nil {
		return err
	}
	return s.update(ctx, func(tx *bbolt.Tx) error {
		if err := accept(tx, resource, g); err != nil {
			return err
		}
		return write(context.WithValue(ctx, boltTxKey{}, boltStep{s, tx}))
	})
}

// accept judges a grant by the one kept, and keeps it in its place.
func accept(tx *bbolt.Tx, resource string, g fence.Grant) error {
	grants := tx.Bucket([]byte(grantsBucket))
	var last fence.Grant
	if text := grants.Get([]byte(resource)); text != nil {
		if err := json.Unmarshal(text, &last); err != nil {
			return fmt.Errorf("read the grant accepted for %q: %w", resource, err)
		}
	}
	if err := fence.Judge(resource, last, g); err != nil {
		return err
	}
	text, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("keep the grant for %q: %w", resource, err)
	}
	return grants.Put([]byte(resource), text)
}

// update runs change in a transaction, one at a time, and commits it if there is no error and ctx has not ended.
func (s *boltStore) update(ctx context.Context, change func(tx *bbolt.Tx) error) error {
	if s.step(ctx) != nil {
		return &fence.FieldError{Field: "ctx", Problem: "is that of a step already, which this one would wait for"}
	}
	if err := s.take(ctx); err != nil {
		return fmt.Errorf("nothing was written: %w", err)
	}
	defer func() { <-s.turn }()
	tx, err := s.db.Begin(true)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // of what was not committed, even by a panic
	if err := change(tx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("nothing was written: %w", ended(ctx))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w: %w", fence.ErrUnknownOutcome, err)
	}
	return nil
}

func (s *boltStore) take(ctx context.Context) error {
	if ctx.Err() != nil { // select picks at random
		return ended(ctx)
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// ended is the error of ctx, with its cause if there is one.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

func (s *boltStore) put(ctx context.Context, in section, name string, content []byte) error {
	change := func(tx *bbolt.Tx) error { return tx.Bucket([]byte(in)).Put([]byte(name), content) }
	if in == unfenced {
		return s.update(ctx, change)
	}
	if tx := s.step(ctx); tx != nil {
		return change(tx)
	}
	return errNoStep
}

func (s *boltStore) get(_ context.Context, in section, name string) (content []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		kept := tx.Bucket([]byte(in)).Get([]byte(name))
		if kept == nil {
			return errAbsent
		}
		content = bytes.Clone(kept) // it is gone with the transaction
		return nil
	})
	return content, err
}
