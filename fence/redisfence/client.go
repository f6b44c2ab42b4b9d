package redisfence

import (
	"context"
	"errors"
)

// Client is what redisfence asks of a Redis client. It may be used by several goroutines at the same time.
type Client interface {
	// Do sends commands on one connection, in this order, to the server that may write key, and gives a reply for each: a
	// string, an int64, a []any, nil for none, or a *ServerError where the server answered with an error. The error is for all
	// of them: that of ctx or of the connection. It matches ErrUnsent if certainly no server got any of them. ctx bounds it.
	//
	// It sends them once. When no answer comes it must not send them again: Fence does, and takes into account that the first
	// copy may have run. It may follow a redirection, which says that the commands have not run.
	Do(ctx context.Context, key string, commands ...[]any) ([]any, error)
}

// ErrUnsent is what a Client's error matches if certainly no server got the commands: no connection could be made.
var ErrUnsent = errors.New("the commands were not sent")

// ServerError is an answer of the server that is an error, and then nothing has been written.
type ServerError struct {
	Message string // as it came, with its code in front
}

func (e *ServerError) Error() string { return e.Message }
