package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// versions counts the versions of a repository folder.
func (sb *sandbox) versions() int {
	ents, _ := os.ReadDir(filepath.Join(sb.repo, "versions"))
	return len(ents)
}

// dataFiles lists the stored files of a repository folder with their sizes.
func (sb *sandbox) dataFiles() string {
	return sb.must(sb.repo, `find data -type f -printf '%p %s\n' | sort`)
}

const makeParquet = `
import pyarrow as pa, pyarrow.parquet as pq, sys
path, start, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
pq.write_table(pa.table({"id": pa.array(range(start, start + n), pa.int64()), "name": [f"n{i}" for i in range(start, start + n)]}), path)
`

// TestSamePipelineTwice: the same files dropped again, under the same names,
// give the same rows and no new version.
func TestSamePipelineTwice(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	a := filepath.Join(sb.dir, "a.parquet")
	sb.python(sb.dir, makeParquet, a, "0", "100")
	csv := sb.write(filepath.Join(sb.dir, "b.csv"), "id,name\n1000,x\n1001,y\n")
	jsonl := sb.write(filepath.Join(sb.dir, "c.jsonl"), `{"id": 2000, "name": "j"}`+"\n")
	pipeline := "mkdir -p tables/main/t && cp " + a + " " + csv + " " + jsonl + " tables/main/t/ && touch .commit .push"
	count := func() string {
		return strings.TrimSpace(sb.python(sb.dir, `
import polars as pl, sys
print(pl.read_parquet(sys.argv[1] + "/*.parquet").height)`, sb.mnt+"/branches/main/tables/main/t"))
	}
	sb.must(sb.work(), pipeline)
	if got := count(); got != "103" {
		t.Fatalf("rows after the first run: %s, want 103", got)
	}
	stored, versions := sb.dataFiles(), sb.versions()
	for range 2 {
		sb.must(sb.work(), pipeline)
	}
	if got := count(); got != "103" {
		t.Errorf("rows after three runs: %s, want 103", got)
	}
	if sb.versions() != versions {
		t.Errorf("versions: %d, want %d", sb.versions(), versions)
	}
	if got := sb.dataFiles(); got != stored {
		t.Errorf("stored files changed:\n%s\nwant\n%s", got, stored)
	}
}

// TestRsyncRestoresAnOlderVersion: rsync -a --delete of an older version's
// tables restores it, and no byte is uploaded.
func TestRsyncRestoresAnOlderVersion(t *testing.T) {
	needProgram(t, "rsync")
	sb := newSandbox(t)
	sb.initAndMount()
	for _, f := range []string{"a", "b"} {
		sb.python(sb.dir, makeParquet, filepath.Join(sb.dir, f+".parquet"), "0", "50")
	}
	sb.python(sb.dir, makeParquet, filepath.Join(sb.dir, "b.parquet"), "50", "10")
	sb.must(sb.work(), "mkdir -p tables/main/t && cp "+sb.dir+"/a.parquet "+sb.dir+"/b.parquet tables/main/t/ && touch .commit .push")
	sb.must(sb.dir, "tarn -C "+sb.mnt+" tag v1")
	before := sb.must(sb.mnt, "cd tags/v1/tables && find . -type f -name '*.parquet' | sort | xargs sha256sum")

	sb.python(sb.dir, makeParquet, filepath.Join(sb.dir, "a.parquet"), "500", "7")
	sb.must(sb.work(), "cp "+sb.dir+"/a.parquet tables/main/t/ && rm tables/main/t/b.parquet && cp "+sb.dir+"/a.parquet tables/main/t/c.parquet && touch .commit .push")
	stored := sb.dataFiles()
	if out := sb.must(sb.mnt, "tarn diff v1 main"); !strings.Contains(out, "change main.t: ") {
		t.Errorf("tarn diff v1 main: %s", out)
	}
	if r := sb.sh(sb.mnt, "tarn diff --exit-code v1 main"); r.code != 1 {
		t.Errorf("tarn diff --exit-code: %d", r.code)
	}

	sb.must(sb.work(), "rsync -a --delete "+sb.mnt+"/tags/v1/tables/ tables/ && touch .commit .push")
	after := sb.must(sb.mnt, "cd branches/main/tables && find . -type f -name '*.parquet' | sort | xargs sha256sum")
	if after != before {
		t.Errorf("restored tables:\n%s\nwant\n%s", after, before)
	}
	if got := sb.dataFiles(); got != stored {
		t.Errorf("stored files changed by the restore:\n%s\nwant\n%s", got, stored)
	}
	// Again: nothing to do.
	versions := sb.versions()
	sb.must(sb.work(), "rsync -a --delete "+sb.mnt+"/tags/v1/tables/ tables/ && touch .commit .push")
	if sb.versions() != versions {
		t.Errorf("a second rsync made a version")
	}
}

