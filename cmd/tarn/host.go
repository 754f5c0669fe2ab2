package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// host is what a command takes from its process. Tests hand in another.
type host struct {
	Stdout, Stderr io.Writer
	Terminal       bool // stderr is a terminal: progress may be drawn
	Getenv         func(string) string
	Getwd          func() (string, error)
	// OnSecond replaces what a second signal does; nil: nothing listens.
	OnSecond func(func())
}

func processHost(s *stops) *host {
	h := &host{
		Stdout:   os.Stdout,
		Stderr:   os.Stderr,
		Terminal: term.IsTerminal(int(os.Stderr.Fd())),
		Getenv:   os.Getenv,
		Getwd:    currentFolder,
		OnSecond: s.onSecond,
	}
	// A mount from fstab has no HOME; libraries then look where nothing is, or fail.
	if home, err := h.home(); err == nil && os.Getenv("HOME") == "" {
		_ = os.Setenv("HOME", home)
	}
	return h
}

// currentFolder is os.Getwd also in a dead mount, where nothing can be looked
// at: the kernel still knows the path.
func currentFolder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		if known, kerr := unix.Getwd(); kerr == nil {
			return known, nil
		}
	}
	return dir, err
}

// document is what came of a verb: --json prints its JSON form, everybody
// else reads Text, which may be of several lines or empty.
type document interface{ Text() string }

// show prints what was asked for: status, log, diff.
func (c *call) show(d document) error {
	if c.JSON {
		return writeJSON(c.Stdout, d)
	}
	return writeText(c.Stdout, d.Text())
}

// report prints what was done; --quiet keeps it to itself.
func (c *call) report(d document) error {
	if c.Quiet && !c.JSON {
		return nil
	}
	return c.show(d)
}

// showLines prints one object a line with --json, else the text of the whole.
func showLines[T any](c *call, whole document, items []T) error {
	if !c.JSON {
		return c.show(whole)
	}
	for _, it := range items {
		if err := writeJSON(c.Stdout, it); err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // "Ann <ann@example.org>" is no web page
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	return nil
}

func writeText(w io.Writer, text string) error {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	_, err := io.WriteString(w, text+"\n")
	return err
}

// line is a document of one line, with the fields --json prints.
type line struct {
	text   string
	fields any
}

func (l line) Text() string                 { return l.text }
func (l line) MarshalJSON() ([]byte, error) { return json.Marshal(l.fields) }
