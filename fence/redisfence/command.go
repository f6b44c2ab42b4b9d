package redisfence

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/fence"
)

// Key is an argument of a command that names a key. On a Redis Cluster all keys of one Do must be in the slot of the resource:
// give them its Tag.
type Key string

// Command is one command of a write.
type Command struct {
	name string
	args []any
}

// Cmd gives the command of this name with arguments that are a Key, a string, a []byte, an int, an int64, a uint64, a float64
// or a fence.Token. Each key must be a Key, and there must be one: what concerns no key (FLUSHALL, for one) is no write of a
// resource.
func Cmd(name string, args ...any) Command { return Command{name: name, args: args} }

const (
	// maxCommands and maxArgs keep a script short, since nothing else runs on the server meanwhile, and below what Lua's stack
	// holds.
	maxCommands = 1000
	maxArgs     = 1000
)

// encode gives the commands in the form that the script reads, and the keys they name, each once.
func encode(commands []Command, prefix string) (words, keys []any, err error) {
	if len(commands) > maxCommands {
		return nil, nil, &fence.FieldError{Field: "commands", Problem: fmt.Sprintf("are %d, %d are allowed", len(commands), maxCommands)}
	}
	words = []any{len(commands)}
	seen := make(map[string]bool)
	for i, c := range commands {
		command, named, err := c.encode(prefix)
		if err != nil {
			return nil, nil, &fence.FieldError{Field: fmt.Sprintf("commands[%d]", i), Value: c.name, Problem: err.Error()}
		}
		words = append(append(words, len(command)), command...)
		for _, key := range named {
			if !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	return words, keys, nil
}

func (c Command) encode(prefix string) (words []any, keys []string, err error) {
	if c.name == "" || strings.ContainsAny(c.name, " \r\n") {
		return nil, nil, fmt.Errorf("is not the name of a command")
	}
	if len(c.args) >= maxArgs {
		return nil, nil, fmt.Errorf("has %d arguments, fewer than %d are allowed", len(c.args), maxArgs)
	}
	words = []any{c.name}
	for _, arg := range c.args {
		word, err := encodeArg(arg)
		if err != nil {
			return nil, nil, err
		}
		words = append(words, word)
		if key, ok := arg.(Key); ok {
			if strings.HasPrefix(string(key), prefix) {
				return nil, nil, fmt.Errorf("names the key %.80q of a fence", key)
			}
			keys = append(keys, string(key))
		}
	}
	if len(keys) == 0 {
		return nil, nil, fmt.Errorf("names no Key")
	}
	return words, keys, nil
}

func encodeArg(arg any) (any, error) {
	switch v := arg.(type) {
	case Key:
		return string(v), nil
	case string, []byte:
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case uint64:
		return strconv.FormatUint(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case fence.Token:
		return v.String(), nil
	}
	return nil, fmt.Errorf("has an argument of type %T", arg)
}
