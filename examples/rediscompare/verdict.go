//go:build unix

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// verdict is nil if each fault did what it is known to do, and quorumlock what it promises.
func (r result) verdict() error {
	var errs []error
	for _, row := range r.rows {
		errs = append(errs, row.verdict())
	}
	return errors.Join(errs...)
}

func (r row) verdict() error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s, %s: %s", r.system, r.fault, fmt.Sprintf(format, args...)))
	}
	if r.must.overlap && r.overlaps < r.times {
		wrong("the fault did not bite: %d grants overlapped, expected one for each of %d faults", r.overlaps, r.times)
	}
	if r.must.stale && r.plain.lost() == 0 {
		wrong("the fault did not bite: no update was lost without a fence")
	}
	if !r.must.safe {
		return errors.Join(errs...)
	}
	if r.overlaps > 0 {
		wrong("%d grants overlapped", r.overlaps)
	}
	if r.fenced.lost() > 0 || r.fenced.acknowledged == 0 {
		wrong("%s updates lost behind the fence", share(r.fenced))
	}
	if r.must.stale && r.refused == 0 {
		wrong("the fence refused no late write")
	}
	return errors.Join(errs...)
}

// summary is the last line of a run in which all was as it must be.
func (r result) summary(took time.Duration) string {
	var parts []string
	for _, system := range systemsOf(r.rows) {
		var sum tally
		for _, row := range r.rows {
			if row.system == system {
				sum = sum.add(row.tally)
			}
		}
		part := fmt.Sprintf("%s: %d overlaps", system, sum.overlaps)
		if sum.tokens {
			part += fmt.Sprintf(", %d fenced updates lost, %d stale writes refused", sum.fenced.lost(), sum.refused)
		}
		parts = append(parts, part)
	}
	if len(r.speeds) > 0 {
		parts = append(parts, fmt.Sprintf("%d speeds measured", len(r.speeds)))
	}
	return fmt.Sprintf("ok: %s; %.1f s", strings.Join(parts, "; "), took.Seconds())
}

func systemsOf(rows []row) []string {
	var list []string
	for _, r := range rows {
		if len(list) == 0 || list[len(list)-1] != r.system {
			list = append(list, r.system)
		}
	}
	return list
}
