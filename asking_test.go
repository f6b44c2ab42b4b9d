package quorumlock

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/router"
)

// Those in front may be dead, however many they are.
func TestFirstAnswer(t *testing.T) {
	refused := errors.New("refused")
	const dead, slow, no, yes = "dead", "slow", "no", "yes"
	for name, test := range map[string]struct {
		peers []string // what each does
		from  int      // who answers first
		after time.Duration
		asked int // of them
		err   error
	}{
		"the first":                {[]string{yes, yes}, 0, 0, 1, nil},
		"at once after a refusal":  {[]string{no, no, yes, yes}, 2, 0, 3, nil},
		"behind three dead ones":   {[]string{dead, dead, dead, yes, yes}, 3, 3 * patience, 4, nil},
		"the slow one is the last": {[]string{dead, slow, no}, 1, 2*patience + patience/2, 3, nil},
		"slow, but faster":         {[]string{slow, dead, dead, dead}, 0, patience + patience/2, 2, nil},
		"all refuse":               {[]string{no, no}, 0, 0, 2, refused},
		"all are dead":             {[]string{dead, dead}, 0, time.Minute, 2, context.DeadlineExceeded},
		"nobody":                   {nil, 0, 0, 0, errNobody},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var peers []router.Peer
			for i := range test.peers {
				peers = append(peers, router.Peer{ID: strconv.Itoa(i)})
			}
			began := time.Now()
			var mu sync.Mutex
			asked, open := 0, 0
			answer, from, err := firstAnswer(ctx, slices.Clone(peers), func(ctx context.Context, p router.Peer) (string, error) {
				count := func(now, all int) {
					mu.Lock()
					defer mu.Unlock()
					open, asked = open+now, asked+all
				}
				count(1, 1)
				defer count(-1, 0)
				i, _ := strconv.Atoi(p.ID)
				switch test.peers[i] {
				case no:
					return "", refused
				case slow:
					time.Sleep(patience + patience/2)
				case dead:
					<-ctx.Done()
					return "", ctx.Err()
				}
				return test.peers[i] + p.ID, nil
			})
			if !errors.Is(err, test.err) || err == nil && (from != peers[test.from] || answer != test.peers[test.from]+from.ID) {
				t.Errorf("%s: %q of %v, %v", name, answer, from, err)
			}
			if took := time.Since(began); took != test.after || asked != test.asked || open != 0 {
				t.Errorf("%s: after %v, %d were asked, %d still are; want %v, %d", name, took, asked, open, test.after, test.asked)
			}
		})
	}
}
