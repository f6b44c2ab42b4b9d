package store

import (
	"os"
	"time"
)

// holderStep keeps the starts of one directory apart.
const holderStep = time.Millisecond

// maxClockError bounds what is believed of a former start that seems to lie in the future: a damaged file must not push the starts beyond what can be told.
const maxClockError = 50 * 365 * 24 * time.Hour

// currentHolder describes this process, opening what last had open before, which is zero if nothing is known of it. Its start is later than that one's even if the clock was
// set back in between. So a process on a copy of the state of a live one, whose description is copied with it, never seems to be the older of the two.
func currentHolder(last Holder) Holder {
	host, _ := os.Hostname() // for people only; empty is fine
	now := time.Now().UTC().Truncate(holderStep)
	if next := last.Started.Add(holderStep); next.After(now) && next.Sub(now) < maxClockError {
		now = next
	}
	return Holder{PID: os.Getpid(), Host: host, Started: now}
}
