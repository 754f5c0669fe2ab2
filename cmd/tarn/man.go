package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/outcome"
)

// manCommand prints the manual page that make install puts in its place. It is
// made of the same texts as tarn help and the table of outcomes.
func manCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:   "man",
		Usage:  "print the manual page of tarn, for man(1)",
		Hidden: true,
		Action: action(h, 0, 0, func(c *cli.Context, k *call) error {
			return writeText(k.Stdout, manPage(c.App))
		}),
	}
}

// manPage is tarn(1) in the man macros of troff.
func manPage(app *cli.App) string {
	m := &troff{}
	m.line(`.TH TARN 1 "" "tarn" "User Commands"`)
	m.section("NAME")
	m.text("tarn - " + app.Usage)
	m.section("SYNOPSIS")
	m.text("tarn [options] command [options] [arguments]")
	m.section("DESCRIPTION")
	m.text("Tarn shows a repository of versioned tables as folders. Branches, tags and versions are read-only; a working folder is writable: touch .commit in it makes a version, touch .push publishes it. " +
		"Every command finds its repository from -C PATH, else from the nearest parent folder that is a mount, a working folder or a repository, else from TARN_REPO; --repo names another.")
	m.section("COMMANDS")
	for _, c := range app.Commands {
		if !c.Hidden {
			m.command(c)
		}
	}
	m.section("COMMON OPTIONS")
	m.flags(commonFlags())
	m.section("EXIT STATUS")
	m.text("A control file of a working folder (.commit, .push, .pull, .reset) answers with the error in parentheses, and FAILED.txt says it in words.")
	rows := slices.SortedFunc(maps.Values(outcome.Table), func(a, b outcome.Row) int { return cmp.Compare(a.Exit, b.Exit) })
	for _, r := range rows {
		what := r.Mean
		if r.Errno != 0 {
			what += " (" + unix.ErrnoName(r.Errno) + ")"
		}
		m.entry(fmt.Sprint(r.Exit), what)
	}
	m.section("ENVIRONMENT")
	for _, v := range environment() {
		m.entry(v.name, v.what)
	}
	m.section("FILES")
	for _, f := range [][2]string{
		{"$XDG_CONFIG_HOME/tarn/config.toml", "settings; tarn config prints those in force"},
		{"$XDG_STATE_HOME/tarn/", "working folders of mounts, with what is committed and not pushed; the logs of mounts"},
		{"$XDG_CACHE_HOME/tarn/", "blocks of remote files and rewritten files of tables/; may be deleted"},
		{"$XDG_RUNTIME_DIR/tarn/", "sockets by which commands talk to the process of a mount"},
	} {
		m.entry(f[0], f[1])
	}
	m.section("SEE ALSO")
	m.text("mount(8), findmnt(8), fusermount3(1)")
	return m.b.String()
}

// environment lists the variables that commands read, by name.
func environment() []struct{ name, what string } {
	vars := []struct{ name, what string }{
		{"TARN_REPO", "URL or folder of the repository, where neither an option nor the current folder names one"},
		{"TARN_TOKEN", "bearer token for repositories over HTTP"},
		{"AWS_*, GOOGLE_*, AZURE_*", "keys of object stores, as the providers' own tools read them"},
	}
	for _, s := range settings {
		what := "as " + s.Key + " in config.toml"
		if s.Flag != "" {
			what += " and --" + s.Flag
		}
		vars = append(vars, struct{ name, what string }{s.Env, what})
	}
	slices.SortFunc(vars, func(a, b struct{ name, what string }) int { return cmp.Compare(a.name, b.name) })
	return vars
}

// troff collects lines of a page.
type troff struct{ b strings.Builder }

func (m *troff) line(s string) { m.b.WriteString(s + "\n") }

// text writes running words: a line that begins with a dot or a quote would be
// a request, a hyphen a typographic one.
func (m *troff) text(s string) {
	for _, l := range strings.Split(s, "\n") {
		l = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(l)
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			l = `\&` + l
		}
		m.line(l)
	}
}

func (m *troff) section(name string) { m.line(".SH " + name) }

func (m *troff) entry(term, what string) {
	m.line(".TP")
	m.line(`\fB` + strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(term) + `\fR`)
	m.text(what)
}

// command is the help of a command; what is indented there stays as it is.
func (m *troff) command(c *cli.Command) {
	m.line(".SS " + c.Name)
	m.text("tarn " + strings.TrimSpace(c.Name+" "+c.ArgsUsage) + ": " + c.Usage)
	for _, block := range strings.Split(c.Description, "\n\n") {
		m.line(".PP")
		fixed := false
		for _, l := range strings.Split(block, "\n") {
			if indented := strings.HasPrefix(l, "  "); indented != fixed {
				fixed = indented
				m.line(map[bool]string{true: ".nf", false: ".fi"}[fixed])
			}
			m.text(l)
		}
		if fixed {
			m.line(".fi")
		}
	}
	m.flags(slices.DeleteFunc(slices.Clone(c.Flags), isCommon))
}

// isCommon says whether every command has this flag.
func isCommon(f cli.Flag) bool {
	return slices.ContainsFunc(commonFlags(), func(c cli.Flag) bool { return c.Names()[0] == f.Names()[0] })
}

func (m *troff) flags(flags []cli.Flag) {
	for _, f := range flags {
		name, what, ok := strings.Cut(f.String(), "\t")
		if visible, is := f.(cli.VisibleFlag); ok && (!is || visible.IsVisible()) {
			m.entry(strings.TrimSpace(name), strings.TrimSpace(what))
		}
	}
}
