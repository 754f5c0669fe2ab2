package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
)

// The categories of `tarn help`.
const (
	catRepository = "Repositories and mounts"
	catWork       = "A working folder"
	catHistory    = "Versions, branches, tags"
	catTool       = "About tarn"
)

// appHelp is the template of `tarn help`. The list of commands is made here,
// in the order of a first day's work; the library would sort it by letter.
func appHelp(commands []*cli.Command) string {
	var b strings.Builder
	b.WriteString(`tarn - mount a repository of versioned tables as folders

  tarn [options] command [options] [arguments]

Every command finds its repository from -C PATH, else from the nearest parent
folder that is a mount, a working folder or a repository, else from TARN_REPO;
--repo names another. "tarn help COMMAND" has an example and the exit codes.
`)
	for _, cat := range []string{catRepository, catWork, catHistory, catTool} {
		fmt.Fprintf(&b, "\n%s:\n", cat)
		for _, c := range commands {
			if c.Category == cat && !c.Hidden {
				fmt.Fprintf(&b, "  %-11s %s\n", c.Name, c.Usage)
			}
		}
	}
	return b.String() + "\nOptions:\n{{template \"visibleFlagCategoryTemplate\" .}}\n"
}

// commandHelp is the template of `tarn help COMMAND`.
const commandHelp = `{{.HelpName}} - {{.Usage}}

  {{.HelpName}} [options]{{if .ArgsUsage}} {{.ArgsUsage}}{{end}}

{{.Description}}

Options:{{template "visibleFlagCategoryTemplate" .}}
`

// manual is the text of a command's help: words, one example, and the exit
// codes it can end with beside 0, 2 and 3, which every command has.
func manual(words, example string, ends ...outcome.Outcome) string {
	ends = append(ends, outcome.Done, outcome.Usage, outcome.Internal)
	slices.SortFunc(ends, func(a, b outcome.Outcome) int { return cmp.Compare(a.Exit(), b.Exit()) })
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nExample:\n  %s\n\nExit codes:\n", words, strings.ReplaceAll(example, "\n", "\n  "))
	for _, o := range ends {
		fmt.Fprintf(&b, "  %3d  %s\n", o.Exit(), outcome.Table[o].Mean)
	}
	return strings.TrimRight(b.String(), "\n")
}
