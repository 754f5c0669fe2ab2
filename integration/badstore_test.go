package integration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// brokenPlace is where a repository lies whose objects a test damages.
type brokenPlace struct {
	name string
	url  string
	root string // its objects are the files below it
	good string // what they were before
	sb   *sandbox
}

// brokenPlaces are a folder, an S3 server and tarn serve, each with the same
// repository of two versions.
func brokenPlaces(t *testing.T) []*brokenPlace {
	t.Helper()
	s := servers.Versitygw(t)
	sb := onStore(t, s)
	sb.env = append(sb.env, "TARN_TOKEN="+writeToken)
	sb.damaged = true
	good := filepath.Join(sb.dir, "good.lake")
	sb.must(sb.dir, "tarn init "+good+" && tarn --repo "+good+" checkout main co")
	for _, name := range []string{"a", "b"} {
		sb.write(filepath.Join(sb.dir, "co/tables/main/t", name+".csv"), "x,y\n1,"+name+"\n2,"+name+"\n")
		sb.must(sb.dir, "cd co && tarn commit && tarn push")
	}
	sb.must(sb.dir, "rm -r co && tarn clone "+good+" '"+s.URL("lake")+"' && cp -a "+good+" folder.lake && cp -a "+good+" served.lake")
	w := newWebServer(sb, filepath.Join(sb.dir, "served.lake"))
	list := []*brokenPlace{
		{name: "folder", url: filepath.Join(sb.dir, "folder.lake")},
		{name: "versitygw", url: s.URL("lake"), root: filepath.Join(s.Dir, servers.Bucket, "lake")},
		{name: "tarn serve", url: w.address, root: w.repo},
	}
	for _, p := range list {
		p.sb = sb
		if p.root == "" {
			p.root = p.url
		}
		p.good = filepath.Join(sb.dir, "good-"+strings.ReplaceAll(p.name, " ", "-"))
		sb.must(sb.dir, "cp -a "+p.root+" "+p.good)
	}
	return list
}

// reset makes the repository whole again, and the user one who has not seen it.
func (p *brokenPlace) reset() {
	p.sb.t.Helper()
	p.sb.must(p.sb.dir, "rm -rf copy.lake co home/state/tarn home/cache/tarn && find "+p.root+" -mindepth 1 -delete && cp -a "+p.good+"/. "+p.root) // a server has the folder open
}

// version is the folder of main's version.
func (p *brokenPlace) version(t testing.TB) string {
	t.Helper()
	id, err := os.ReadFile(filepath.Join(p.good, "refs/heads/main"))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(p.root, "versions", strings.TrimSpace(string(id)))
}

// put overwrites a file, and with its sha256 the version.json beside it, so
// that it is believed.
func (p *brokenPlace) put(t testing.TB, name, text string) {
	t.Helper()
	path := p.path(t, name)
	p.write(t, path, []byte(text))
	if filepath.Dir(path) != p.version(t) || name == "version.json" {
		return
	}
	meta := filepath.Join(p.version(t), "version.json")
	old, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(old, &doc); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	doc["sha256"].(map[string]any)[name] = hex.EncodeToString(sum[:])
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, meta, data)
}

// write keeps the file and what the server notes beside its bytes.
func (p *brokenPlace) write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// path finds a file of the tip, or of the root; "data": a data file.
func (p *brokenPlace) path(t testing.TB, name string) string {
	t.Helper()
	switch name {
	case "version.json", "files.json", "dataset.json", "ducklake.duckdb":
		return filepath.Join(p.version(t), name)
	case "data":
		found, err := filepath.Glob(filepath.Join(p.root, "data/main/t/a-*.parquet"))
		if err != nil || len(found) != 1 {
			t.Fatalf("data file: %v, %v", found, err)
		}
		return found[0]
	}
	return filepath.Join(p.root, name)
}

// change edits a file in place, its sha256 in version.json left as it is.
func (p *brokenPlace) change(t testing.TB, name string, edit func([]byte) []byte) {
	t.Helper()
	path := p.path(t, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, path, edit(data))
}

// tree is a hash over names and bytes of everything in the repository.
func (p *brokenPlace) tree() string {
	p.sb.t.Helper()
	// A file of a gigabyte is a hole; its size says enough.
	return p.sb.must(p.root, `find . -type f -size -1G ! -path '*/.tarn*' -exec sha256sum {} + | sort | sha256sum; find . -type f -size +900M -printf '%p %s\n'`)
}

