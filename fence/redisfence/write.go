package redisfence

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/fence"
)

//go:embed fence.lua
var script string

// digest is the name that Redis gives to the script.
var digest = func() string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}()

// write is one call of Do.
type write struct {
	fence    *Fence
	resource string
	grant    fence.Grant
	commands []Command
}

func (w *write) run(ctx context.Context, keys []string, commands []any) ([]any, error) {
	key := w.fence.key(w.resource)
	args := []any{len(keys) + 1, key}
	for _, k := range keys {
		args = append(args, k)
	}
	strict := "1"
	if w.fence.cfg.AllowEviction {
		strict = "0"
	}
	args = append(args, w.grant.Cluster, w.grant.Lock, w.grant.Token.String(), newID(), strict)
	args = append(args, commands...)
	replies, err := w.eval(ctx, key, args)
	if err != nil {
		return nil, err
	}
	answers, err := w.verdict(replies[0])
	if err != nil || w.fence.cfg.Replicas == 0 {
		return answers, err
	}
	return answers, w.replicated(replies[1])
}

// eval runs the script, by its name or, on a server that does not know it yet, by its text. WAIT goes along on the same
// connection, since it waits for the writes of its own.
func (w *write) eval(ctx context.Context, key string, args []any) ([]any, error) {
	replies, err := w.send(ctx, key, append([]any{"EVALSHA", digest}, args...))
	var refused *ServerError
	if errors.As(err, &refused) && strings.HasPrefix(refused.Message, "NOSCRIPT") {
		return w.send(ctx, key, append([]any{"EVAL", script}, args...))
	}
	return replies, err
}

func (w *write) send(ctx context.Context, key string, command []any) ([]any, error) {
	commands := [][]any{command}
	if n := w.fence.cfg.Replicas; n > 0 {
		commands = append(commands, []any{"WAIT", n, w.fence.cfg.ReplicaTimeout.Milliseconds()})
	}
	replies, err := w.fence.client.Do(ctx, key, commands...)
	if err != nil {
		return nil, &UncertainError{Resource: w.resource, Err: err}
	}
	if len(replies) != len(commands) {
		return nil, &UncertainError{Resource: w.resource, Err: fmt.Errorf("%d replies to %d commands", len(replies), len(commands))}
	}
	if refused, ok := replies[0].(*ServerError); ok {
		return nil, fmt.Errorf("%s: %w", w.resource, refused)
	}
	return replies, nil
}

// verdict reads what the script returns: a word and what belongs to it.
func (w *write) verdict(reply any) ([]any, error) {
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return nil, &UncertainError{Resource: w.resource, Err: fmt.Errorf("the script answered %.80v", reply)}
	}
	detail := func(i int) string {
		if i < len(parts) {
			return text(parts[i])
		}
		return ""
	}
	switch text(parts[0]) {
	case "ok":
		if answers, ok := parts[len(parts)-1].([]any); ok && len(answers) == len(w.commands) {
			return answers, nil
		}
	case "repeated":
		return nil, nil
	case "stale":
		if highest, err := fence.ParseToken(detail(1)); err == nil {
			return nil, &fence.StaleTokenError{Resource: w.resource, Token: w.grant.Token, Highest: highest}
		}
	case "wrong":
		return nil, &fence.WrongLockError{Resource: w.resource, Lock: w.grant.Lock, Guard: detail(1)}
	case "damaged":
		return nil, &DamagedError{Resource: w.resource, Key: w.fence.key(w.resource), Problem: detail(1)}
	case "evicts":
		return nil, &EvictionError{Resource: w.resource, Policy: detail(1)}
	case "failed":
		if n, ok := parts[min(1, len(parts)-1)].(int64); ok && n >= 1 && n <= int64(len(w.commands)) {
			return nil, &CommandError{Resource: w.resource, Index: int(n) - 1, Name: w.commands[n-1].name, Message: detail(2)}
		}
	}
	return nil, &UncertainError{Resource: w.resource, Err: fmt.Errorf("the script answered %.80v", reply)}
}

// replicated reads the reply of WAIT.
func (w *write) replicated(reply any) error {
	got, ok := reply.(int64)
	if refused, is := reply.(*ServerError); is {
		return &UncertainError{Resource: w.resource, Err: refused}
	}
	if !ok || int(got) < w.fence.cfg.Replicas {
		return &ReplicationError{Resource: w.resource, Wanted: w.fence.cfg.Replicas, Got: int(got), After: w.fence.cfg.ReplicaTimeout}
	}
	return nil
}

// list reads the first reply as a list of n.
func list(replies []any, n int) ([]any, error) {
	if len(replies) != 1 {
		return nil, fmt.Errorf("%d replies to one command", len(replies))
	}
	if refused, ok := replies[0].(*ServerError); ok {
		return nil, refused
	}
	fields, _ := replies[0].([]any)
	if len(fields) != n {
		return nil, fmt.Errorf("%d fields instead of %d", len(fields), n)
	}
	return fields, nil
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
