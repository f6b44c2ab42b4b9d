// Package goredis is a go-redis client as a redisfence.Client.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/redisfence"
)

// Client is a go-redis client. Timeouts and addresses are that client's configuration; without its ContextTimeoutEnabled it waits
// for an answer as long as its own timeouts say, whatever the context does. Its MaxRetries is not used for fenced writes, see
// redisfence.Config.Attempts.
type Client struct {
	one  redis.Cmdable // sends single commands, and follows redirections where there are any
	node func(ctx context.Context, key string) (*redis.Client, error)
}

var _ redisfence.Client = (*Client)(nil)

// New gives the Client of a server, or of the primary that a failover client follows. With nil each call fails with a
// *fence.FieldError.
func New(client *redis.Client) *Client {
	if client == nil {
		return &Client{}
	}
	return &Client{one: client, node: func(context.Context, string) (*redis.Client, error) { return client, nil }}
}

// NewCluster gives the Client of a Redis Cluster. With Config.Replicas, a write whose slot has moved since the client last
// looked fails with a *redisfence.ServerError (MOVED); nothing was written then, and the next one finds the new place.
// With nil each call fails with a *fence.FieldError.
func NewCluster(client *redis.ClusterClient) *Client {
	if client == nil {
		return &Client{}
	}
	node := func(ctx context.Context, key string) (*redis.Client, error) {
		return client.MasterForKey(ctx, key)
	}
	return &Client{one: client, node: node}
}

// Do is redisfence.Client.Do.
func (c *Client) Do(ctx context.Context, key string, commands ...[]any) ([]any, error) {
	if c.one == nil {
		return nil, fmt.Errorf("%w: %w", redisfence.ErrUnsent, &fence.FieldError{Field: "client", Problem: "must not be nil"})
	}
	sent, err := c.send(ctx, key, commands)
	if err != nil {
		return nil, err
	}
	replies := make([]any, len(sent))
	for i, cmd := range sent {
		if replies[i], err = reply(cmd); err != nil {
			c.reload(ctx)
			return nil, unsent(err)
		}
	}
	c.moved(ctx, replies)
	return replies, nil
}

// send gives each command with its reply. Only several have to go to one connection.
func (c *Client) send(ctx context.Context, key string, commands [][]any) ([]*redis.Cmd, error) {
	if len(commands) == 1 {
		pipe := c.one.Pipeline()
		cmd := queue(ctx, pipe, commands[0])
		_, _ = pipe.Exec(ctx) // its error is the command's
		return []*redis.Cmd{cmd}, nil
	}
	node, err := c.node(ctx, key)
	if err != nil {
		return nil, err
	}
	pipe := node.Pipeline()
	var sent []*redis.Cmd
	for _, args := range commands {
		sent = append(sent, queue(ctx, pipe, args))
	}
	_, _ = pipe.Exec(ctx) // its error is that of the first command that has one
	return sent, nil
}

// once is a command that go-redis does not send again.
type once struct{ *redis.Cmd }

// NoRetry is what go-redis asks before it repeats.
func (once) NoRetry() bool { return true }

func queue(ctx context.Context, pipe redis.Pipeliner, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	_ = pipe.Process(ctx, once{cmd}) // only queues
	return cmd
}

// unsent marks the errors by which no connection was made.
func unsent(err error) error {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) {
		return fmt.Errorf("%w: %w", redisfence.ErrUnsent, err)
	}
	return err
}

// moved looks for a redirection that the client did not follow by itself.
func (c *Client) moved(ctx context.Context, replies []any) {
	for _, r := range replies {
		if refused, is := r.(*redisfence.ServerError); is && strings.HasPrefix(refused.Message, "MOVED") {
			c.reload(ctx)
		}
	}
}

// reload has a cluster's client look where the slots are.
func (c *Client) reload(ctx context.Context) {
	if cluster, ok := c.one.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
}

// reply tells the three things apart that go-redis returns as an error: nothing, an answer of the server, and the lack of one.
func reply(cmd *redis.Cmd) (any, error) {
	value, err := cmd.Result()
	var refused redis.Error
	switch {
	case err == nil:
		return value, nil
	case errors.Is(err, redis.Nil):
		return nil, nil
	case errors.As(err, &refused):
		return &redisfence.ServerError{Message: refused.Error()}, nil
	}
	return nil, err
}
