package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// The flag package under urfave/cli ends the flags at the first argument.
// People write `tarn mount URL DIR --read-only` and `tarn commit -m x PATH`
// alike, so the arguments are put in order first: options, then the rest.

// permute moves the options of the command line (without the program's name)
// before the arguments they belong to. What stands after "--" stays as it is.
func permute(app *cli.App, args []string) []string {
	head, rest := splitOptions(app.Flags, args, true)
	if len(rest) == 0 || rest[0] == "--" {
		return args
	}
	return append(append(head, rest[0]), permuteCommand(app.Commands, rest[0], rest[1:])...)
}

func permuteCommand(commands []*cli.Command, name string, args []string) []string {
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(name) })
	if i < 0 || commands[i].SkipFlagParsing {
		return args
	}
	options, words := splitOptions(commands[i].Flags, args, false)
	if len(words) == 0 || lacksValue(commands[i].Flags, options) {
		return options // at its end, for the parser to say that a value is missing
	}
	// The "--" keeps a word that starts with a dash (after the user's own "--") a word.
	return append(append(options, "--"), words...)
}

// splitOptions separates options with their values from words. With
// firstWord it stops before the first word.
func splitOptions(flags []cli.Flag, args []string, firstWord bool) (options, words []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			if firstWord {
				return options, args[i:]
			}
			return options, append(words, args[i+1:]...)
		case len(a) < 2 || a[0] != '-':
			if firstWord {
				return options, args[i:]
			}
			words = append(words, a)
		default:
			options = append(options, a)
			if takesValue(flags, a) && i+1 < len(args) {
				i++
				options = append(options, args[i])
			}
		}
	}
	return options, words
}

// takesValue says whether option a ("-m", "--work") is followed by its value.
// An unknown one is not: the parser then names it.
func takesValue(flags []cli.Flag, a string) bool {
	name := strings.TrimLeft(a, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, f := range flags {
		if _, isBool := f.(*cli.BoolFlag); !isBool && slices.Contains(f.Names(), name) {
			return true
		}
	}
	return false
}

// lacksValue says whether the last of options is one that wants a value, and
// not the value of the one before it.
func lacksValue(flags []cli.Flag, options []string) bool {
	for i := 0; i < len(options); i++ {
		if takesValue(flags, options[i]) {
			i++
			if i == len(options) {
				return true
			}
		}
	}
	return false
}

// wantsJSON says whether --json is among the options, before anything is
// parsed: a usage error too is printed in the form that was asked for.
func wantsJSON(args []string) bool {
	for _, a := range args {
		switch a {
		case "--":
			return false
		case "--json", "-json", "--json=true", "-json=true":
			return true
		}
	}
	return false
}
