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
	keys     []any // of the fence and of the commands
	words    []any // of the commands, as the script reads them
	id       string

	doubt error // why nobody knows what became of an attempt before, nil if everybody does
}

// run sends the write until an answer comes. It is this package that repeats, and not the client: after a request that may have run
// without an answer, what the next one is told does not tell what became of the write, unless it is the write's own result.
func (w *write) run(ctx context.Context) ([]any, error) {
	for attempt := 1; ; attempt++ {
		answers, err := w.attempt(ctx)
		if attempt == w.fence.cfg.Attempts || !again(err) {
			return answers, w.known(err)
		}
		var lost *lostError
		if errors.As(err, &lost) && !errors.Is(err, ErrUnsent) {
			w.doubt = err
		}
		if ended := between.Pause(ctx, attempt); ended != nil {
			return nil, w.known(fmt.Errorf("%w: %w", ended, err))
		}
	}
}

// attempt sends the write once.
func (w *write) attempt(ctx context.Context) ([]any, error) {
	replies, err := w.eval(ctx)
	if err != nil {
		return nil, err
	}
	answers, err := w.verdict(replies[0])
	if err != nil || w.fence.cfg.Replicas == 0 {
		return answers, err
	}
	return answers, w.replicated(replies[1])
}

// known gives the error of the whole write from that of its last attempt. What tells of commands that ran is certain; a refusal
// is only if no attempt before it can have been accepted.
func (w *write) known(err error) error {
	var lost *lostError
	var uncertain *UncertainError
	switch {
	case err == nil, errors.Is(err, ErrCommand), errors.Is(err, ErrUnreplicated):
		return err
	case w.doubt == nil && errors.Is(err, ErrUnsent):
		return fmt.Errorf("%s: nothing was written: %w", w.resource, err)
	case w.doubt == nil && !errors.As(err, &lost):
		return err
	}
	if errors.As(err, &uncertain) {
		err = uncertain.Err
	}
	if w.doubt != nil && !errors.Is(err, w.doubt) {
		err = errors.Join(err, w.doubt)
	}
	return &UncertainError{Resource: w.resource, Err: err}
}

// args is what the script is called with.
func (w *write) args() []any {
	args := append([]any{len(w.keys)}, w.keys...)
	args = append(args, w.grant.Cluster, w.grant.Lock, w.grant.Token.String(), w.id,
		flag(!w.fence.cfg.AllowEviction), flag(w.doubt != nil))
	return append(args, w.words...)
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// eval runs the script, by its name or, on a server that does not know it yet, by its text. WAIT goes along on the same
// connection, since it waits for the writes of its own.
func (w *write) eval(ctx context.Context) ([]any, error) {
	args := w.args()
	replies, err := w.send(ctx, append([]any{"EVALSHA", digest}, args...))
	var refused *ServerError
	if errors.As(err, &refused) && strings.HasPrefix(refused.Message, "NOSCRIPT") {
		return w.send(ctx, append([]any{"EVAL", script}, args...))
	}
	return replies, err
}

func (w *write) send(ctx context.Context, command []any) ([]any, error) {
	commands := [][]any{command}
	if n := w.fence.cfg.Replicas; n > 0 {
		commands = append(commands, []any{"WAIT", n, w.fence.cfg.ReplicaTimeout.Milliseconds()})
	}
	replies, err := w.fence.client.Do(ctx, w.fence.key(w.resource), commands...)
	if err != nil {
		return nil, &lostError{err}
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
	case "forgotten":
		return nil, &UncertainError{Resource: w.resource, Err: errForgotten}
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

var errForgotten = errors.New("the fence has forgotten which writes it has seen since")

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

func text(v any) string {
	s, _ := v.(string)
	return s
}
