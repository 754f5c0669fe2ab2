package repo_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// The rules of git-check-ref-format(1), in their order and with their numbers.
func TestCheckNameFollowsGit(t *testing.T) {
	tests := []struct {
		rule string
		bad  []string
		good []string
	}{
		{"1 no part begins with a dot or ends with .lock",
			[]string{".a", "a/.b", ".", "a.lock", "a.lock/b", "a/b.lock"}, []string{"a.b", "a./b", "lock", "a.locked"}},
		{"2 at least one slash: given by refs/heads/", nil, []string{"a", "a/b", "a/b/c"}},
		{"3 no two dots together", []string{"a..b", "..", "../a", "a/../b", "a..", "..a"}, []string{"a.b.c"}},
		{"4 no control, space, tilde, caret, colon",
			[]string{"a b", "a~b", "a^b", "a:b", "a\x00b", "a\tb", "a\nb", "a\x1fb", "a\x7fb", " a", "a "}, []string{"a!b", "a\"b", "a#b$c%d&e'(f)+,;=<>|`{}]_-"}},
		{"5 no ? * [", []string{"a?b", "a*b", "a[b", "*", "refs/*"}, []string{"a]b"}},
		{"6 no slash at either end, no two together", []string{"/a", "a/", "a//b", "/", "//"}, nil},
		{"7 does not end with a dot", []string{"a.", "a/b."}, nil},
		{"8 no @{", []string{"a@{b", "@{", "a@{1}"}, []string{"a@b", "a{b}", "@a", "a@"}},
		{"9 not the single @", []string{"@"}, []string{"@@", "a/@"}},
		{"10 no backslash", []string{`a\b`}, nil},
		{"of git branch: no leading dash, not HEAD", []string{"-a", "-", "HEAD"}, []string{"a-b", "a/-b", "head", "HEAD/a", "refs/heads/x"}},
		{"ours: UTF-8, controls beyond ASCII, length",
			[]string{"", "a\xff", "a\u0085b", strings.Repeat("x", 241)}, []string{"größe", "枝", "a\u00a0b", strings.Repeat("x", 240)}},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			for _, name := range test.bad {
				err := repo.CheckName(name)
				if !errors.Is(err, repo.ErrBadName) || outcome.Of(err) != outcome.Usage {
					t.Errorf("%q: %v", name, err)
				}
				if err != nil && strings.ContainsAny(err.Error(), "\n\x00\x1b") {
					t.Errorf("the error for %q is not one clean line: %q", name, err)
				}
			}
			for _, name := range test.good {
				if err := repo.CheckName(name); err != nil {
					t.Errorf("%q: %v", name, err)
				}
			}
		})
	}
}

func TestRefName(t *testing.T) {
	for in, words := range map[string]string{"refs/heads/a/b": "branch a/b", "refs/tags/v1": "tag v1"} {
		ref, err := repo.ParseRefName(in)
		if err != nil || string(ref) != in || ref.Words() != words {
			t.Errorf("%s: %q, %q, %v", in, ref, ref.Words(), err)
		}
	}
	for _, in := range []string{"", "main", "refs/heads/", "refs/heads", "refs/remotes/a", "refs/heads/../a", "/refs/heads/a", "refs/heads/a/"} {
		if ref, err := repo.ParseRefName(in); !errors.Is(err, repo.ErrBadName) {
			t.Errorf("%q: %q, %v", in, ref, err)
		}
	}
}

func TestEscapeBranch(t *testing.T) {
	for name, want := range map[string]string{
		"main": "main", "a/b": "a%2Fb", "a%2Fb": "a%252Fb", "100%": "100%25", "größe/1": "größe%2F1",
		strings.Repeat("x", 240): strings.Repeat("x", 240),
	} {
		got := repo.EscapeBranch(name)
		if got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
		if back, ok := repo.UnescapeBranch(got); !ok || back != name {
			t.Errorf("%q comes back as %q, %v", got, back, ok)
		}
	}
	// Too long for a folder: still one valid name, still different for different branches.
	long := []string{strings.Repeat("é/", 80), strings.Repeat("é/", 79) + "é%", strings.Repeat("%", 240)}
	for i, name := range long {
		long[i] = repo.EscapeBranch(name)
		if len(long[i]) > 255 || strings.ContainsAny(long[i], "/") {
			t.Errorf("%q: %d bytes", long[i], len(long[i]))
		}
		if back, ok := repo.UnescapeBranch(long[i]); ok {
			t.Errorf("%q comes back as %q", long[i], back)
		}
	}
	slices.Sort(long)
	if len(slices.Compact(long)) != 3 {
		t.Errorf("two branches share a folder: %q", long)
	}
	for _, folder := range []string{"", "a/b", "%", "a%2fb", "..", "%2E%2E", "a%2F"} {
		if name, ok := repo.UnescapeBranch(folder); ok {
			t.Errorf("%q is taken for branch %q", folder, name)
		}
	}
}