// mostMemory is how many bytes a command may use, its worker included: DuckDB
// alone takes some two hundred million.
const mostMemory = 500 << 20

// measured runs a command and gives how it ended and the memory it took.
func (p *brokenPlace) measured(script string) (result, int64) {
	p.sb.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := p.sb.command(ctx, p.sb.dir, "bash", "-c", "exec "+script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var ended *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &ended) {
		p.sb.t.Fatalf("%s: %v, %v\n%s", script, err, ctx.Err(), out.String())
	}
	return result{out.String(), cmd.ProcessState.ExitCode()}, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// badObject is a damage and what is said of it.
type badObject struct {
	name   string
	damage func(t testing.TB, p *brokenPlace)
	cmd    string // $R is the repository
	code   int
	want   string // in the first line
	verify int    // what verify --data ends with; 0: not asked
}

func cut(name string) func(testing.TB, *brokenPlace) {
	return func(t testing.TB, p *brokenPlace) {
		p.change(t, name, func(b []byte) []byte { return b[:len(b)/2] })
	}
}

func flip(name string) func(testing.TB, *brokenPlace) {
	return func(t testing.TB, p *brokenPlace) {
		p.change(t, name, func(b []byte) []byte {
			b[len(b)/2] ^= 0x10
			return b
		})
	}
}

func text(name, content string) func(testing.TB, *brokenPlace) {
	return func(t testing.TB, p *brokenPlace) { p.put(t, name, content) }
}

func gone(name string) func(testing.TB, *brokenPlace) {
	return func(t testing.TB, p *brokenPlace) {
		if err := os.RemoveAll(p.path(t, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// grown is a file of a gigabyte that begins as JSON; the rest is a hole.
func grown(name string) func(testing.TB, *brokenPlace) {
	return func(t testing.TB, p *brokenPlace) {
		p.put(t, name, `{"files": [], "title": "`)
		if err := os.Truncate(p.path(t, name), 1<<30); err != nil {
			t.Fatal(err)
		}
	}
}

// otherPath puts a path into files.json.
func otherPath(path string) func(testing.TB, *brokenPlace) {
	return func(t testing.TB, p *brokenPlace) {
		data, err := os.ReadFile(p.path(t, "files.json"))
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		doc["files"].([]any)[0].(map[string]any)["path"] = path
		if data, err = json.Marshal(doc); err != nil {
			t.Fatal(err)
		}
		p.put(t, "files.json", string(data))
	}
}

// deep is JSON of ten thousand levels.
var deep = `{"x": ` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + "}"

const (
	logCmd      = "tarn --repo '$R' log"
	showCmd     = "tarn --repo '$R' show main"
	sqlCmd      = "tarn sql --csv --repo '$R' main 'SELECT sum(x) FROM t'"
	checkoutCmd = "tarn --repo '$R' checkout main co"
	cloneCmd    = "tarn clone '$R' copy.lake"
)

func badObjects() []badObject {
	list := []badObject{
		{"not a repository", gone("fdl.json"), logCmd, 10, "not a repository", 10},
		{"no HEAD", gone("HEAD"), logCmd, 19, "HEAD", 1},
		{"no refs", gone("refs"), "tarn --repo '$R' log main", 10, "main", 0},
		{"no versions", gone("versions"), logCmd, 19, "version", 1},
		{"no version.json", gone("version.json"), logCmd, 19, "version", 1},
		{"no files.json", gone("files.json"), showCmd, 19, "files.json", 1},
		{"no dataset.json", gone("dataset.json"), showCmd, 19, "dataset.json", 1},
		{"no catalog", gone("ducklake.duckdb"), checkoutCmd, 19, "ducklake.duckdb", 1},
		{"no data", gone("data"), sqlCmd, 19, "data/main/t/", 1},
		{"fdl.json of later", text("fdl.json", `{"format_version": 99}`), logCmd, 12, "format_version 99", 12},
		{"data file vanished", gone("data"), sqlCmd, 19, "is missing from the repository", 1},
		{"data file shrank", cut("data"), sqlCmd, 19, "data/main/t/a-", 1},
		{"data file changed", flip("data"), cloneCmd, 19, "data/main/t/a-", 1},
	}
	for _, name := range []string{"version.json", "files.json", "dataset.json", "ducklake.duckdb"} {
		cmd := showCmd
		if name == "ducklake.duckdb" {
			cmd = checkoutCmd
		}
		list = append(list,
			badObject{name + " truncated", cut(name), cmd, 19, "is damaged", 1},
			badObject{name + " with a flipped bit", flip(name), cmd, 19, "is damaged", 1})
	}
	for _, name := range []string{"fdl.json", "version.json", "files.json", "dataset.json"} {
		cmd, verify := showCmd, 1
		if name == "fdl.json" {
			verify = 19
		}
		for what, content := range map[string]string{
			"duplicate keys":          `{"title": "a", "id": "b", "title": "c"}`,
			"a NUL":                   "{\"title\": \"a\x00b\"}",
			"an escaped NUL in a key": `{"\u0000": 1, "\u0000": 2}`,
			"invalid UTF-8":           "{\"title\": \"\xff\xfe\"}",
			"half a surrogate":        `{"title": "\ud800"}`,
			"ten thousand levels":     deep,
			"two documents":           `{} {}`,
			"nothing":                 "",
			"an array":                `[1, 2, 3]`,
			"a huge number":           `{"format_version": 1e999999999, "id": 1e999999999, "title": 1e999999999, "files": 1e999999999}`,
		} {
			list = append(list, badObject{name + " with " + what, text(name, content), cmd, 19, name, verify})
		}
		list = append(list, badObject{name + " of a gigabyte", grown(name), cmd, 19, name, verify})
	}
	for _, path := range []string{"../../etc/passwd", "/etc/passwd", "data/../../x.parquet", "data/main/t/../../../../x", "refs/heads/main", "data/", "", "data/a\x00b", "data//x"} {
		list = append(list, badObject{fmt.Sprintf("files.json with path %q", path), otherPath(path), showCmd, 19, "files.json line 1: files: path: ", 1})
	}
	for what, content := range map[string]string{
		"dots": "../../../etc/passwd\n", "absolute": "/etc/passwd\n", "4 KB": strings.Repeat("0", 4096), "empty": "", "binary": "\x00\xff\xfe\x7fELF", "two lines": strings.Repeat("019a7c1e-4f3b-7000-8000-000000000000\n", 2),
	} {
		list = append(list,
			badObject{"ref: " + what, text("refs/heads/main", content), logCmd, 19, "is damaged", 1},
			badObject{"HEAD: " + what, text("HEAD", content), logCmd, 19, "is damaged", 1},
			badObject{"HEAD's branch: " + what, text("HEAD", "ref: refs/heads/"+content), logCmd, 19, "is damaged", 1})
	}
	return list
}

// TestBadObjects: each damage of an object, in a folder, on S3 and over HTTP:
// one line that says what, one what to do, the exit code of the table, no byte
// of the repository changed, and no more memory than a good one needs.
func TestBadObjects(t *testing.T) {
	places := brokenPlaces(t)
	for _, tc := range badObjects() {
		t.Run(tc.name, func(t *testing.T) {
			for _, p := range places {
				p.reset()
				tc.damage(t, p)
				before := p.tree()
				r, memory := p.measured(strings.ReplaceAll(tc.cmd, "$R", p.url))
				first, _, _ := strings.Cut(r.out, "\n")
				if r.code != tc.code || !strings.Contains(first, tc.want) {
					t.Errorf("%s: exit code %d, want %d and %q\n%s", p.name, r.code, tc.code, tc.want, clip(r.out))
				}
				twoLines(t, p.name, r)
				if memory > mostMemory {
					t.Errorf("%s: %d MB of memory", p.name, memory>>20)
				}
				if tc.verify != 0 {
					v, memory := p.measured("tarn verify --data --repo '" + p.url + "'")
					if v.code != tc.verify || memory > mostMemory || strings.Contains(v.out, "goroutine") {
						t.Errorf("%s: verify ends with %d, want %d, and takes %d MB\n%s", p.name, v.code, tc.verify, memory>>20, clip(v.out))
					}
				}
				if after := p.tree(); after != before {
					t.Errorf("%s: something was written", p.name)
				}
			}
		})
	}
}

// twoLines: what happened and what to do, a line each.
func twoLines(t testing.TB, where string, r result) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "tarn: ") || !strings.HasPrefix(lines[1], "  ") || len(lines[0]) > 600 || strings.ContainsAny(r.out, "\x00\x1b") || !utf8.ValidString(r.out) {
		t.Errorf("%s: not one line what and one what to do:\n%q", where, clip(r.out))
	}
}

func clip(s string) string {
	if len(s) > 1500 {
		return s[:1500] + "..."
	}
	return s
}