// TestFilesAreTables covers the verbs of files: replace, append, remove,
// rename of file and table, drop with the option, column added.
func TestFilesAreTables(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	check := func(table, want string) {
		t.Helper()
		if got := sb.lakeRows(table); got != want {
			t.Errorf("%s: %s, want %s\n%s", table, got, want, sb.must(w, "cat status"))
		}
	}
	venv(t)
	sb.write(w+"/tables/main/t/a.csv", "x,y\n1,one\n2,two\n")
	sb.must(w, "touch .commit .push")
	check("t", "[(1, 'one'), (2, 'two')]")

	sb.write(w+"/tables/main/t/a.csv", "x,y\n3,three\n") // replace
	sb.write(w+"/tables/main/t/b.csv", "x,y\n4,four\n")  // append
	sb.must(w, "touch .commit .push")
	check("t", "[(3, 'three'), (4, 'four')]")

	sb.must(w, "mv tables/main/t/b.parquet tables/main/t/bb.parquet && touch .commit .push") // rename a file: rows stay
	check("t", "[(3, 'three'), (4, 'four')]")
	if got := sb.must(sb.mnt, "ls branches/main/tables/main/t"); got != "a.parquet\nbb.parquet\n" {
		t.Errorf("after renaming a file: %s", got)
	}

	sb.must(w, "rm tables/main/t/a.parquet && touch .commit .push") // remove
	check("t", "[(4, 'four')]")

	sb.must(w, "mv tables/main/t tables/main/u && touch .commit .push") // rename the table
	check("u", "[(4, 'four')]")
	sb.fails(sb.mnt, "ls branches/main/tables/main/t")

	sb.write(w+"/tables/main/u/c.csv", "x,y,z\n5,five,1.5\n") // a new column needs nothing
	sb.must(w, "touch .commit .push")
	check("u", "[(4, 'four', None), (5, 'five', 1.5)]")
	// The older file is shown with the table's columns.
	got := sb.python(sb.dir, `
import pyarrow.dataset as ds, sys
t = ds.dataset(sys.argv[1]).to_table().sort_by("x")
print(t.to_pylist())`, sb.mnt+"/branches/main/tables/main/u")
	if want := "[{'x': 4, 'y': 'four', 'z': None}, {'x': 5, 'y': 'five', 'z': 1.5}]\n"; got != want {
		t.Errorf("tables/ after an added column: %s, want %s", got, want)
	}

	sb.must(w, "rm tables/main/u/* && touch .commit .push") // the last file removed: a table with no rows
	check("u", "[]")
	sb.must(sb.mnt, "test -d branches/main/tables/main/u")

	sb.must(w, "rmdir tables/main/u") // DROP TABLE needs the option
	out := sb.fails(w, "touch .commit")
	if !strings.Contains(out, "Invalid argument") {
		t.Errorf("drop without the option: %s", out)
	}
	if got := sb.must(w, "cat FAILED.txt"); !strings.Contains(got, "main.u") || !strings.Contains(got, "allow_schema_change") {
		t.Errorf("FAILED.txt: %s", got)
	}
	sb.must(w, "echo 'allow_schema_change = true' > meta/options.toml && touch .commit .push")
	sb.fails(sb.mnt, "ls -d branches/main/tables/main/u")
}
