package pgtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
)

// In a database of another encoding than UTF-8 names are kept and told as they are, though not every driver has the server
// translate. A name that the encoding cannot hold is an error of the claim, and no grant.
func TestEncodings(t *testing.T) {
	for encoding, names := range map[string][]string{
		"SQL_ASCII": {"plain", "é", "日本"},
		"LATIN1":    {"plain", "é"},
		"EUC_JP":    {"plain", "日本"},
	} {
		eachDriver(t, func(t *testing.T, w *world) {
			database := fmt.Sprintf("encoded_%s_%s", w.driver, strings.ToLower(encoding))
			admin := open(t, "pgx", shared.DSN("postgres"))
			exec(t, admin, "CREATE DATABASE "+database+" ENCODING '"+encoding+"' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
			w = fill(t, w.driver, shared.DSN(database))
			for _, name := range names {
				claim := func(lock string, token fence.Token) error {
					ctx := fence.NewContext(w.ctx, fence.Grant{Cluster: name, Lock: lock, Token: token})
					return pgfence.Tx(ctx, w.DB, name, nothing)
				}
				must(t, claim(name, 5))
				must(t, claim(name, 5))
				var stale *fence.StaleTokenError
				if err := claim(name, 4); !errors.As(err, &stale) || stale.Highest != 5 || stale.Resource != name {
					t.Errorf("%s: %q: stale: %v", encoding, name, err)
				}
				var wrong *fence.WrongLockError
				if err := claim("other", 6); !errors.As(err, &wrong) || wrong.Guard != name {
					t.Errorf("%s: %q: another lock: %v", encoding, name, err)
				}
			}
			if encoding == "SQL_ASCII" {
				return
			}
			ctx := fence.NewContext(w.ctx, fence.Grant{Cluster: "c", Lock: "\u2603", Token: 9})
			if err := pgfence.Tx(ctx, w.DB, "snow", nothing); stateOf(err) != "22P05" {
				t.Errorf("%s: a name that it cannot hold: %v", encoding, err)
			}
		})
	}
}
