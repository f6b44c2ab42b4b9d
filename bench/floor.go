//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// The physical limits: what no replicated lock on this machine can pass, measured by the same processes in the same run.
const (
	floorDisk       = "disk"       // one append of a page, and fdatasync
	floorLoopback   = "loopback"   // a small message there and back
	floorReplicated = "replicated" // a leader and two followers append and sync a page each; an operation ends with the second of the three
)

const (
	pageBytes    = 4 << 10
	messageBytes = 64
	floorWarm    = 20 // operations that are not counted
)

func floor(ctx context.Context, o order) (answer, error) {
	op, end, err := floorOperation(ctx, o)
	if err != nil {
		return answer{}, err
	}
	waits := newHistogram()
	err = func() error {
		for range floorWarm {
			if err := op(); err != nil {
				return err
			}
		}
		for stop := now().add(o.For); now() < stop && ctx.Err() == nil; {
			began := now()
			if err := op(); err != nil {
				return err
			}
			waits.record(now().sub(began))
		}
		return context.Cause(ctx)
	}()
	if err = errors.Join(err, end()); err != nil {
		return answer{}, fmt.Errorf("%s: %w", o.Name, err)
	}
	encoded, err := waits.encode()
	return answer{Cycles: int(waits.count()), Waits: encoded}, err
}

func floorOperation(ctx context.Context, o order) (op, end func() error, err error) {
	switch o.Name {
	case floorDisk:
		f, err := os.Create(o.File)
		if err != nil {
			return nil, nil, err
		}
		page := bytes.Repeat([]byte{1}, pageBytes)
		return func() error { return appendPage(f, page) }, f.Close, nil
	case floorLoopback:
		c, err := new(net.Dialer).DialContext(ctx, "tcp", o.Peers[0])
		if err != nil {
			return nil, nil, err
		}
		message := make([]byte, messageBytes)
		return func() error { return thereAndBack(c, message) }, c.Close, nil
	case floorReplicated:
		return replicatedFloor(ctx, o)
	}
	return nil, nil, fmt.Errorf("no such limit: %q", o.Name)
}

func appendPage(f *os.File, page []byte) error {
	if _, err := f.Write(page); err != nil {
		return err
	}
	return syncData(f)
}

func thereAndBack(c net.Conn, message []byte) error {
	if _, err := c.Write(message); err != nil {
		return err
	}
	_, err := io.ReadFull(c, message)
	return err
}

// replicatedFloor has one goroutine for each of the three, which take one page after the other. Who lags behind does not hold up an operation that the others have done.
func replicatedFloor(ctx context.Context, o order) (op, end func() error, err error) {
	f, err := os.Create(o.File)
	if err != nil {
		return nil, nil, err
	}
	page := bytes.Repeat([]byte{1}, pageBytes)
	parts := []func() error{func() error { return appendPage(f, page) }}
	closers := []io.Closer{f}
	for _, peer := range o.Peers {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", peer)
		if err != nil {
			return nil, nil, err
		}
		closers = append(closers, c)
		done := make([]byte, 1)
		parts = append(parts, func() error {
			if _, err := c.Write(page); err != nil {
				return err
			}
			_, err := io.ReadFull(c, done)
			return err
		})
	}
	const ahead = 1 << 10
	type did struct {
		op  int
		err error
	}
	dids := make(chan did, ahead)
	var begins []chan int
	over := make(chan struct{}, len(parts))
	for _, part := range parts {
		begin := make(chan int, ahead)
		begins = append(begins, begin)
		go func() {
			for n := range begin {
				dids <- did{n, part()}
			}
			over <- struct{}{}
		}()
	}
	n := 0
	op = func() error {
		n++
		for _, b := range begins {
			b <- n
		}
		for have := 0; have < len(parts)/2+1; {
			d := <-dids
			if d.err != nil {
				return d.err
			}
			if d.op == n {
				have++
			}
		}
		return nil
	}
	end = func() (err error) {
		for _, b := range begins {
			close(b)
		}
		for left := len(parts); left > 0; {
			select {
			case <-dids: // of one that lagged
			case <-over:
				left--
			}
		}
		for _, c := range closers {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	return op, end, nil
}

// follow serves loopback and replicated from one port: each connection sends pages to be kept if a file is named, else messages to be sent back.
func (w *worker) follow(o order) (answer, error) {
	l, err := net.Listen("tcp", demokit.Loopback)
	if err != nil {
		return answer{}, err
	}
	w.mu.Lock()
	w.follows = append(w.follows, l)
	w.mu.Unlock()
	go func() {
		for i := 0; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			if o.File == "" {
				go echo(c)
			} else {
				go keep(c, fmt.Sprint(o.File, "-", i))
			}
		}
	}()
	return answer{Addr: l.Addr().String()}, nil
}

// echo ends with its connection, as keep does; the leader sees an error.
func echo(c net.Conn) {
	defer c.Close()
	message := make([]byte, messageBytes)
	for {
		if _, err := io.ReadFull(c, message); err != nil {
			return
		}
		if _, err := c.Write(message); err != nil {
			return
		}
	}
}

func keep(c net.Conn, file string) {
	defer c.Close()
	f, err := os.Create(filepath.Clean(file))
	if err != nil {
		return
	}
	defer f.Close()
	page := make([]byte, pageBytes)
	for {
		if _, err := io.ReadFull(c, page); err != nil {
			return
		}
		if appendPage(f, page) != nil {
			return
		}
		if _, err := c.Write(page[:1]); err != nil {
			return
		}
	}
}

// floorTime is how long a limit is measured.
func floorTime(window time.Duration) time.Duration { return window / 2 }
