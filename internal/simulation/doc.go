// Package simulation plays random schedules of faults against whole clusters of real nodes under random traffic, in fake time, and judges
// what happened: the history of every schedule is checked by package history.
//
// A schedule is a seed and a length. Everything that is chosen, which instances there are, who calls what and when, and which fault
// comes over whom, is drawn from the seed. Which goroutine runs first is not, so a native run of the same seed is not the same run
// twice; an exact one (package simulation/exact) is.
//
// It is part of the tests: nothing that users import imports it.
package simulation
