package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/tarnfs/tarn/engine/outcome"
)

// errorDoc is how an error looks with --json, on stderr and on the control
// socket. Part of the interface: fields are added, never changed.
type errorDoc struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Code    string `json:"code"` // outcome.Row.Name
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// describeError puts err into the two lines everybody gets.
func describeError(err error) errorBody {
	return errorBody{
		Code:    outcome.Of(err).String(),
		Message: oneLine(outcome.Message(err)),
		Hint:    oneLine(outcome.Next(err)),
	}
}

// asError turns what came over a socket or pipe into an error of the same outcome.
func (b errorBody) asError() error {
	for o, row := range outcome.Table {
		if row.Name == b.Code {
			return outcome.New(o, b.Message, b.Hint)
		}
	}
	return outcome.New(outcome.Internal, b.Message, b.Hint)
}

// finish prints err, when there is something to say, and gives the exit code.
func finish(w io.Writer, err error, asJSON bool) int {
	if err != nil {
		printError(w, err, asJSON)
	}
	return outcome.Of(err).Exit()
}

// printError writes one line what happened and one line what to do next. A
// difference is an exit code without words: what differs is on stdout.
func printError(w io.Writer, err error, asJSON bool) {
	if outcome.Of(err) == outcome.Difference {
		return
	}
	b := describeError(err)
	if asJSON {
		_ = writeJSON(w, errorDoc{b}) // a closed stderr has nobody to tell
		return
	}
	_, _ = fmt.Fprintf(w, "tarn: %s\n", b.Message)
	if b.Hint != "" {
		_, _ = fmt.Fprintf(w, "  %s\n", b.Hint)
	}
}

// oneLine keeps a message to one line: names of files and tables come from
// strangers and may hold line feeds or terminal codes.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return '\uFFFD'
		}
		return r
	}, strings.TrimSpace(s))
}

func usageError(format string, args ...any) error {
	return outcome.New(outcome.Usage, fmt.Sprintf(format, args...), "")
}
