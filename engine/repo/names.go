package repo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tarnfs/tarn/engine/outcome"
)

// RefName is the full name of a ref, which is its key: refs/heads/main.
type RefName string

const (
	refsPrefix  = "refs/"
	headsPrefix = "refs/heads/"
	tagsPrefix  = "refs/tags/"

	// maxName is the longest branch or tag name in bytes, so that
	// "refs/heads/<name>" and "work/<escaped name>" stay ordinary paths.
	maxName = 240
)

// BranchRef is the ref of a branch. The name is checked (CheckName).
func BranchRef(name string) (RefName, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	return RefName(headsPrefix + name), nil
}

// TagRef is the ref of a tag. The name is checked (CheckName).
func TagRef(name string) (RefName, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	return RefName(tagsPrefix + name), nil
}

// ParseRefName reads refs/heads/<branch> or refs/tags/<tag>.
func ParseRefName(s string) (RefName, error) {
	if name, ok := strings.CutPrefix(s, headsPrefix); ok {
		return BranchRef(name)
	}
	if name, ok := strings.CutPrefix(s, tagsPrefix); ok {
		return TagRef(name)
	}
	return "", badName(s, "must start with refs/heads/ or refs/tags/")
}

// Branch is the name of the branch; ok is false for a tag.
func (n RefName) Branch() (name string, ok bool) { return strings.CutPrefix(string(n), headsPrefix) }

// Tag is the name of the tag; ok is false for a branch.
func (n RefName) Tag() (name string, ok bool) { return strings.CutPrefix(string(n), tagsPrefix) }

// Words is how the ref is named to people: "branch main", "tag v1".
func (n RefName) Words() string {
	if name, ok := n.Branch(); ok {
		return "branch " + name
	}
	if name, ok := n.Tag(); ok {
		return "tag " + name
	}
	return string(n)
}

// CheckName returns nil when name can be a branch or a tag: the rules of
// git check-ref-format, those of git for branches (no leading '-', not HEAD,
// not '@'), and three of ours: valid UTF-8, no control characters beyond ASCII,
// at most 240 bytes. Otherwise ErrBadName with the rule that is broken.
func CheckName(name string) error {
	if why := nameFault(name); why != "" {
		return badName(name, why)
	}
	return nil
}

func badName(name, why string) error {
	return fail(ErrBadName, outcome.Usage, nil, "choose a name that git would take for a branch", "%q is not a branch or tag name: it %s", clip(name), why)
}

// nameFault names the broken rule, numbered as in git-check-ref-format(1).
// Rule 2, at least one slash, holds by the prefix of every ref.
func nameFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxName:
		return fmt.Sprintf("has %d bytes, more than %d", len(name), maxName)
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case name == "@": // 9
		return "is only '@'"
	case name == "HEAD":
		return "is HEAD"
	case name[0] == '-':
		return "starts with '-'"
	case strings.Contains(name, ".."): // 3
		return "holds '..'"
	case strings.Contains(name, "@{"): // 8
		return "holds '@{'"
	case strings.HasPrefix(name, "/"), strings.HasSuffix(name, "/"), strings.Contains(name, "//"): // 6
		return "has an empty part: a slash at its start or end, or two together"
	case strings.HasSuffix(name, "."): // 7
		return "ends in a dot"
	}
	for _, c := range name {
		switch {
		case unicode.IsControl(c): // 4, and the controls of Latin-1
			return "holds a control character"
		case strings.ContainsRune(` ~^:?*[\`, c): // 4, 5, 10
			return fmt.Sprintf("holds %q", c)
		}
	}
	for part := range strings.SplitSeq(name, "/") { // 1
		if strings.HasPrefix(part, ".") {
			return "has a part that starts with a dot"
		}
		if strings.HasSuffix(part, ".lock") {
			return "has a part that ends in .lock"
		}
	}
	return ""
}

// parents are the names that would have to be folders for n to exist:
// refs/heads/a and refs/heads/a/b for refs/heads/a/b/c.
func (n RefName) parents() []RefName {
	kind := headsPrefix
	if _, ok := n.Tag(); ok {
		kind = tagsPrefix
	}
	var list []RefName
	for i := len(kind); i < len(n); i++ {
		if n[i] == '/' {
			list = append(list, n[:i])
		}
	}
	return list
}

// maxEscaped is the longest folder name in bytes.
const maxEscaped = 255

// EscapeBranch makes one folder name of a branch name: '%' and '/' are written
// %25 and %2F. A name too long for that ends in a hash of the whole instead,
// and UnescapeBranch cannot read it back.
func EscapeBranch(name string) string {
	s := strings.NewReplacer("%", "%25", "/", "%2F").Replace(name)
	if len(s) <= maxEscaped {
		return s
	}
	sum := sha256.Sum256([]byte(name))
	// "%-" never comes out of the replacer, so the two forms cannot meet.
	tail := "%-" + hex.EncodeToString(sum[:16])
	s = s[:maxEscaped-len(tail)]
	for !utf8.ValidString(s) { // not in the middle of a character
		s = s[:len(s)-1]
	}
	return s + tail
}

// UnescapeBranch is the branch that EscapeBranch made a folder name of; ok is
// false for every other text.
func UnescapeBranch(folder string) (name string, ok bool) {
	name = strings.NewReplacer("%25", "%", "%2F", "/").Replace(folder)
	if nameFault(name) != "" || EscapeBranch(name) != folder {
		return "", false
	}
	return name, true
}
