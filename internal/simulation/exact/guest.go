package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// guest is one run of a program. WebAssembly itself leaves nothing open: one thread, and each instruction has one result. So all chance comes
// through the functions that the host lends, and each of them is made a function of what the guest did before:
//
//   - random bytes come from a generator seeded with random; Go takes from them its map order, its order among ready cases of a select, its order
//     among timers of one instant in a bubble, math/rand and crypto/rand;
//   - the clocks move by a fixed step at each reading and by the length of each sleep (see clock);
//   - there are no files, no sockets, no standard input and no environment but env.
type guest struct {
	random         uint64
	env            [][2]string
	args           []string // with the program's name first
	stdout, stderr io.Writer
}

// run gives the guest's exit code. Translating a module takes far longer than a short run; cache, a directory, keeps the result unless it is "".
func (g guest) run(ctx context.Context, module, cache string) (code int, err error) {
	text, err := os.ReadFile(module)
	if err != nil {
		return 0, err
	}
	conf := wazero.NewRuntimeConfigCompiler()
	if cache != "" {
		kept, err := wazero.NewCompilationCacheWithDir(cache)
		if err != nil {
			return 0, fmt.Errorf("cache of translated modules: %w", err)
		}
		defer kept.Close(ctx)
		conf = conf.WithCompilationCache(kept)
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, conf)
	defer runtime.Close(ctx)
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, runtime); err != nil {
		return 0, fmt.Errorf("lend host functions: %w", err)
	}
	return exitCode(runtime.InstantiateWithConfig(ctx, text, g.config()))
}

func (g guest) config() wazero.ModuleConfig {
	var c clock
	conf := wazero.NewModuleConfig().WithArgs(g.args...).WithStdout(g.stdout).WithStderr(g.stderr).WithRandSource(seeded(g.random)).
		WithWalltime(c.walltime, resolution).WithNanotime(c.nanotime, resolution).WithNanosleep(c.sleep)
	for _, nameValue := range g.env {
		conf = conf.WithEnv(nameValue[0], nameValue[1])
	}
	return conf
}

// seeded gives the same bytes for the same seed.
func seeded(seed uint64) io.Reader {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return rand.NewChaCha8(key)
}

// exitCode reads how main ended. A Go program always ends by exiting, which is told as an error.
func exitCode(_ any, err error) (int, error) {
	var exit *sys.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		return int(exit.ExitCode()), nil
	default:
		return 0, fmt.Errorf("run: %w", err)
	}
}
