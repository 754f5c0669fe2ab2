package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
)

// completionLimit is how long a press of the tab key may wait for a store.
const completionLimit = 2 * time.Second

// completionFlag is what urfave/cli appends to ask what may follow.
const completionFlag = "--generate-bash-completion"

// typedWord is the key of app.Metadata under which run leaves the word before
// the completion flag: the one being typed, when it starts with a dash.
const typedWord = "typed"

// completeOptions prints the options when one is being typed.
func completeOptions(c *cli.Context) bool {
	if typed, _ := c.App.Metadata[typedWord].(string); !strings.HasPrefix(typed, "-") {
		return false
	}
	flags := c.App.Flags
	if c.Command != nil && c.Command.Name != c.App.Name {
		flags = c.Command.Flags
	}
	for _, f := range flags {
		if v, ok := f.(cli.VisibleFlag); ok && !v.IsVisible() {
			continue
		}
		for _, name := range f.Names() {
			dashes := "--"
			if len(name) == 1 {
				dashes = "-"
			}
			_, _ = fmt.Fprintln(c.App.Writer, dashes+name)
		}
	}
	return true
}

// completeWords prints options, else, where a command is wanted, the commands.
func completeWords(c *cli.Context) {
	if completeOptions(c) || c.Command != nil && c.Command.Name != c.App.Name {
		return // the shell completes files
	}
	for _, cmd := range c.App.Commands {
		if !cmd.Hidden {
			_, _ = fmt.Fprintln(c.App.Writer, cmd.Name)
		}
	}
}

// completeRefs prints the branches and tags of the repository one is in as
// what the arguments of these numbers may be, 0 the first. Where none is found it prints
// nothing: a shell has no place for an error.
func completeRefs(h *host, numbers ...int) cli.BashCompleteFunc {
	return func(c *cli.Context) {
		if completeOptions(c) || !slices.Contains(numbers, c.NArg()) {
			return
		}
		k, err := newCall(h, c)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(c.Context, completionLimit)
		defer cancel()
		_ = k.withRepository(ctx, true, func(e *engine.Engine, _ *place) error {
			for _, list := range []refKind{branches, tags} {
				refs, err := list.list(e, ctx)
				if err != nil {
					return err
				}
				for _, r := range refs {
					_, _ = fmt.Fprintln(k.Stdout, r.Name)
				}
			}
			return nil
		})
	}
}
