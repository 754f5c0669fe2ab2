package main_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/tarnfs/tarn"

// layers is the direction of imports, top first: a package imports its own
// folder's packages and those of the folders named for it, never upwards. A
// folder that is not listed may import nothing of the module and be imported
// by nobody, so that a new one is placed here first.
//
//	cmd  ->  mount, fs, serve  ->  engine  ->  blobstore
var layers = map[string][]string{
	"cmd":       {"mount", "fs", "serve", "engine", "blobstore"},
	"mount":     {"engine/outcome"}, // knows go-fuse and how to report, not our engine
	"fs":        {"engine", "blobstore"},
	"serve":     {"engine/repo", "engine/outcome", "blobstore"}, // the format's rules, no tables
	"engine":    {"blobstore"},
	"blobstore": {},
	// The harness of the tests that need a mount; nothing imports it.
	"integration": {"cmd", "mount", "fs", "serve", "engine", "blobstore"},
}

// onlyIn says which folders, with all below them, may import a module that has
// reason to be kept apart.
var onlyIn = []struct {
	imported string // this import path and all below it
	folders  []string
	why      string
}{
	{"github.com/hanwen/go-fuse", []string{"fs", "mount", "integration/forgetful"}, "the engine is tested and used without a kernel"},
	{"github.com/duckdb", []string{"engine/lake/worker"}, "a crash in C++ may end only the worker"},
	{"modernc.org/sqlite", []string{"engine/lake/worker", "engine/kv/sqlitekv"}, "two SQLite libraries in one process ignore each other's locks"},
	{"gocloud.dev", []string{"blobstore"}, "errors of clouds are translated there alone"},
	{"github.com/urfave/cli", []string{"cmd"}, "run functions never see the command line library"},
	// The worker's side is linked by the command that runs it and nothing else.
	{module + "/engine/lake/worker", []string{"cmd", "engine/lake/worker"}, "DuckDB must not be linked into the daemon's packages"},
	{"github.com/prometheus/client_golang", []string{"serve"}, "only a server is asked for its counts"},
	{module + "/cmd", []string{"cmd"}, "nothing points back"},
	{module + "/integration", []string{"integration"}, "it is a test"},
}

func TestImports(t *testing.T) {
	root := moduleRoot(t)
	problems, files := checkImports(t, os.DirFS(root))
	for _, p := range problems {
		t.Error(p)
	}
	if files < 10 {
		t.Errorf("only %d files found below %s: the test has shown nothing", files, root)
	}
}

// moduleRoot is the nearest parent folder with a go.mod.
func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if data, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil {
			if !strings.HasPrefix(string(data), "module "+module+"\n") {
				t.Fatalf("%s is not of module %s", dir, module)
			}
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above this folder")
		}
		dir = up
	}
}

