package redisfence

import "context"

// Client is what redisfence asks of a Redis client. It may be used by several goroutines at the same time.
type Client interface {
	// Do sends commands on one connection, in this order, to the server that may write key, and gives a reply for each: a
	// string, an int64, a []any, nil for none, or a *ServerError where the server answered with an error. The error is for all
	// of them: that of ctx or of the connection. It may send them again when no answer came. ctx bounds it.
	Do(ctx context.Context, key string, commands ...[]any) ([]any, error)
}

// ServerError is an answer of the server that is an error, and then nothing has been written.
type ServerError struct {
	Message string // as it came, with its code in front
}

func (e *ServerError) Error() string { return e.Message }
