// Package lock is a tree in which to plant bugs, small enough to see which test finds what.
package lock

import "os"

// Next is the token after the last one.
func Next(last int) int {
	return last + 1
}

// Spins is how often Wait looks.
const Spins = 3

// Wait ends after some looks.
func Wait() (looks int) {
	for looks < Spins {
		looks++
	}
	return looks
}

// Home is where somebody is at home.
func Home() (string, error) { return os.UserHomeDir() }

// Name is looked at by no test.
func Name() string {
	return "lock"
}
