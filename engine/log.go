package engine

import "strconv"

// Keys of log lines.
const (
	keyErr     = "err"
	keyVerb    = "verb"
	keyBranch  = "branch"
	keyVersion = "version"
	keyPath    = "path"
)

func itoa(n int) string { return strconv.Itoa(n) }

func keyText(parts []string) string {
	s := ""
	for i, p := range parts {
		if i > 0 {
			s += "."
		}
		s += p
	}
	return s
}
