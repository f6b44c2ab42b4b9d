package pgfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
)

// What needs a server is tested in pgtest.

func TestOptions(t *testing.T) {
	for name, want := range map[string]string{
		"fence":                              `"fence"`,
		"billing.fence":                      `"billing"."fence"`,
		"Büro.Tür 1$":                        `"Büro"."Tür 1$"`,
		strings.Repeat("x", maxTable):        `"` + strings.Repeat("x", maxTable) + `"`,
		"":                                   "",
		".fence":                             "",
		"billing.":                           "",
		"a.b.c":                              "",
		`a"b`:                                "",
		"a'b":                                "",
		`a\b`:                                "",
		"a\x00b":                             "",
		"a\xff":                              "",
		strings.Repeat("x", maxTable+1):      "",
		strings.Repeat("x", 64) + ".fence":   "",
		"billing\n.fence":                    "",
		`billing".fence`:                     "",
		"billing." + strings.Repeat("x", 59): "",
	} {
		c, err := configure([]Option{Table(name)})
		var field *fence.FieldError
		switch {
		case want == "" && !errors.As(err, &field):
			t.Errorf("%q: %v", name, err)
		case want != "" && (err != nil || c.name() != want):
			t.Errorf("%q: %s, %v", name, c.name(), err)
		}
	}
	for level := sql.LevelDefault; level <= sql.LevelLinearizable; level++ {
		good := slices.Contains([]sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}, level)
		if _, err := configure([]Option{Isolation(level)}); (err == nil) != good {
			t.Errorf("%v: %v", level, err)
		}
	}
	_, err := configure([]Option{Table(""), Isolation(99)})
	if !strings.Contains(err.Error(), "Table") || !strings.Contains(err.Error(), "Isolation") {
		t.Errorf("two problems: %v", err)
	}
	if c, err := configure(nil); err != nil || c.name() != `"quorumlock_fence"` || c.function() != `"quorumlock_fence_keep"` {
		t.Errorf("by default: %s, %s, %v", c.name(), c.function(), err)
	}
}

func TestLiteral(t *testing.T) {
	for s, want := range map[string]string{
		"job-x/7 $1 %s ?": "'job-x/7 $1 %s ?'",
		"it's":            "convert_from(decode('69742773', 'hex'), 'UTF8')",
		`back\slash`:      "convert_from(decode('6261636b5c736c617368', 'hex'), 'UTF8')",
		"ü":               "convert_from(decode('c3bc', 'hex'), 'UTF8')",
	} {
		if got := literal(s); got != want {
			t.Errorf("%q is %s, want %s", s, got, want)
		}
	}
}

// FuzzLiteral: between the quotes of a literal there is nothing that could end it, or be read otherwise than as it stands.
func FuzzLiteral(f *testing.F) {
	f.Add("job-x")
	f.Add(`'; DROP TABLE account; -- \' ü`)
	f.Fuzz(func(t *testing.T, s string) {
		text := literal(s)
		inner := strings.TrimSuffix(strings.TrimPrefix(text, "'"), "'")
		if text != "'"+inner+"'" {
			inner = strings.TrimSuffix(strings.TrimPrefix(text, "convert_from(decode('"), "', 'hex'), 'UTF8')")
			if strings.Trim(inner, "0123456789abcdef") != "" {
				t.Errorf("%q is %s", s, text)
			}
			return
		}
		for _, r := range inner {
			if r < ' ' || r > '~' && r != 0x7f || r == '\'' || r == '\\' {
				t.Errorf("%q is %s", s, text)
			}
		}
	})
}

type stateError string

func (e stateError) Error() string    { return string(e) }
func (e stateError) SQLState() string { return string(e) }

// An answer to COMMIT proves that it failed only if it is the server's, and about the transaction.
func TestOutcome(t *testing.T) {
	for _, state := range []string{"40001", "40P01", "23505", "23503", "25P02", "P0001", "42501", "22012"} {
		if !rolledBack(fmt.Errorf("commit: %w", stateError(state))) {
			t.Errorf("%s is taken for unknown", state)
		}
	}
	for _, err := range []error{
		stateError("40003"), stateError("57014"), stateError("57P01"), stateError("08006"),
		stateError("58030"), stateError("53200"), stateError("XX000"),
		stateError(""), errors.New("unexpected EOF"), context.Canceled,
	} {
		if rolledBack(err) {
			t.Errorf("%v is taken for a proof", err)
		}
	}
	unknown := &UnknownOutcomeError{Err: stateError("40001")}
	for _, err := range []error{unknown, fmt.Errorf("within: %w", unknown), stateError("40003"), errors.New("40001")} {
		if transient(err) {
			t.Errorf("%v is retried", err)
		}
	}
	for _, err := range []error{stateError("40001"), fmt.Errorf("x: %w", stateError("40P01"))} {
		if !transient(err) {
			t.Errorf("%v is not retried", err)
		}
	}
}

func TestWithContext(t *testing.T) {
	failure, lost := errors.New("failure"), errors.New("lost")
	ctx, cancel := context.WithCancelCause(context.Background())
	if err := withContext(ctx, failure); err != failure {
		t.Errorf("alive: %v", err)
	}
	cancel(lost)
	for _, err := range []error{failure, fmt.Errorf("%w: %w", context.Canceled, failure), ctx.Err(), lost} {
		err = withContext(ctx, err)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, lost) {
			t.Errorf("ended: %v", err)
		}
	}
}
