package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionView is the JSON of version.
type versionView struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(inv *invocation) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versionView{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.Version = info.Main.Version
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Revision = s.Value
					}
				}
			}
			if inv.json {
				return inv.printJSON(v)
			}
			return inv.pairs("version", v.Version, "revision", v.Revision, "go", v.Go, "platform", v.Platform)
		},
	}
}
