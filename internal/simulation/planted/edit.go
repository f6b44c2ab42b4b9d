package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// edit replaces one piece of a file's text. The old text has to be there exactly once: an edit that fits nowhere, or in two places, was made
// for another source than this one, and what it would prove about the tests is anybody's guess.
type edit struct {
	file     string // from the root of the tree, with slashes
	old, new string
}

var (
	errNotThere = errors.New("the edit no longer applies: its old text is not in the file")
	errTwice    = errors.New("the edit no longer applies: its old text is in the file more than once")
	errNothing  = errors.New("the edit changes nothing")
)

// apply gives the text with the edit made.
func (e edit) apply(text string) (string, error) {
	if e.old == e.new || e.old == "" {
		return "", errNothing
	}
	switch strings.Count(text, e.old) {
	case 0:
		return "", errNotThere
	case 1:
		return strings.Replace(text, e.old, e.new, 1), nil
	}
	return "", errTwice
}

// plant makes the edit in the tree at root and gives back what takes it out again.
func (e edit) plant(root string) (restore func() error, err error) {
	target := filepath.Join(root, filepath.FromSlash(e.file))
	before, err := os.ReadFile(target)
	if err != nil {
		return nil, fmt.Errorf("the edit no longer applies: %w", err)
	}
	after, err := e.apply(string(before))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.file, err)
	}
	if err := os.WriteFile(target, []byte(after), 0o644); err != nil {
		return nil, err
	}
	return func() error { return os.WriteFile(target, before, 0o644) }, nil
}

// folder is where the edited package lies.
func (e edit) folder() string { return path.Dir(e.file) }
