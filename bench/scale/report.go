//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// report is all that one run measured.
type report struct {
	Machine string    `json:"machine"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Sheets  []*sheet  `json:"studies"`
}

// sheet is one study's table.
type sheet struct {
	Study   string `json:"study"`
	Title   string `json:"title"`
	On      string `json:"on"` // what was measured on what
	Rows    []row  `json:"rows"`
	columns []string
}

// row is one cluster, or one process. A figure that was not measured is not there.
type row struct {
	Label   string             `json:"row"`
	Figures map[string]float64 `json:"figures"`
	Failed  string             `json:"failed,omitempty"`
}

func machine() string {
	return fmt.Sprintf("%s/%s, %d processors, %s%s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), load())
}

// String is the report for people.
func (r *report) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %.0f s\n", r.Machine, r.Seconds)
	for _, s := range r.Sheets {
		fmt.Fprintf(&text, "\n%s: %s\n%s\n", s.Study, s.Title, s.On)
		w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(w, "\t%s\t\n", strings.Join(s.columns, "\t"))
		for _, r := range s.Rows {
			fmt.Fprintf(w, "%s\t", r.Label)
			for _, c := range s.columns {
				fmt.Fprintf(w, "%s\t", shown(r.Figures, c))
			}
			fmt.Fprintln(w)
		}
		_ = w.Flush() // writes to a strings.Builder
		for _, r := range s.Rows {
			if r.Failed != "" {
				fmt.Fprintf(&text, "FAILED: %s: %s\n", r.Label, r.Failed)
			}
		}
	}
	return text.String()
}

// shown has three digits that count, and no fraction from a hundred on.
func shown(figures map[string]float64, column string) string {
	f, measured := figures[column]
	switch a := math.Abs(f); {
	case !measured:
		return "-"
	case a == 0:
		return "0"
	case a >= 100:
		return fmt.Sprintf("%.0f", f)
	case a >= 10:
		return fmt.Sprintf("%.1f", f)
	case a >= 1:
		return fmt.Sprintf("%.2f", f)
	}
	return fmt.Sprintf("%.3f", f)
}

func (r *report) failures() (n int) {
	for _, s := range r.Sheets {
		for _, row := range s.Rows {
			if row.Failed != "" {
				n++
			}
		}
	}
	return n
}

func (r *report) save(file string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
