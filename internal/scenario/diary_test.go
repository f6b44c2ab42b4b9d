package scenario_test

import (
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// diary keeps what the nodes of a cluster say, for what shows nowhere else: who led in which term, and whether a fault bit that
// the cluster got over.
type diary struct {
	mu    sync.Mutex
	notes []note
}

type note struct {
	node, text string
	args       []any
}

// keepDiary is a diary and the option that fills it.
func keepDiary() (*diary, quorumlocktest.Option) {
	d := &diary{}
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Info})
	log.RegisterSink(d)
	return d, quorumlocktest.Logger(log)
}

// Accept implements hclog.SinkAdapter.
func (d *diary) Accept(name string, _ hclog.Level, text string, args ...any) {
	node, _, _ := strings.Cut(name, ".")
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, note{node, text, args})
}

// said counts the notes with the given words.
func (d *diary) said(words string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	count := 0
	for _, n := range d.notes {
		if strings.Contains(n.text, words) {
			count++
		}
	}
	return count
}

// leaders gives who led in each term, and fails the test if two did in one.
func (d *diary) leaders(t *testing.T) map[uint64]string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	led := make(map[uint64]string)
	for _, n := range d.notes {
		if n.text != "leading" {
			continue
		}
		term := n.args[1].(uint64)
		if other, known := led[term]; known && other != n.node {
			t.Errorf("%s and %s both lead in term %d", other, n.node, term)
		}
		led[term] = n.node
	}
	return led
}
