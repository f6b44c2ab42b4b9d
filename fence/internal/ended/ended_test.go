package ended_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/quorumlock/quorumlock/fence/internal/ended"
)

// uncomparable is an error of a type that has no equality: comparing two of them panics.
type uncomparable struct{ more any }

func (uncomparable) Error() string { return "uncomparable" }

func TestErr(t *testing.T) {
	cause := errors.New("hold lost")
	for name, test := range map[string]struct {
		cause error
		found func(error) bool
		text  string
	}{
		"no cause":     {nil, func(error) bool { return true }, "context canceled"},
		"cause":        {cause, func(err error) bool { return errors.Is(err, cause) }, "context canceled: hold lost"},
		"uncomparable": {uncomparable{[]int{1}}, func(err error) bool { return errors.As(err, new(uncomparable)) }, "context canceled: uncomparable"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := ended.Err(ctx); err != nil {
			t.Errorf("%s: before the end: %v", name, err)
		}
		cancel(test.cause)
		err := ended.Err(ctx)
		if !errors.Is(err, context.Canceled) || err.Error() != test.text {
			t.Errorf("%s: %v", name, err)
		}
		if !test.found(err) {
			t.Errorf("%s: the cause is not found in %#v", name, err)
		}
	}
}

func TestJoinTellsEachOnce(t *testing.T) {
	lost := errors.New("hold lost")
	wrapped := fmt.Errorf("call: %w", lost)
	err := ended.Join(errors.New("unknown"), wrapped, nil, lost)
	if err.Error() != "unknown: call: hold lost" || !errors.Is(err, lost) || !errors.Is(err, wrapped) {
		t.Error(err)
	}
	if err := ended.Join(nil, nil); err != nil {
		t.Error(err)
	}
}