// checkImports reads the imports of every Go file below root that is not a
// test, whatever its build tags, and returns what breaks a rule.
func checkImports(t testing.TB, root fs.FS) (problems []string, files int) {
	t.Helper()
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		hidden := name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
		if d.IsDir() {
			if hidden || base == "testdata" || base == "vendor" {
				return fs.SkipDir // as the go tool does
			}
			return nil
		}
		if hidden || !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files++
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if why := forbidden(path.Dir(name), imported); why != "" {
				problems = append(problems, fmt.Sprintf("%s imports %s: %s", name, imported, why))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return problems, files
}

// forbidden says why a package in folder may not import what it imports, or
// nothing.
func forbidden(folder, imported string) string {
	if !within(imported, module) {
		return notOnlyIn(folder, imported)
	}
	target := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
	top, _, _ := strings.Cut(folder, "/")
	allowed, known := layers[top]
	switch targetTop, _, _ := strings.Cut(target, "/"); {
	case !known:
		return fmt.Sprintf("folder %s has no place in the direction of imports", top)
	case targetTop == top, slices.ContainsFunc(allowed, func(a string) bool { return within(target, a) }):
		return notOnlyIn(folder, imported)
	case len(allowed) == 0:
		return fmt.Sprintf("%s imports nothing else of this module", top)
	}
	return fmt.Sprintf("%s may import only %s of this module", top, strings.Join(allowed, ", "))
}

func notOnlyIn(folder, imported string) string {
	for _, rule := range onlyIn {
		if within(imported, rule.imported) && !slices.ContainsFunc(rule.folders, func(f string) bool { return within(folder, f) }) {
			return fmt.Sprintf("only %s may: %s", strings.Join(rule.folders, ", "), rule.why)
		}
	}
	return ""
}

// within reports whether p is parent or lies below it.
func within(p, parent string) bool { return p == parent || strings.HasPrefix(p, parent+"/") }

func TestImportRules(t *testing.T) {
	for _, test := range []struct {
		folder, imported string
		ok               bool
	}{
		{"cmd/tarn", module + "/mount", true},
		{"cmd/tarn", module + "/fs", true},
		{"cmd/tarn", module + "/engine/lake/worker", true},
		{"cmd/tarn", module + "/blobstore", true},
		{"cmd/tarn/deep", "github.com/urfave/cli/v2", true},
		{"cmd/tarn", "github.com/hanwen/go-fuse/v2/fs", false},
		{"cmd/tarn", "github.com/duckdb/duckdb-go/v2", false},
		{"cmd/tarn", "modernc.org/sqlite", false},
		{"cmd/tarn", "gocloud.dev/blob", false},
		{"cmd/tarn", module + "/integration", false},
		{"mount", "github.com/hanwen/go-fuse/v2/fuse", true},
		{"mount", module + "/engine/outcome", true},
		{"mount", module + "/engine", false},
		{"mount", module + "/engine/outcomes", false},
		{"mount", module + "/fs", false},
		{"mount", module + "/cmd/tarn", false},
		{"fs", module + "/engine/work", true},
		{"fs/sub", "github.com/hanwen/go-fuse/v2/fs", true},
		{"fs", module + "/engine/lake/worker", false},
		{"fs", module + "/mount", false},
		{"fs", "github.com/urfave/cli/v2", false},
		{"serve", module + "/engine/repo", true},
		{"serve", module + "/engine", false},
		{"serve", module + "/mount", false},
		{"engine", module + "/serve", false},
		{"engine", "github.com/prometheus/client_golang/prometheus", false},
		{"engine", module + "/engine/kv", true},
		{"engine/repo", module + "/blobstore", true},
		{"engine/repo", module + "/fs", false},
		{"engine/repo", module + "/mount/sub", false},
		{"engine/repo", "gocloud.dev/blob/memblob", false},
		{"engine/repo", "gocloud.development/x", true},
		{"engine/repo", "github.com/hanwen/go-fuse/v2/fuse", false},
		{"engine/lake", module + "/engine/lake/worker", false},
		{"engine/lake", "modernc.org/sqlite", false},
		{"engine/lake/worker", "github.com/duckdb/duckdb-go/v2", true},
		{"engine/lake/worker/sub", "modernc.org/sqlite/lib", true},
		{"engine/lake/workers", "modernc.org/sqlite", false},
		{"engine/kv/sqlitekv", "modernc.org/sqlite", true},
		{"engine/kv/sqlitekv", "github.com/duckdb/duckdb-go/v2", false},
		{"blobstore", "gocloud.dev/blob/s3blob", true},
		{"blobstore/blobtest", module + "/blobstore", true},
		{"blobstore", module + "/engine/outcome", false},
		{"blobstore", module + "/cmd/tarn", false},
		{"util", module + "/blobstore", false},
		{"util", "fmt", true},
		{"engine", module + "/util", false},
		{".", module + "/engine", false},
		{"integration", module + "/engine", true},
		{"integration", "github.com/duckdb/duckdb-go/v2", false},
	} {
		why := forbidden(test.folder, test.imported)
		if (why == "") != test.ok {
			t.Errorf("%s imports %s: %q, want it allowed: %v", test.folder, test.imported, why, test.ok)
		}
	}
}

// The walk finds files in nested folders and of every build tag, and names
// file and import.
func TestCheckImportsFindsThem(t *testing.T) {
	dir := t.TempDir()
	for name, src := range map[string]string{
		"engine/a/b/deep.go":       "package b\nimport _ \"" + module + "/fs\"\n",
		"engine/tagged.go":         "//go:build slatedb\n\npackage engine\nimport (\n\t\"fmt\"\n\tsql \"modernc.org/sqlite\"\n)\n",
		"engine/a_test.go":         "package engine\nimport _ \"" + module + "/fs\"\n",
		"engine/testdata/x.go":     "package x\nimport _ \"" + module + "/fs\"\n",
		".hidden/x.go":             "package x\nimport _ \"" + module + "/fs\"\n",
		"engine/kv/sqlitekv/ok.go": "package sqlitekv\nimport _ \"modernc.org/sqlite\"\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, files := checkImports(t, os.DirFS(dir))
	want := []string{
		"engine/a/b/deep.go imports " + module + "/fs: engine may import only blobstore of this module",
		"engine/tagged.go imports modernc.org/sqlite: only engine/lake/worker, engine/kv/sqlitekv may: two SQLite libraries in one process ignore each other's locks",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if files != 3 {
		t.Errorf("read %d files, want 3", files)
	}
}

// TestDependenciesExplained: docs/dependencies.md says of each module that
// go.mod requires for our own code why it was chosen. A row for a folder of
// modules stands for all below it.
func TestDependenciesExplained(t *testing.T) {
	root := os.DirFS(moduleRoot(t))
	page, err := fs.ReadFile(root, "docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := fs.ReadFile(root, "go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var explained []string
	for _, line := range strings.Split(string(page), "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 4 {
			for i, name := range strings.Split(cells[1], "`") {
				if i%2 == 1 {
					explained = append(explained, name)
				}
			}
		}
	}
	direct := 0
	for _, line := range strings.Split(string(mod), "\n") {
		name, version, ok := strings.Cut(strings.TrimPrefix(line, "\t"), " v")
		if !ok || !strings.HasPrefix(line, "\t") || strings.Contains(version, "// indirect") {
			continue
		}
		direct++
		if !slices.ContainsFunc(explained, func(e string) bool { return within(name, e) }) {
			t.Errorf("docs/dependencies.md does not say why %s was chosen", name)
		}
	}
	if direct < 20 {
		t.Errorf("only %d direct modules read from go.mod: the test has shown nothing", direct)
	}
}
