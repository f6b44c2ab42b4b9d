//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// who is a line of the table: a system, or one place of it.
type who struct {
	system string
	at     string
}

func (w who) String() string {
	if w.at == "" {
		return w.system
	}
	return w.system + ", " + w.at
}

// results are all figures of one run, in the order in which they first came.
type results struct {
	Machine machine
	Began   time.Time
	Took    time.Duration
	Left    []string // systems that were left out, and why
	Failed  []string // what could not be measured
	blocks  []*block
}

// block is one measure.
type block struct {
	measure *measure
	lines   []*line
}

type line struct {
	who     who
	figures []float64
}

func (r *results) note(m *measure, w who, figure float64) {
	b := r.block(m)
	for _, l := range b.lines {
		if l.who == w {
			l.figures = append(l.figures, figure)
			return
		}
	}
	b.lines = append(b.lines, &line{who: w, figures: []float64{figure}})
}

func (r *results) block(m *measure) *block {
	for _, b := range r.blocks {
		if b.measure == m {
			return b
		}
	}
	b := &block{measure: m}
	r.blocks = append(r.blocks, b)
	return b
}

// of is what a line of a measure has; the zero spread if there is no such line.
func (r *results) of(m *measure, w who) spread {
	for _, b := range r.blocks {
		if b.measure != m {
			continue
		}
		for _, l := range b.lines {
			if l.who == w {
				return spreadOf(l.figures)
			}
		}
	}
	return spread{}
}

// err tells that something could not be measured.
func (r *results) err() error {
	if len(r.Failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d measurements failed: %w", len(r.Failed), errors.New(r.Failed[0]))
}

// fileFigure is one line in the file of -json.
type fileFigure struct {
	Measure string    `json:"measure"`
	Unit    string    `json:"unit"`
	System  string    `json:"system"`
	At      string    `json:"at,omitempty"`
	Figures []float64 `json:"figures"`
	spread
}

// save writes all figures for programs.
func (r *results) save(file string) error {
	var figures []fileFigure
	for _, b := range r.blocks {
		for _, l := range b.lines {
			figures = append(figures, fileFigure{b.measure.title, b.measure.unit, l.who.system, l.who.at, l.figures, spreadOf(l.figures)})
		}
	}
	text, err := json.MarshalIndent(map[string]any{
		"machine": r.Machine, "began": r.Began, "seconds": r.Took.Seconds(), "left_out": r.Left, "failed": r.Failed, "figures": figures,
	}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
