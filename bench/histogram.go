//go:build unix

package main

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A histogram keeps durations from a microsecond's tenth to two minutes with three digits.
const (
	histogramUnit  = 100 * time.Nanosecond
	histogramMost  = 2 * time.Minute
	histogramExact = 3
)

type histogram struct{ h *hdrhistogram.Histogram }

func newHistogram() histogram {
	return histogram{hdrhistogram.New(1, int64(histogramMost/histogramUnit), histogramExact)}
}

// record counts what lies beyond the range as its end.
func (h histogram) record(d time.Duration) {
	_ = h.h.RecordValue(min(max(1, int64(d/histogramUnit)), int64(histogramMost/histogramUnit))) // within the range it does not fail
}

func (h histogram) count() int64 { return h.h.TotalCount() }

// quantile is in milliseconds, for q in percent.
func (h histogram) quantile(q float64) float64 {
	return float64(h.h.ValueAtQuantile(q)) * float64(histogramUnit) / float64(time.Millisecond)
}

func (h histogram) encode() ([]byte, error) {
	return h.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
}

// merge adds what a worker has encoded.
func (h histogram) merge(encoded []byte) error {
	if len(encoded) == 0 {
		return nil
	}
	other, err := hdrhistogram.Decode(encoded)
	if err != nil {
		return fmt.Errorf("decode histogram: %w", err)
	}
	if dropped := h.h.Merge(other); dropped > 0 {
		return fmt.Errorf("merge histogram: %d values are out of range", dropped)
	}
	return nil
}
