package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// version is set by the linker (see Makefile); a plain `go build` knows only
// its commit.
var version = "devel"

func versionCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print the version of this program",
		Category:    catTool,
		Description: manual("With --json also the commit it was built from and the Go version.", "tarn version --json"),
		Action:      action(h, 0, 0, func(c *cli.Context, k *call) error { return runVersion(c.Context, k) }),
	}
}

// versionDoc is what `tarn version --json` prints.
type versionDoc struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a changed tree
	Go       string `json:"go"`
}

func (d versionDoc) Text() string { return versionLine() }

func versionLine() string { return fmt.Sprintf("tarn %s", version) }

func runVersion(_ context.Context, k *call) error {
	d := versionDoc{Version: version, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				d.Commit = s.Value
			case "vcs.modified":
				d.Modified = s.Value == "true"
			}
		}
	}
	return k.show(d)
}
