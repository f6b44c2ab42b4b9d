package pgtest

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
)

func TestBadArguments(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		ctx := w.holder(41)
		for name, err := range map[string]error{
			"no database": pgfence.Tx(ctx, nil, "a", set(1)),
			"no function": pgfence.Tx(ctx, w.DB, "a", nil),
			"level":       pgfence.Tx(ctx, w.DB, "a", set(1), pgfence.Isolation(sql.LevelLinearizable)),
			"table":       pgfence.Tx(ctx, w.DB, "a", set(1), pgfence.Table(`x"; DROP TABLE account; --`)),
			"migrate":     pgfence.Migrate(ctx, w.DB, pgfence.Table("")),
			"nowhere":     pgfence.Migrate(ctx, nil),

			"claim of nothing":            pgfence.Claim(ctx, nil, "a"),
			"claim of nothing by nobody":  pgfence.Claim(w.ctx, nil, "a"),
			"no option":                   pgfence.Tx(ctx, w.DB, "a", set(1), nil),
			"no option for a migration":   pgfence.Migrate(ctx, w.DB, pgfence.Table("t"), nil),
			"no option for a store":       second(pgfence.New(w.DB, nil)),
			"no option for the schema":    second(pgfence.Schema(nil)),
			"no option for a transaction": claimWith(t, w, nil),
		} {
			var field *fence.FieldError
			if !errors.As(err, &field) {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.has(t, 100)
	})
}

func second[T any](_ T, err error) error { return err }

func claimWith(t *testing.T, w *world, opt pgfence.Option) error {
	t.Helper()
	tx, err := w.BeginTx(w.ctx, nil)
	must(t, err)
	defer tx.Rollback()
	return pgfence.Claim(w.holder(41), tx, "a", opt)
}
