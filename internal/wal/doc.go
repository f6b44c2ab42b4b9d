// Package wal keeps a log of numbered entries in segment files and makes a batch of them durable with one write and one sync.
//
// It knows bytes and indexes only; what an entry means is its user's business. The layout, and why a damaged log is told from one
// whose last write was cut, is in docs/design/wal.md.
package wal
