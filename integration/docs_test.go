package integration

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/outcome"
)

// The documentation says what the program does. These tests hold the parts of
// it that a change of the code makes untrue.

const root = ".."

func doc(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDocsOutcomes: docs/semantics.md lists every outcome with its errno and exit code.
func TestDocsOutcomes(t *testing.T) {
	_, table, found := strings.Cut(doc(t, "semantics.md"), "| outcome | errno | exit code |\n")
	if !found {
		t.Fatal("semantics.md has no table of outcomes")
	}
	errnos := map[int]string{} // by exit code
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 3 {
			break
		}
		if strings.HasPrefix(cells[0], "---") {
			continue
		}
		code, err := strconv.Atoi(cells[2])
		if err != nil {
			t.Errorf("row %q has no exit code", strings.TrimSpace(line))
			continue
		}
		if _, twice := errnos[code]; twice {
			t.Errorf("exit code %d is there twice", code)
		}
		errnos[code] = cells[1]
	}
	for o, row := range outcome.Table {
		got, ok := errnos[row.Exit]
		delete(errnos, row.Exit)
		want := "–"
		switch {
		case o == outcome.Done:
			want = "0"
		case o == outcome.Usage && got == "–": // a command's: how a mount says it is no promise
		case row.Errno != 0:
			want = unix.ErrnoName(row.Errno)
		}
		if !ok || got != want {
			t.Errorf("%s: semantics.md has errno %q for exit code %d, want %s", row.Name, got, row.Exit, want)
		}
	}
	for code, errno := range errnos {
		t.Errorf("semantics.md has exit code %d (%s), which no outcome has", code, errno)
	}
}

// TestDocsMessages: every message that docs/troubleshooting.md explains still
// occurs in the source, all its fixed words in one file.
func TestDocsMessages(t *testing.T) {
	sources := literals(t)
	entry := regexp.MustCompile("(?m)^(?:###|-) `([^`]+)`")
	entries := entry.FindAllStringSubmatch(doc(t, "troubleshooting.md"), -1)
	if len(entries) < 100 {
		t.Fatalf("only %d messages found: the test has shown nothing", len(entries))
	}
	seen := map[string]bool{}
	for _, m := range entries {
		if seen[m[1]] {
			t.Errorf("explained twice: %s", m[1])
		}
		seen[m[1]] = true
		words := fixedWords(m[1])
		if len(words) == 0 {
			t.Errorf("nothing but placeholders: %s", m[1])
			continue
		}
		said := false
		for _, text := range sources {
			said = said || containsAll(text, words)
		}
		if !said {
			t.Errorf("no program says this any more: %s", m[1])
		}
	}
}

var placeholder = regexp.MustCompile(`<[^>]*>`)

// fixedWords are the parts of a message between its placeholders.
func fixedWords(message string) []string {
	var out []string
	for _, part := range placeholder.Split(message, -1) {
		// Marks at the edge may come with the value.
		if part = strings.Trim(part, ` ".:,()/`); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// literals are the texts of each Go file that is not a test.
func literals(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || strings.HasPrefix(name, ".") && name != root {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, 0)
		if err != nil {
			return err
		}
		var b strings.Builder
		var bad error
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				bad = errors.Join(bad, err)
				b.WriteString(text + "\x00")
			}
			return true
		})
		out[p] = b.String()
		return bad
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDocsKeys: docs/format.md has the key of every table of the ledger.
func TestDocsKeys(t *testing.T) {
	text := doc(t, "format.md")
	for _, table := range catalog.Tables {
		var parts []string
		for _, p := range table.Key {
			switch {
			case p.Text:
				parts = append(parts, p.Column+" (text)")
			case p.Enum != nil:
				var names []string
				for i, name := range p.Enum {
					if name == "" {
						name = "none"
					}
					names = append(names, fmt.Sprintf("%d %s", i, name))
				}
				parts = append(parts, p.Column+" (u8: "+strings.Join(names, ", ")+")")
			default:
				parts = append(parts, p.Column)
			}
		}
		row := fmt.Sprintf("| `%02X` | %s | %s |\n", table.Tag, table.Name, strings.Join(parts, ", "))
		if !strings.Contains(text, row) {
			t.Errorf("format.md lacks the row %s", row)
		}
	}
}

// TestDocsConformance: every test that docs/conformance.md names is there, with
// its file, and every subtest that it quotes stands in the same file; each
// sentence of a contract has one, or is a difference with a reason.
func TestDocsConformance(t *testing.T) {
	named := regexp.MustCompile("`([a-z0-9_/]+_test\\.go) (Test[A-Za-z0-9]+)(?:/([^`]+))?`")
	all := named.FindAllStringSubmatch(doc(t, "conformance.md"), -1)
	if len(all) < 30 {
		t.Fatalf("only %d tests named: the test has shown nothing", len(all))
	}
	for _, name := range regexp.MustCompile("`Test[A-Za-z0-9]+").FindAllString(doc(t, "conformance.md"), -1) {
		t.Errorf("%s` is named without its file", name)
	}
	for line := range strings.Lines(doc(t, "conformance.md")) {
		cells := strings.Split(line, " | ")
		if len(cells) < 2 || !strings.HasPrefix(line, "| ") || cells[0] == "| sentence" || strings.HasPrefix(cells[0], "| ---") || cells[0] == "| fault" {
			continue
		}
		if !named.MatchString(line) && !strings.Contains(line, "the same subtest") {
			t.Errorf("nothing holds %q", strings.TrimPrefix(cells[0], "| "))
		}
	}
	for _, m := range all {
		src, err := os.ReadFile(filepath.Join(root, m[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(string(src), "func "+m[2]+"(t *testing.T)") {
			t.Errorf("%s has no %s", m[1], m[2])
		}
		if m[3] != "" && !strings.Contains(string(src), m[3]) {
			t.Errorf("%s: %s has no subtest %q", m[1], m[2], m[3])
		}
	}
}
