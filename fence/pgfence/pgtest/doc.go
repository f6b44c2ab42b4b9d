// Package pgtest tests package pgfence against real PostgreSQL servers, by way of pgx and of lib/pq. It is a module of its
// own, so that importing quorumlock decides no version of a driver.
package pgtest
