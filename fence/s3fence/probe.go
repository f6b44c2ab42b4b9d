package s3fence

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	probeWriters = 4 // at the same time
	probeRounds  = 3
	// cleanBound bounds the removal of the scratch objects.
	cleanBound = 5 * time.Second
)

// Probe proves that the store honours the conditions of writes: it refuses a second Create, a Replace of another ETag, of a
// former one and of an object that is not there, leaves the object alone when it refuses, and lets one of several writers at
// the same time win. Else the error is an *UnconditionalError; such a store accepts everything from everybody, and no fence can
// stand on it. The last check may miss a store that judges and writes in two steps, since that is a matter of luck.
//
// It makes about 30 requests on scratch objects, with keys that begin with the prefix and "~probe-", which no resource has, and
// removes them if it may; a lifecycle rule can do that too. ctx bounds it.
func (b *Bucket) Probe(ctx context.Context) error {
	if err := checkStore(b.store); err != nil { // of the zero Bucket
		return err
	}
	p := &probe{store: b.store, prefix: b.cfg.Prefix + "~probe-" + rand.Text()}
	defer p.clean(ctx)
	for _, step := range []func(context.Context) error{p.creates, p.replaces, p.races} {
		if err := step(ctx); err != nil {
			var bad *UnconditionalError
			if errors.As(err, &bad) {
				return err
			}
			return fmt.Errorf("probe the store: %w", err)
		}
	}
	return nil
}

type probe struct {
	store  Store
	prefix string
	keys   []string // of the scratch objects
}

// key is that of another scratch object.
func (p *probe) key() string {
	key := fmt.Sprintf("%s-%d", p.prefix, len(p.keys))
	p.keys = append(p.keys, key)
	return key
}

func (p *probe) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanBound)
	defer cancel()
	for _, key := range p.keys {
		_ = p.store.Delete(ctx, key) // who may not delete, as Delete's comment advises, leaves them
	}
}

// creates checks If-None-Match.
func (p *probe) creates(ctx context.Context) error {
	key := p.key()
	if err := p.store.Create(ctx, key, []byte("first")); err != nil {
		return err
	}
	err := p.store.Create(ctx, key, []byte("second"))
	if err := refusal(err, "creates an object that is there (If-None-Match is ignored)"); err != nil {
		return err
	}
	return p.holds(ctx, key, "first")
}

// replaces checks If-Match.
func (p *probe) replaces(ctx context.Context) error {
	key := p.key()
	if err := p.store.Create(ctx, key, []byte("first")); err != nil {
		return err
	}
	_, first, err := p.store.Get(ctx, key, maxEnvelope)
	if err != nil {
		return err
	}
	if err := p.store.Replace(ctx, key, first, []byte("second")); err != nil {
		if errors.Is(err, ErrConflict) {
			return &UnconditionalError{Problem: fmt.Sprintf("refuses the ETag %.80s that it has just given", first)}
		}
		return err
	}
	err = p.store.Replace(ctx, key, first, []byte("third"))
	if err := refusal(err, "replaces an object that has changed (If-Match is ignored)"); err != nil {
		return err
	}
	if err := refusal(p.store.Replace(ctx, p.key(), first, []byte("none")), "replaces an object that is not there"); err != nil {
		return err
	}
	return p.holds(ctx, key, "second")
}

// races checks that judging and writing are one step.
func (p *probe) races(ctx context.Context) error {
	key, etag := p.key(), ""
	for range probeRounds {
		won, err := p.race(ctx, key, etag)
		if err != nil {
			return err
		}
		if won > 1 {
			return &UnconditionalError{Problem: fmt.Sprintf("lets %d writers replace one object at the same time", won)}
		}
		if _, etag, err = p.store.Get(ctx, key, maxEnvelope); err != nil {
			return err
		}
	}
	return nil
}

// race has several writers replace the object of the ETag given, and tells how many did.
func (p *probe) race(ctx context.Context, key, etag string) (won int, err error) {
	var wg sync.WaitGroup
	errs := make([]error, probeWriters)
	for i := range errs {
		body := []byte(rand.Text())
		wg.Go(func() {
			if etag == "" {
				errs[i] = p.store.Create(ctx, key, body)
			} else {
				errs[i] = p.store.Replace(ctx, key, etag, body)
			}
		})
	}
	wg.Wait()
	for _, e := range errs {
		switch {
		case e == nil:
			won++
		case !errors.Is(e, ErrConflict):
			err = errors.Join(err, e)
		}
	}
	return won, err
}

// holds checks that a refused write was not made all the same.
func (p *probe) holds(ctx context.Context, key, want string) error {
	body, _, err := p.store.Get(ctx, key, maxEnvelope)
	if err != nil {
		return err
	}
	if !bytes.Equal(body, []byte(want)) {
		return &UnconditionalError{Problem: "refuses a write and makes it all the same"}
	}
	return nil
}

// refusal is nil if the store refused a write as it must.
func refusal(err error, problem string) error {
	switch {
	case err == nil:
		return &UnconditionalError{Problem: problem}
	case errors.Is(err, ErrConflict):
		return nil
	}
	return err
}
