//go:build unix

package main

import (
	"math"
	"slices"
)

// spread is what several repetitions say together.
type spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
	Count  int     `json:"count"`
}

// spreadOf takes the mean of the two in the middle for an even number. Of nothing everything is NaN.
func spreadOf(figures []float64) spread {
	if len(figures) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN(), 0}
	}
	s := slices.Sorted(slices.Values(figures))
	n := len(s)
	return spread{(s[(n-1)/2] + s[n/2]) / 2, s[0], s[n-1], n}
}

// ratio of two medians; NaN where there is none.
func ratio(a, b spread) float64 {
	if b.Count == 0 || b.Median == 0 {
		return math.NaN()
	}
	return a.Median / b.Median
}
