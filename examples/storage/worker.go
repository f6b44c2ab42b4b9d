//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
)

// worker is one of the two that contend for the lock.
type worker struct {
	name      string
	mutex     *quorumlock.Mutex
	documents *documents
	entries   int       // how many jobs it has begun
	begun     *begunJob // nil if none is
}

func newWorker(name string, node *quorumlock.Node, service string) *worker {
	return &worker{name: name, mutex: quorumlock.NewMutex(node, lockName), documents: newDocuments(service)}
}

func (w *worker) close() error {
	if w.begun != nil {
		_, _ = w.begun.end(errGivenUp) // nobody is there to tell
	}
	w.documents.close()
	return nil
}

func (w *worker) obey(ctx context.Context, c command) (r reply, err error) {
	switch c.Verb {
	case verbWork:
		r.Jobs, err = w.work(ctx, c.Jobs)
	case verbBegin:
		r.Token, err = w.begin(ctx)
	case verbFinish:
		r.Jobs, err = w.finish()
	default:
		err = fmt.Errorf("no such command: %q", c.Verb)
	}
	return r, err
}

// work does jobs in a row. The lock is given back after each, so that the other one has its turn.
func (w *worker) work(ctx context.Context, jobs int) (results []jobResult, err error) {
	for range jobs {
		result, err := w.job(ctx, w.nextEntry(), func(fence.Token) error { return nil })
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

func (w *worker) nextEntry() string {
	w.entries++
	return fmt.Sprintf("%s job %d", w.name, w.entries)
}

// begunJob is a job that has done everything but its write.
type begunJob struct {
	decide chan error    // takes one: nil lets it write, an error gives it up
	done   chan struct{} // closed when it has ended
	result jobResult     // valid then
	err    error
}

func (b *begunJob) end(decision error) (jobResult, error) {
	b.decide <- decision
	<-b.done
	return b.result, b.err
}

var (
	errGivenUp  = errors.New("the worker ends")
	errBegun    = errors.New("a job has been begun already")
	errNotBegun = errors.New("no job has been begun")
)

func (w *worker) begin(ctx context.Context) (fence.Token, error) {
	if w.begun != nil {
		return 0, errBegun
	}
	b := &begunJob{decide: make(chan error, 1), done: make(chan struct{})}
	reached := make(chan fence.Token, 1)
	entry := w.nextEntry()
	go func() {
		defer close(b.done)
		b.result, b.err = w.job(ctx, entry, func(t fence.Token) error {
			reached <- t
			return <-b.decide
		})
	}()
	select {
	case t := <-reached:
		w.begun = b
		return t, nil
	case <-b.done:
		return 0, errors.Join(errors.New("the job ended before its write"), b.err)
	}
}

func (w *worker) finish() ([]jobResult, error) {
	if w.begun == nil {
		return nil, errNotBegun
	}
	result, err := w.begun.end(nil)
	w.begun = nil
	return []jobResult{result}, err
}
