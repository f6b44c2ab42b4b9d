package store

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(runChild(dir))
	}
	if dir := os.Getenv(keeperEnv); dir != "" {
		os.Exit(runKeeper(dir))
	}
	goleak.VerifyTestMain(m)
}
