//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// profiled has each worker take profiles until stop is called, if they are wanted and this is the moment. Their names tell system, workload, and who leads.
func (r *rig) profiled(ctx context.Context, moment bool, name string) (stop func() error, err error) {
	if r.profile == "" || !moment || !r.system.embedded {
		return func() error { return nil }, nil
	}
	dir, err := filepath.Abs(r.profile)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	_, err = r.all(ctx, func(i int) order {
		role := "leader"
		if i != r.leads {
			role = fmt.Sprint("other", i)
		}
		return order{Verb: verbProfile, File: filepath.Join(dir, fmt.Sprintf("%s-%s-%s", r.system.key, name, role))}
	})
	return func() error {
		_, err := r.all(ctx, func(int) order { return order{Verb: verbProfile} })
		return err
	}, err
}

// profiling begins a profile of the processor, or ends it and adds what there is to say at the end of it: all that was allocated, what is in use, and the goroutines.
func (w *worker) profiling(file string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if file == "" {
		pprof.StopCPUProfile()
		if w.profile == nil {
			return nil
		}
		name := w.profile.Name()
		err := w.profile.Close()
		w.profile = nil
		runtime.GC() // the profile of the heap is as of the last collection
		for _, kind := range []string{"allocs", "heap", "goroutine"} {
			err = errors.Join(err, writeProfile(kind, name+"."+kind))
		}
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w.profile = f
	return pprof.StartCPUProfile(f)
}

func writeProfile(kind, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(kind).WriteTo(f, 0), f.Close())
}
