package integration

import (
	"os"
	"path/filepath"
	"regexp"
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
		"commit refused: tables/main/t/b.parquet: not a Parquet file: it does not begin with PAR1\n" +
			"nothing was changed; your files are still here. Fix or remove b.parquet, then: touch .commit\n"},
	{"empty parquet", "tables/main/t/b.parquet", "",
		"commit refused: tables/main/t/b.parquet is empty\n" +
			"nothing was changed; your files are still here. Fix or remove b.parquet, then: touch .commit\n"},
	{"empty csv", "tables/main/t/b.csv", "",
		"commit refused: tables/main/t/b.csv is empty\n" +
			"nothing was changed; your files are still here. Fix or remove b.csv, then: touch .commit\n"},
	{"wrong columns", "tables/main/t/b.csv", "x,z\n1,2\n",
		"commit refused: tables/main/t/b.csv, column y: not in the file, wanted VARCHAR (table main.t)\n" +
			"nothing was changed; your files are still here. Add the column to the file, or set allow_schema_change = true in meta/options.toml to leave it NULL, then: touch .commit\n"},
	{"truncated parquet", "tables/main/t/b.parquet", "PAR1" + strings.Repeat("x", 100),
		"commit refused: tables/main/t/b.parquet: not a Parquet file: it begins with PAR1 but does not end with it (cut short?)\n" +
			"nothing was changed; your files are still here. Fix or remove b.parquet, then: touch .commit\n"},
	{"a name no table can have", "tables/main/t/sub/b.csv", "x,y\n1,one\n",
		"commit refused: tables/main/t/sub/b.csv lies in a subfolder of the table's folder\n" +
			"nothing was changed; your files are still here. Put the files of the table in its folder itself; if the name of the subfolder is a value, write it into a column first, then: touch .commit\n"},
	{"a hidden DuckLake name", "tables/information_schema/t/b.csv", "x,y\n1,one\n",
		"commit refused: tables/information_schema/t/b.csv: schema name \"information_schema\" is a name that DuckDB keeps for itself\n" +
			"nothing was changed; your files are still here. Rename the folder, then: touch .commit\n"},
	{"compressed csv", "tables/main/t/b.csv.gz", "\x1f\x8b",
		"commit refused: tables/main/t/b.csv.gz is compressed as a whole: the files of a table are Parquet, CSV or JSON lines\n" +
			"nothing was changed; your files are still here. Unpack b.csv.gz, then: touch .commit\n"},
	{"not UTF-8", "tables/main/t/b.csv", "x,y\n1,\xff\xfe\n",
		"commit refused: tables/main/t/b.csv line 2: field 2 is not UTF-8\n" +
			"nothing was changed; your files are still here. Fix or remove b.csv, then: touch .commit\n"},
	{"ragged csv", "tables/main/t/b.csv", "x,y\n1,one,more\n",
		"commit refused: tables/main/t/b.csv line 2: 3 fields, wanted 2\n" +
			"nothing was changed; your files are still here. Fix or remove b.csv, then: touch .commit\n"},
	{"broken json", "tables/main/t/b.jsonl", "{\"x\": 1, \"y\": \"one\"}\n{\"x\": 2,\n",
		"commit refused: tables/main/t/b.jsonl line 2: Malformed JSON: unexpected end of data\n" +
			"nothing was changed; your files are still here. Fix or remove b.jsonl, then: touch .commit\n"},
	{"json of another type", "tables/main/t/b.jsonl", "{\"x\": \"eins\", \"y\": \"one\"}\n",
		"commit refused: tables/main/t/b.jsonl line 1, column x: \"eins\" is not a BIGINT (wanted by table main.t)\n" +
			"nothing was changed; your files are still here. Fix or remove b.jsonl, then: touch .commit\n"},
	{"unknown form", "tables/main/t/b.xlsx", "PK\x03\x04",
		"commit refused: tables/main/t/b.xlsx is not Parquet, CSV or JSON lines\n" +
			"nothing was changed; your files are still here. Fix or remove b.xlsx, then: touch .commit\n"},
	{"case clash", "tables/main/T/b.csv", "x,y\n1,one\n",
		"commit refused: tables/main/T/b.csv: the name differs only in case from \"main.t\"\n" +
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

var pids = regexp.MustCompile(`pid \d+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}-[0-9a-f]{12}`)

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
		want      string // all of it, with paths shortened
	}{
		{"not a repository", "tarn mount $D/inside $D/second", 10,
			"tarn: not a repository: $D/inside has no fdl.json\n  to make one: tarn init $D/inside\n"},
		{"no such repository", "tarn mount $D/none $D/second", 10,
			"tarn: no such repository: $D/none\n  check the path; to make one: tarn init $D/none\n"},
		{"mount point missing", "tarn mount $R $D/missing", 10,
			"tarn: mount point $D/missing does not exist\n  make it with: mkdir -p $D/missing\n"},
		{"mount point is a file", "tarn mount $R $D/file", 2,
			"tarn: mount point $D/file is not a folder\n  name an empty folder\n"},
		{"mount point not empty", "tarn mount $R $D/full", 2,
			"tarn: mount point $D/full is not empty: it holds x\n  name an empty folder, or allow it with --allow-non-empty\n"},
		{"already mounted", "tarn mount $R $M", 11,
			"tarn: $R is already mounted at $M\n  use it, or end it first: tarn umount $M\n"},
		{"inside the repository", "tarn mount $R $R/inner", 2,
			"tarn: mount point $R/inner and the repository $R lie in one another\n  name a folder outside of it\n"},
		{"no such branch", "tarn --repo $R log nope", 10,
			"tarn: $R has no branch, tag or version \"nope\"\n  tarn branch, tarn tag and tarn log list what there is\n"},
		{"second daemon", "tarn mount $R $D/second", 11,
			"tarn: working folder $D/home/state/tarn/pid N/work/main is in use by tarn (pid N)\n  end that process, or run the command on its mount\n"},
		{"unknown flag", "tarn mount --nope", 2,
			"tarn: unknown flag: --nope\n  see: tarn help mount\n"},
		{"no command", "tarn nope", 2,
			"tarn: no such command: nope\n  see: tarn help\n"},
		{"init twice", "tarn init $R", 14,
			"tarn: $R is already a repository: it has fdl.json\n  mount or open it as it is, or choose another place\n"},
		{"bad branch name", "tarn --repo $R branch 'a..b'", 2,
			"tarn: \"a..b\" is not a branch or tag name: it holds '..'\n  choose a name that git would take for a branch\n"},
		{"bad date", "tarn --repo $R log main@yesterday", 2,
			"tarn: \"yesterday\" is not a date\n  write a day as 2026-10-12, or a time as 2026-10-12T14:03:05Z\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			repl := strings.NewReplacer("$D", sb.dir, "$R", sb.repo, "$M", sb.mnt)
			shown := strings.NewReplacer(sb.repo, "$R", sb.mnt, "$M", sb.dir, "$D")
			r := sb.sh("/", repl.Replace(tc.cmd))
			if r.code != tc.code {
				t.Errorf("exit code %d, want %d\n%s", r.code, tc.code, r.out)
			}
			got := shown.Replace(pids.ReplaceAllString(r.out, "pid N"))
			if got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}
