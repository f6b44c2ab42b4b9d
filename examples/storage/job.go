//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
)

const (
	lockName = "job-x"
	// ledger is the document that the jobs write to: one line for each job. It stands in both sections.
	ledger = "ledger"
)

// jobResult is what became of one job.
type jobResult struct {
	Entry   string      // the line that the job adds to the ledger
	Token   fence.Token // of the grant
	Refused *refusal    `json:",omitempty"` // why the fenced ledger did not take it; nil if it did
	Lost    bool        `json:",omitempty"` // the job ended with ErrLost: the lock was lost before it was given back
}

// refusal is a *fence.StaleTokenError that has come out of a 412.
type refusal struct {
	Token, Highest fence.Token
	Text           string
}

// job reads the ledger, works out what it is to be, and writes it, all under the lock. That the lock is lost is part of the result;
// any other failure is an error. beforeWrite is called between the last look at the lock and the write; its error gives the
// job up.
func (w *worker) job(ctx context.Context, entry string, beforeWrite func(fence.Token) error) (jobResult, error) {
	result := jobResult{Entry: entry}
	var failed error
	err := w.mutex.Do(ctx, func(ctx context.Context, t quorumlock.Token) error {
		result.Token = t
		result.Refused, failed = w.append(ctx, entry, func() error { return beforeWrite(t) })
		return failed
	})
	result.Lost = errors.Is(err, quorumlock.ErrLost)
	if result.Lost && result.Token != 0 {
		return result, failed
	}
	return result, err
}

// append adds a line to both ledgers. This is all there is to fencing for a client: the context that Do gives carries the grant,
// and every request carries it on. The unfenced ledger is treated in the same way, but its part of the service does not look.
func (w *worker) append(ctx context.Context, entry string, beforeWrite func() error) (*refusal, error) {
	// Before it is read: a predecessor's late write is then either in what is read, or refused. Without the claim it could come
	// in between, and be undone by the write below.
	if err := w.documents.claim(ctx, ledger); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	var next [2][]byte
	for i, in := range sections {
		content, err := w.documents.get(ctx, in, ledger)
		if err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
		next[i] = append(content, entry+"\n"...)
	}
	if ctx.Err() != nil { // the last look at the lock
		return nil, context.Cause(ctx)
	}
	// A process can be stopped here, however late it has looked, and a packet can be on its way for any time. What was about to
	// be sent is sent when it goes on: the context keeps the grant and forgets that the hold has ended, so that the write does
	// not depend on which of the two comes first.
	send := context.WithoutCancel(ctx)
	if err := beforeWrite(); err != nil {
		return nil, err
	}
	refused, err := refusalOf(w.documents.put(send, fenced, ledger, next[0]))
	if err != nil {
		return nil, err
	}
	return refused, w.documents.put(send, unfenced, ledger, next[1])
}

// sections are in the order in which they are read and written.
var sections = [2]section{fenced, unfenced}

// refusalOf takes the refusal of a stale token out of an error.
func refusalOf(err error) (*refusal, error) {
	var stale *fence.StaleTokenError
	if errors.As(err, &stale) {
		return &refusal{Token: stale.Token, Highest: stale.Highest, Text: err.Error()}, nil
	}
	return nil, err
}
