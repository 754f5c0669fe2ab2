package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// badFiles are files a commit refuses: name, content, and the two lines of
// FAILED.txt that say so.
var badFiles = []struct {
	name, file, content, want string
}{
	{"csv with a bad value", "tables/main/t/b.csv", "x,y\n1,one\nzwei,two\n",
		"commit refused: tables/main/t/b.csv line 3, column x: \"zwei\" is not a BIGINT (wanted by table main.t)\n" +
			"nothing was changed; your files are still here. Fix or remove b.csv, then: touch .commit\n"},
	{"not parquet", "tables/main/t/b.parquet", "this is no Parquet file",
		"commit refused: tables/main/t/b.parquet is not a Parquet file: it does not begin with PAR1\n" +
			"nothing was changed; your files are still here. Fix or remove b.parquet, then: touch .commit\n"},
	{"empty parquet", "tables/main/t/b.parquet", "",
		"commit refused: tables/main/t/b.parquet is empty\n" +
			"nothing was changed; your files are still here. Fix or remove b.parquet, then: touch .commit\n"},
	{"empty csv", "tables/main/t/b.csv", "",
		"commit refused: tables/main/t/b.csv is empty\n" +
			"nothing was changed; your files are still here. Fix or remove b.csv, then: touch .commit\n"},
	{"wrong columns", "tables/main/t/b.csv", "x,z\n1,2\n",
		"commit refused: tables/main/t/b.csv, column y: missing, wanted VARCHAR (table main.t)\n" +
			"nothing was changed; your files are still here. Add the column, or set allow_schema_change in meta/options.toml, then: touch .commit\n"},
	{"unknown form", "tables/main/t/b.xlsx", "PK\x03\x04",
		"commit refused: tables/main/t/b.xlsx is not Parquet, CSV or JSON lines\n" +
			"nothing was changed; your files are still here. Fix or remove b.xlsx, then: touch .commit\n"},
	{"case clash", "tables/main/T/b.csv", "x,y\n1,one\n",
		"commit refused: tables/main/T: the name differs from table main.t only in case\n" +
			"nothing was changed; your files are still here. Rename it, then: touch .commit\n"},
}

// TestBadFiles: each bad file is refused with a clear line, and the staged
// bytes are the same before and after.
func TestBadFiles(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x,y\n1,one\n")
	sb.must(w, "touch .commit .push")
	for _, tc := range badFiles {
		t.Run(tc.name, func(t *testing.T) {
			path := sb.write(filepath.Join(w, tc.file), tc.content)
			before := sb.must(w, "stat -c '%s %Y %a' "+tc.file)
			out := sb.fails(w, "touch .commit")
			if !strings.Contains(out, "Invalid argument") {
				t.Errorf("touch: %s", out)
			}
			if got := sb.must(w, "cat FAILED.txt"); got != tc.want {
				t.Errorf("FAILED.txt:\n%s\nwant\n%s", got, tc.want)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != tc.content {
				t.Errorf("staged bytes after the refusal: %q %v", got, err)
			}
			if after := sb.must(w, "stat -c '%s %Y %a' "+tc.file); after != before {
				t.Errorf("stat after the refusal: %s, before %s", after, before)
			}
			if out := sb.fails(w, "touch .push"); !strings.Contains(out, "touch") {
				t.Errorf("push after a failed commit: %s", out)
			}
			// The commands say the same, with the exit code of the table.
			r := sb.sh(w, "tarn commit")
			if r.code != 12 {
				t.Errorf("tarn commit: exit code %d, want 12\n%s", r.code, r.out)
			}
			sb.must(w, "rm "+tc.file+"; rmdir tables/main/T 2>/dev/null; touch .commit .push")
			if r := sb.sh(w, "cat FAILED.txt"); r.code == 0 {
				t.Errorf("FAILED.txt is still there after a success: %s", r.out)
			}
		})
	}
}

// TestBadCommands: what a command says to bad arguments, and its exit code.
func TestBadCommands(t *testing.T) {
	needFUSE(t)
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo+" && mkdir full inside && touch full/x file && mkdir "+sb.repo+"/inner")
	sb.mount()
	second := filepath.Join(sb.dir, "second")
	if err := os.Mkdir(second, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, cmd string
		code      int
		want      string // first line of stderr, with paths shortened
	}{
		{"not a repository", "tarn mount $D/inside $D/second", 10, "tarn: not a repository: $D/inside has no fdl.json"},
		{"no such repository", "tarn mount $D/none $D/second", 10, "tarn: no such repository: $D/none"},
		{"mount point missing", "tarn mount $R $D/missing", 10, "tarn: mount point $D/missing does not exist"},
		{"mount point is a file", "tarn mount $R $D/file", 2, "tarn: mount point $D/file is not a directory"},
		{"mount point not empty", "tarn mount $R $D/full", 11, "tarn: mount point $D/full is not empty"},
		{"already mounted", "tarn mount $R $M", 11, "tarn: $M is already a mount point"},
		{"inside the repository", "tarn mount $R $R/inner", 2, "tarn: mount point $R/inner lies inside the repository $R"},
		{"no such branch", "tarn --repo $R log nope", 10, "tarn: no such branch, tag or version: nope"},
		{"second daemon", "tarn mount $R $D/second", 11, "tarn: the working folder of branch main is in use"},
		{"unknown flag", "tarn mount --nope", 2, "tarn: unknown flag: --nope"},
		{"no command", "tarn nope", 2, "tarn: no such command: nope"},
		{"init twice", "tarn init $R", 14, "tarn: already a repository: $R"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			repl := strings.NewReplacer("$D", sb.dir, "$R", sb.repo, "$M", sb.mnt)
			r := sb.sh("/", repl.Replace(tc.cmd))
			if r.code != tc.code {
				t.Errorf("exit code %d, want %d\n%s", r.code, tc.code, r.out)
			}
			lines := strings.Split(strings.TrimRight(r.out, "\n"), "\n")
			if len(lines) != 2 {
				t.Errorf("want one line what and one line what to do, got %d:\n%s", len(lines), r.out)
			}
			if want := repl.Replace(tc.want); !strings.HasPrefix(lines[0], want) {
				t.Errorf("got  %s\nwant %s...", lines[0], want)
			}
		})
	}
}
