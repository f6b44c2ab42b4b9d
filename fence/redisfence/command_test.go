package redisfence

import (
	"strconv"
	"testing"
	"time"
)

// Each key is named once, and a write of as many as are allowed does not keep its caller from its context's end: a hundred thousand
// of them, compared each with each, would take minutes.
func TestEncodeManyKeys(t *testing.T) {
	const each = maxArgs - 1
	commands := make([]Command, 100)
	for i := range commands {
		var args []any
		for j := range each {
			args = append(args, Key("a key of some length, as they are: "+strconv.Itoa(i/2*each+j))) // each in two commands
		}
		commands[i] = Cmd("DEL", args...)
	}
	began := time.Now()
	words, keys, err := encode(commands, DefaultPrefix)
	if err != nil || len(keys) != each*len(commands)/2 || len(words) != 1+len(commands)*(each+2) {
		t.Errorf("%d keys, %d words, %v", len(keys), len(words), err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
