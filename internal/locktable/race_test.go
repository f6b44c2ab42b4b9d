//go:build race

package locktable

func init() { raceDetector = true }
