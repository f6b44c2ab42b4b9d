package sim

import (
	"testing"

	"example.test/module/lock"
)

func TestSchedules(t *testing.T) {
	if lock.Next(1) == 1 {
		t.Fatal("the counter stands still")
	}
	if home, err := lock.Home(); err != nil {
		t.Log(home, err)
	}
}
