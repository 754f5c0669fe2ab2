package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/cache"
	"github.com/tarnfs/tarn/engine/outcome"
)

// call is one command at work: its process, the flags common to all commands,
// and a logger. Run functions get it with their own options.
type call struct {
	*host
	common
	Log *slog.Logger
	conf
	cache cache.Options
}

// common holds the flags that every command has.
type common struct {
	Path  string // -C: look for the repository from here
	Repo  string // --repo: URL of the repository
	JSON  bool
	Quiet bool
}

// run is the program without its process: args[0] is the program's name. It
// prints errors and gives the exit code.
func run(ctx context.Context, h *host, args []string) int {
	app := newApp(h)
	words := helperArgs(args)
	if n := len(words); n > 0 && words[n-1] == completionFlag {
		app.Metadata = map[string]any{typedWord: strings.Join(words[max(0, n-2):n-1], "")}
	} else {
		words = permute(app, words)
	}
	err := app.RunContext(ctx, append([]string{"tarn"}, words...))
	return finish(h.Stderr, err, wantsJSON(words))
}

func newApp(h *host) *cli.App {
	app := &cli.App{
		Name:     "tarn",
		HelpName: "tarn",
		Usage:    "mount a repository of versioned tables as folders",
		Flags: append(commonFlags(),
			&cli.BoolFlag{Name: "version", Usage: "print the version", DisableDefaultText: true}),
		Commands: []*cli.Command{
			initCommand(h), cloneCommand(h), fetchCommand(h), mountCommand(h), umountCommand(h), serveCommand(h),
			doctorCommand(h), checkoutCommand(h), statusCommand(h), diffCommand(h), addCommand(h), commitCommand(h), pushCommand(h), pullCommand(h), resetCommand(h),
			restoreCommand(h), revertCommand(h), mergeCommand(h),
			logCommand(h), showCommand(h), branchCommand(h), tagCommand(h), attachCommand(h), sqlCommand(h), exportCommand(h), gcCommand(h), verifyCommand(h), inspectCommand(h), repairCommand(h),
			cacheCommand(h), benchCommand(h), configCommand(h), completionCommand(h), versionCommand(h), manCommand(h), workerCommand(h),
		},
		Writer:                    h.Stdout,
		ErrWriter:                 h.Stderr,
		HideVersion:               true,
		EnableBashCompletion:      true,
		DisableSliceFlagSeparator: true,                         // a message may hold commas
		ExitErrHandler:            func(*cli.Context, error) {}, // run prints, main exits
		Action:                    func(c *cli.Context) error { return noCommand(c, h) },
		OnUsageError:              onUsage,
		BashComplete:              completeWords,
	}
	for _, c := range app.Commands {
		c.OnUsageError = onUsage
		if c.BashComplete == nil {
			c.BashComplete = completeWords
		}
		c.HideHelpCommand = true // `tarn commit help` names a folder
		c.CustomHelpTemplate = commandHelp
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = true
			}
		}
		c.Flags = append(c.Flags, commonFlags()...)
	}
	app.CustomAppHelpTemplate = appHelp(app.Commands)
	return app
}

// commonFlags makes new flags each time: urfave/cli writes into them.
func commonFlags() []cli.Flag {
	const cat = "Common to all commands"
	return []cli.Flag{
		&cli.StringFlag{Name: "C", Category: cat, Usage: "run as if started in `PATH`"},
		&cli.StringFlag{Name: "repo", Category: cat, Usage: "the repository's `URL` or folder [$TARN_REPO]"},
		&cli.BoolFlag{Name: "json", Category: cat, Usage: "print one JSON document, or one object a line", DisableDefaultText: true},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Category: cat, Usage: "print nothing but what was asked for", DisableDefaultText: true},
		&cli.StringFlag{Name: "log-level", Category: cat, Usage: "log `LEVEL` and above on stderr: debug, info, warn, error [$TARN_LOG_LEVEL]"},
		&cli.StringFlag{Name: "log-format", Category: cat, Usage: "log as `FORMAT`: text or json [$TARN_LOG_FORMAT]"},
	}
}

