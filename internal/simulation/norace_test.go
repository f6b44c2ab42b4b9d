//go:build !race

package simulation_test

const raceEnabled = false
