package engine

import (
	"fmt"
	"strings"
)

// author says who commits.
func (c *committing) author() string {
	for _, a := range []string{c.o.Author, c.opts.Author, c.w.e.o.Author} {
		if a != "" {
			return a
		}
	}
	return "unknown"
}

// message is what was asked for, else what changed.
func (c *committing) message(changes []string) string {
	for _, m := range []string{c.o.Message, c.opts.Message} {
		if m = strings.TrimSpace(m); m != "" {
			return m
		}
	}
	return defaultMessage(changes)
}

// defaultMessage names what changed, the first few in full.
func defaultMessage(changes []string) string {
	const most = 3
	switch n := len(changes); {
	case n == 0:
		return "no change"
	case n <= most:
		return strings.Join(changes, "; ")
	default:
		return strings.Join(changes[:most], "; ") + fmt.Sprintf("; and %d more", n-most)
	}
}