func noCommand(c *cli.Context, h *host) error {
	if c.Bool("version") {
		return writeText(h.Stdout, versionLine())
	}
	if name := c.Args().First(); name != "" {
		return usageError("no such command: %s", name)
	}
	return cli.ShowAppHelp(c)
}

// onUsage answers what the flag parser could not read.
func onUsage(c *cli.Context, err error, isSubcommand bool) error {
	what := strings.Replace(err.Error(), "flag provided but not defined: ", "unknown flag: -", 1)
	what = strings.Replace(what, "flag needs an argument: ", "a value is missing after -", 1)
	what = strings.Replace(what, "--C", "-C", 1)
	if isSubcommand && c.Command != nil && c.Command.Name != "" {
		return outcome.New(outcome.Usage, what, "see: tarn help "+c.Command.FullName())
	}
	return usageError("%s", what)
}

// action adapts a run function to the command line: it checks the number of
// arguments and fills the call.
func action(h *host, least, most int, f func(c *cli.Context, k *call) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if n := c.NArg(); n < least || n > most {
			what := fmt.Sprintf("%s needs %s", c.Command.FullName(), argsWanted(c.Command.ArgsUsage))
			if n > most {
				what = fmt.Sprintf("%s: unexpected argument %q", c.Command.FullName(), c.Args().Get(most))
			}
			return outcome.New(outcome.Usage, what, fmt.Sprintf("see: tarn help %s", c.Command.FullName()))
		}
		// A script's variable that is not set. Taken for no argument at all, the
		// command would act on something else, and succeed.
		if slices.Contains(c.Args().Slice(), "") {
			return outcome.New(outcome.Usage, c.Command.FullName()+": an argument is empty", "leave it out, or say what it stands for; see: tarn help "+c.Command.FullName())
		}
		k, err := newCall(h, c)
		if err != nil {
			return err
		}
		return f(c, k)
	}
}

func argsWanted(usage string) string {
	if usage == "" {
		return "no argument"
	}
	return usage
}

func newCall(h *host, c *cli.Context) (*call, error) {
	k := &call{host: h, common: common{
		Path:  localString(c, "C"),
		Repo:  localString(c, "repo"),
		JSON:  localBool(c, "json"),
		Quiet: localBool(c, "quiet"),
	}}
	if k.Path != "" && k.Repo != "" {
		return nil, usageError("-C and --repo name two places; give one")
	}
	var err error
	if k.conf, err = readConfig(h, func(flag string) string { return localString(c, flag) }); err != nil {
		return nil, err
	}
	if v := k.values["token_file"]; v.Source == "file" {
		// Named for this process and those it starts, as the environment would.
		if err := os.Setenv(envTokenFile, v.Value); err != nil {
			return nil, err
		}
	}
	if k.cache, err = k.cacheOptions(); err != nil {
		return nil, err
	}
	k.Log, err = newLogger(h.Stderr, k.value("log_level"), k.value("log_format"))
	return k, err
}

// localString finds a common flag where it was given: before the command or
// after it. Lookup by name alone would stop at the command's unset copy.
func localString(c *cli.Context, name string) string {
	if l := where(c, name); l != nil {
		return l.String(name)
	}
	return ""
}

func localBool(c *cli.Context, name string) bool {
	l := where(c, name)
	return l != nil && l.Bool(name)
}

func where(c *cli.Context, name string) *cli.Context {
	for _, l := range c.Lineage() {
		if slices.Contains(l.LocalFlagNames(), name) {
			return l
		}
	}
	return nil
}

// absolute is p as seen from the folder the command runs in.
func (k *call) absolute(p string) (string, error) {
	if filepath.IsAbs(p) {
		return filepath.Clean(p), nil
	}
	wd, err := k.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the current folder: %w", err)
	}
	if k.Path != "" {
		wd = filepath.Join(wd, k.Path)
		if filepath.IsAbs(k.Path) {
			wd = k.Path
		}
	}
	return filepath.Join(wd, p), nil
}

// absoluteURL makes a repository given as a plain folder absolute; a URL stays as it is.
func (k *call) absoluteURL(url string) (string, error) {
	if strings.Contains(url, "://") {
		return url, nil
	}
	return k.absolute(url)
}
