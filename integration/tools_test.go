package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// last is the first line of log: the newest version of the working folder.
func (sb *sandbox) last(work string) string {
	sb.t.Helper()
	return sb.must(work, "head -n 1 log")
}

// wantClean fails unless the working folder has nothing to commit and no failure.
func (sb *sandbox) wantClean(work string) {
	sb.t.Helper()
	if got := sb.must(work, "cat status"); !strings.Contains(got, "Nothing to commit.") || strings.Contains(got, "failed") {
		sb.t.Errorf("status: %s", got)
	}
}

// TestToolsThatWriteFiles: each tool's own way of writing ends, after a commit,
// in exactly the rows of its file.
func TestToolsThatWriteFiles(t *testing.T) {
	for _, p := range []string{"rsync", "vim", "tar", "install"} {
		needProgram(t, p)
	}
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	src := filepath.Join(sb.dir, "src")
	sb.write(src+"/a.csv", "x,y\n1,one\n2,two\n")
	sb.write(w+"/tables/main/t/base.csv", "x,y\n0,zero\n")
	sb.must(w, "touch .commit")
	for _, tc := range []struct{ name, script, want string }{
		{"cp new", "cp $S/a.csv T/cp.csv", "add 2 rows in 1 file to main.t, now 3 rows"},
		{"cp over", "printf 'x,y\n5,five\n' > $S/b.csv; cp $S/b.csv T/cp.csv", "change main.t: 1 row in 1 file added, 2 rows in 1 file removed, now 2 rows"},
		{"mv from outside", "cp $S/a.csv $S/mv.csv; mv $S/mv.csv T/", "add 2 rows in 1 file to main.t, now 4 rows"},
		{"shell append", "printf 'x,y\n' > T/sh.csv; for i in 1 2 3; do echo $i,s >> T/sh.csv; done", "add 3 rows in 1 file to main.t, now 7 rows"},
		{"sed -i", "cp $S/a.csv T/ed.csv; sed -i s/two/zwei/ T/ed.csv", "add 2 rows in 1 file to main.t, now 9 rows"},
		{"vim", "cp $S/a.csv T/ed.csv; vim -es -u NONE +'2s/one/eins/' +wq T/ed.csv < /dev/null", "change main.t: 2 rows in 1 file added, 2 rows in 1 file removed, now 9 rows"},
		{"rsync", "rsync -a $S/a.csv T/rs.csv", "add 2 rows in 1 file to main.t, now 11 rows"},
		{"tar", "tar cf - -C $S a.csv | tar xf - -C T", "add 2 rows in 1 file to main.t, now 13 rows"},
		{"install", "install -m 644 $S/a.csv T/in.csv", "add 2 rows in 1 file to main.t, now 15 rows"},
		{"dd", "dd if=$S/a.csv of=T/dd.csv bs=3 status=none", "add 2 rows in 1 file to main.t, now 17 rows"},
		{"write aside, then rename", "cp $S/a.csv T/.at.csv.new && mv T/.at.csv.new T/at.csv", "add 2 rows in 1 file to main.t, now 19 rows"},
		{"mv -n keeps what is there", "cp $S/a.csv T/at2.csv; mv -n $S/b.csv T/at2.csv || true; test -e $S/b.csv", "add 2 rows in 1 file to main.t, now 21 rows"},
		{"copy of a table", "cp -r T tables/main/u && find tables/main/u -type f ! -name a.parquet -delete", "add table main.u (2 rows)"},
		{"find -delete", "find T -type f ! -name a.parquet -delete", "remove 19 rows in 10 files from main.t, now 2 rows"},
	} {
		script := strings.NewReplacer("$S", src, "T/", "tables/main/t/", "T ", "tables/main/t ").Replace(tc.script)
		if strings.HasSuffix(script, " T") {
			script = strings.TrimSuffix(script, "T") + "tables/main/t"
		}
		sb.must(w, "set -e; "+script+"; touch .commit")
		if got := sb.last(w); !strings.Contains(got, "  "+tc.want+"  (not pushed)") {
			t.Errorf("%s: %s\nwant %s\n%s", tc.name, got, tc.want, sb.must(w, "ls -A tables/main/t"))
		}
		sb.wantClean(w)
	}
	if got := sb.must(w, "ls -A tables/main/t tables/main/u"); got != "tables/main/t:\na.parquet\n\ntables/main/u:\na.parquet\n" {
		t.Errorf("left at the end: %s", got)
	}
}

// TestPythonWriters: copies, writes in place, memory maps and the writers of
// pyarrow and Polars; types of every kind come back as they went.
func TestPythonWriters(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	src := sb.write(filepath.Join(sb.dir, "a.csv"), "x\n1\n")
	sb.python(sb.work(), `
import sys, os, shutil, mmap, datetime as dt, decimal
import pyarrow as pa, pyarrow.parquet as pq, pyarrow.dataset as ds, polars as pl
src, T = sys.argv[1], "tables/main/"
os.makedirs(T + "c")
shutil.copy(src, T + "c/copy.csv"); shutil.copy2(src, T + "c/copy2.csv"); shutil.copyfile(src, T + "c/copyfile.csv")
shutil.copy(src, T + "c/m.csv"); shutil.move(T + "c/m.csv", T + "c/moved.csv")
with open(T + "c/mapped.csv", "w+b") as f:
    f.truncate(4); m = mmap.mmap(f.fileno(), 4); m[:] = b"x\n7\n"; m.flush(); m.close()
with open(T + "c/synced.csv", "w") as f:
    f.write("x\n8\n"); f.flush(); os.fsync(f.fileno())
ds.write_dataset(pa.table({"a": [1, 2]}), T + "dataset", format="parquet", existing_data_behavior="overwrite_or_ignore")
pl.DataFrame({"a": [1], "b": ["q"]}).write_parquet(T + "pq.parquet")
pl.DataFrame({"a": [2], "b": ["r"]}).write_ndjson(T + "nd.ndjson")
utc = dt.timezone.utc
pq.write_table(pa.table({
    "i": pa.array([1, None], pa.int32()), "u": pa.array([1, 2**63 + 5], pa.uint64()), "f": pa.array([1.5, None], pa.float32()),
    "d": pa.array([decimal.Decimal("1.10"), None], pa.decimal128(10, 2)),
    "z": pa.array([dt.datetime(2020, 1, 1, 12, tzinfo=utc), None], pa.timestamp("us", tz="Europe/Zurich")),
    "n": pa.array([dt.datetime(2020, 1, 1, 12), None], pa.timestamp("us")), "day": [dt.date(2020, 1, 1), None], "tm": [dt.time(1, 2, 3), None],
    "s": [{"a": 1, "l": [1, 2]}, None], "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), "l": [[1, None], []],
    "b": pa.array([b"x\0y", None]), "bo": [True, None], "dic": pa.array(["a", None]).dictionary_encode()}), T + "types.parquet")
`, src)
	status := sb.must(sb.work(), "cat status")
	for _, want := range []string{
		"  + main.dataset   new table, 2 rows from part-0.parquet: a BIGINT\n",
		"  + main.nd   new table, 1 row from nd.ndjson: a BIGINT, b VARCHAR\n",
		"  + main.pq   new table, 1 row from pq.parquet: a BIGINT, b VARCHAR\n",
		"  + main.types   new table, 2 rows from types.parquet: i INTEGER, u UBIGINT, f FLOAT, d DECIMAL(10,2), z TIMESTAMP WITH TIME ZONE, n TIMESTAMP, " +
			"day DATE, tm TIME, s STRUCT(a BIGINT, l BIGINT[]), m MAP(VARCHAR, BIGINT), l BIGINT[], b BLOB, bo BOOLEAN, dic VARCHAR\n",
	} {
		if !strings.Contains(status, want) {
			t.Errorf("status: %s\nwants %s", status, want)
		}
	}
	sb.must(sb.work(), "touch .commit .push")
	if got, want := sb.lakeRows("c"), "[(1,), (1,), (1,), (1,), (7,), (8,)]"; got != want {
		t.Errorf("c: %s, want %s", got, want)
	}
	got := sb.python(sb.mnt, `
import duckdb
c = duckdb.connect(); c.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false; " + open("branches/main/attach.sql").read())
for row in c.execute("SELECT i, u, f, d, z::VARCHAR, n, day, tm, s, m, l, b, bo, dic FROM types ORDER BY u").fetchall(): print(*row)`)
	if want := "1 1 1.5 1.10 2020-01-01 12:00:00+00 2020-01-01 12:00:00 2020-01-01 01:02:03 {'a': 1, 'l': [1, 2]} {'k': 1} [1, None] b'x\\x00y' True a\n" +
		"None 9223372036854775813 None None None None None None None None [] None None None\n"; got != want {
		t.Errorf("types:\n%s\nwant\n%s", got, want)
	}
}

// TestTextFiles: what a text file becomes, read back; each case is one table.
func TestTextFiles(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	cases := []struct{ file, text, columns, rows string }{
		{"crlf.csv", "a,b\r\n1,x\r\n2,y\r\n", "a BIGINT, b VARCHAR", "[(1, 'x'), (2, 'y')]"},
		{"bom.csv", "\xef\xbb\xbfa,b\n1,x\n", "a BIGINT, b VARCHAR", "[(1, 'x')]"},
		{"quoted.csv", "a,b\n1,\"x\ny\"\n2,\"say \"\"hi\"\", ok\"\n", "a BIGINT, b VARCHAR", `[(1, 'x\ny'), (2, 'say "hi", ok')]`},
		{"semicolon.csv", "a;b\n1;2,5\n", "a BIGINT, b VARCHAR", "[(1, '2,5')]"},
		{"tab.tsv", "a\tb\n1\tx y\n", "a BIGINT, b VARCHAR", "[(1, 'x y')]"},
		{"empty_fields.csv", "a,b\n,x\n2,\n", "a BIGINT, b VARCHAR", "[(2, None), (None, 'x')]"},
		{"noeol.csv", "a\n1", "a BIGINT", "[(1,)]"},
		{"header.csv", "a,b\n", "a VARCHAR, b VARCHAR", "[]"},
		{"array.json", `[{"a":1},{"a":2,"b":"q"}]`, "a BIGINT, b VARCHAR", "[(1, None), (2, 'q')]"},
		{"lines.jsonl", "{\"a\":1}\n{\"a\":2}\n", "a BIGINT", "[(1,), (2,)]"},
		{"nd.ndjson", "{\"a\":1,\"l\":[1,2]}\n", "a BIGINT, l BIGINT[]", "[(1, [1, 2])]"},
		{"times.csv", "z,n,d,t\n2020-01-01T12:00:00+02:00,2020-01-01 12:00:00,2020-02-03,12:34:56\n", "z TIMESTAMP WITH TIME ZONE, n TIMESTAMP, d DATE, t TIME", ""},
		{"with space.csv", "a\n1\n", "a BIGINT", "[(1,)]"},
		{"Zürich-2020.csv", "a\n1\n", "a BIGINT", "[(1,)]"},
		{"it's.csv", "a\n1\n", "a BIGINT", "[(1,)]"},
		{`q"q.csv`, "a\n1\n", "a BIGINT", "[(1,)]"},
		{"select.csv", "from\n1\n", "from BIGINT", "[(1,)]"},
		{"a.b.csv", "a b,c\"d\n1,2\n", `a b BIGINT, c"d BIGINT`, "[(1, 2)]"},
	}
	for _, tc := range cases {
		sb.write(filepath.Join(w, "tables/main", tc.file), tc.text)
	}
	status := sb.must(w, "cat status")
	sb.must(w, "touch .commit .push")
	var tables, want []string
	for _, tc := range cases {
		table := strings.TrimSuffix(tc.file, filepath.Ext(tc.file))
		line := fmt.Sprintf("from %s: %s\n", tc.file, tc.columns)
		if !strings.Contains(status, "  + main."+table+"   new table, ") || !strings.Contains(status, line) {
			t.Errorf("%s: status lacks %q:\n%s", tc.file, line, status)
		}
		if tc.rows != "" {
			tables, want = append(tables, table), append(want, table+" "+tc.rows)
		}
	}
	rows := sb.python(sb.mnt, `
import duckdb, sys
c = duckdb.connect(); c.execute("SET enable_progress_bar = false; " + open("branches/main/attach.sql").read())
for t in sys.argv[1:]: print(t, sorted(c.execute('SELECT * FROM "%s"' % t.replace('"', '""')).fetchall(), key=str))`, tables...)
	if d := cmp.Diff(strings.Join(want, "\n")+"\n", rows); d != "" {
		t.Errorf("rows, -want +got:\n%s", d)
	}
	got := sb.python(sb.mnt, `
import duckdb
print(duckdb.execute("SET TimeZone = 'UTC'; SELECT z::VARCHAR, n::VARCHAR, d::VARCHAR, t::VARCHAR FROM 'branches/main/tables/main/times/*.parquet'").fetchall())`)
	if want := "[('2020-01-01 10:00:00+00', '2020-01-01 12:00:00', '2020-02-03', '12:34:56')]\n"; got != want {
		t.Errorf("times: %s, want %s", got, want)
	}
}

// TestParquetThatFits: other column orders, narrower types and files without
// rows are taken; what would lose something is refused, with the column.
func TestParquetThatFits(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "a,b,c\n1,x,1.5\n")
	sb.must(w, "touch .commit .push")
	writeTable := func(name, table string) {
		t.Helper()
		sb.python(w, `
import sys, pyarrow as pa, pyarrow.parquet as pq
pq.write_table(eval(sys.argv[2]), "tables/main/t/" + sys.argv[1])`, name, table)
	}
	for name, table := range map[string]string{
		"order.parquet":  `pa.table({"c": [2.5], "b": ["y"], "a": [2]})`,
		"narrow.parquet": `pa.table({"a": pa.array([3], pa.int32()), "b": ["z"], "c": pa.array([3.5], pa.float32())})`,
		"norows.parquet": `pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string()), "c": pa.array([], pa.float64())})`,
	} {
		writeTable(name, table)
	}
	sb.must(w, "touch .commit .push")
	if got, want := sb.lakeRows("t"), "[(1, 'x', 1.5), (2, 'y', 2.5), (3, 'z', 3.5)]"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	for _, tc := range []struct{ name, table, want string }{
		{"wide.parquet", `pa.table({"a": [1.5], "b": ["x"], "c": [1.0]})`, "column a: found DOUBLE, wanted BIGINT (table main.t)"},
		{"text.parquet", `pa.table({"a": ["7"], "b": ["x"], "c": [1.0]})`, "column a: found VARCHAR, wanted BIGINT (table main.t)"},
		{"less.parquet", `pa.table({"a": [7], "c": [1.0]})`, "column b: not in the file, wanted VARCHAR (table main.t)"},
	} {
		writeTable(tc.name, tc.table)
		sb.fails(w, "touch .commit")
		if got := sb.must(w, "head -n 1 FAILED.txt"); got != "commit refused: tables/main/t/"+tc.name+", "+tc.want+"\n" {
			t.Errorf("%s: %s", tc.name, got)
		}
		sb.must(w, "rm tables/main/t/"+tc.name)
	}
	// A file of this stem without rows takes the rows of the stem away.
	writeTable("order.parquet", `pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string()), "c": pa.array([], pa.float64())})`)
	sb.must(w, "touch .commit .push")
	if got, want := sb.lakeRows("t"), "[(1, 'x', 1.5), (3, 'z', 3.5)]"; got != want {
		t.Errorf("after a file without rows: %s, want %s", got, want)
	}
}

// TestDuckDBCopy: COPY writes a new file and over an existing one (by tmp_ and
// rename), as often as it likes; a commit replaces exactly that table's rows.
func TestDuckDBCopy(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/other.csv", "x\n1\n")
	out := sb.python(w, `
import duckdb, os
c = duckdb.connect()
for i in range(1, 31):
    c.execute(f"COPY (SELECT range AS i FROM range({i})) TO 'tables/main/o.parquet'")
print(os.listdir("tables/main"), c.execute("SELECT count(*) FROM 'tables/main/o.parquet'").fetchall())`)
	if out != "['o.parquet', 'other.csv'] [(30,)]\n" {
		t.Errorf("after 30 copies: %s", out)
	}
	sb.must(w, "touch .commit .push")
	for _, tc := range []struct{ path, rows, want string }{
		{"tables/main/o/o.parquet", "7", "change main.o: 7 rows in 1 file added, 30 rows in 1 file removed, now 7 rows"},
		{"tables/main/o.parquet", "9", "change main.o: 9 rows in 1 file added, 7 rows in 1 file removed, now 9 rows"},
		{"tables/main/o/o.csv", "4", "change main.o: 4 rows in 1 file added, 9 rows in 1 file removed, now 4 rows"},
		{"tables/main/o/p.csv", "5", "add 5 rows in 1 file to main.o, now 9 rows"},
	} {
		sb.python(w, "import duckdb, sys; duckdb.execute(f\"COPY (SELECT range AS i FROM range({sys.argv[2]})) TO '{sys.argv[1]}'\")", tc.path, tc.rows)
		sb.must(w, "touch .commit")
		if got := sb.last(w); !strings.Contains(got, "  "+tc.want+"  (") {
			t.Errorf("%s: %s, want %s", tc.path, got, tc.want)
		}
	}
	if got := sb.must(w, "ls -A tables/main tables/main/o"); got != "tables/main:\no\nother\n\ntables/main/o:\no.parquet\np.parquet\n" {
		t.Errorf("left: %s", got)
	}
	// A partitioned COPY would lose the values that stand in folder names only.
	sb.python(w, `import duckdb; duckdb.execute("COPY (SELECT range AS i, range % 2 AS g FROM range(4)) TO 'tables/main/part' (FORMAT parquet, PARTITION_BY (g))")`)
	sb.fails(w, "touch .commit")
	if got := sb.must(w, "head -n 1 FAILED.txt"); !strings.Contains(got, "tables/main/part/g=0/data_0.parquet lies in a subfolder") {
		t.Errorf("FAILED.txt: %s", got)
	}
}

// TestLeftoversAreNotData: what Spark, office programs, editors and rsync leave
// behind is kept, and never data.
func TestLeftoversAreNotData(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.must(w, `set -e
mkdir -p tables/main/sp/_temporary/0/task && cd tables/main/sp
printf 'x\n1\n' > _temporary/0/task/part-00000-c0.csv
mv _temporary/0/task/part-00000-c0.csv . && touch _SUCCESS && echo crc > .part-00000-c0.csv.crc`)
	sb.must(w, "touch .commit")
	junk := []string{"_SUCCESS", ".part-00000-c0.csv.crc", ".~lock.part.csv#", "notes.txt~", ".x.csv.swp", "x.csv.part", "x.tmp"}
	for _, name := range junk {
		sb.write(filepath.Join(w, "tables/main/sp", name), "x\n2\n")
	}
	sb.wantClean(w)
	sb.must(w, "touch .commit")
	sb.wantClean(w)
	got := sb.must(w, "ls -A tables/main/sp")
	for _, name := range append(junk, "part-00000-c0.parquet", "_temporary") {
		if !strings.Contains(got, name+"\n") {
			t.Errorf("%s is gone: %s", name, got)
		}
	}
	if got := sb.last(w); !strings.Contains(got, "add table main.sp (1 row)") {
		t.Errorf("log: %s", got)
	}
}

// TestRsyncTransfersOnce: a second run transfers nothing, into the working
// folder and out of it; control files are neither copied nor fired.
func TestRsyncTransfersOnce(t *testing.T) {
	needProgram(t, "rsync")
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	src := filepath.Join(sb.dir, "src")
	for _, n := range []string{"a", "b"} {
		sb.write(src+"/"+n+".csv", "x,y\n1,"+n+"\n")
	}
	sb.must(w, "mkdir -p tables/main/t && rsync -a "+src+"/ tables/main/t/")
	if got := sb.must(w, "rsync -ai "+src+"/ tables/main/t/"); got != "" {
		t.Errorf("second run into the folder: %s", got)
	}
	sb.must(w, "touch .commit .push && tarn tag v1")
	// After the commit the files are Parquet. The same run again is no change.
	sb.must(w, "rsync -a "+src+"/ tables/main/t/")
	sb.wantClean(w)
	sb.must(w, "touch .commit .push")
	versions := sb.versions()
	if got := sb.must(w, "rsync -ai --delete "+sb.mnt+"/tags/v1/tables/ tables/ | grep '^>f' || true"); got != "" {
		t.Errorf("from a tag that is the base: %s", got)
	}
	for tree, but := range map[string]string{
		sb.mnt + "/tags/v1/": "nothing",
		w + "/":              "README.txt$| attach.sql$| diff$| log$| status$", // rendered for each reader
	} {
		out := filepath.Join(sb.dir, "out")
		sb.must(sb.dir, "rsync -a "+tree+" "+out)
		if got := sb.must(sb.dir, "rsync -ai "+tree+" "+out+" | grep '^>' | grep -vE '"+but+"' || true"); got != "" {
			t.Errorf("second run out of %s: %s", tree, got)
		}
		if got := sb.must(out, "ls -A | grep '^\\.' || true"); got != "" {
			t.Errorf("copied out of %s: %s", tree, got)
		}
		if got := sb.must(sb.dir, "diff -r "+tree+" "+out+" 2>&1 || true"); got != "" {
			t.Errorf("%s and its copy differ: %s", tree, got)
		}
		sb.must(sb.dir, "chmod -R u+w out")
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
	}
	if sb.versions() != versions {
		t.Error("rsync made a version")
	}
}

// TestMakeRebuildsNothing: inputs of a tag keep their times, over remounts too.
func TestMakeRebuildsNothing(t *testing.T) {
	needProgram(t, "make")
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit .push && tarn tag v1")
	// A column added later: tables/ of the tip shows a.parquet rewritten.
	sb.write(w+"/tables/main/t/b.csv", "x,y\n2,two\n")
	sb.must(w, "touch .commit .push && tarn tag v2")
	sb.write(filepath.Join(sb.dir, "Makefile"), "IN := $(shell find "+sb.mnt+"/tags/v1/ "+sb.mnt+"/tags/v2/ -type f)\nout: $(IN)\n\tcat $(IN) > out\n")
	if got := sb.must(sb.dir, "make"); !strings.Contains(got, "cat ") {
		t.Fatalf("first run: %s", got)
	}
	again := func(when string) {
		t.Helper()
		if got := sb.must(sb.dir, "make"); got != "make: 'out' is up to date.\n" {
			t.Errorf("%s: %s", when, got)
		}
	}
	again("second run")
	sb.umount()
	sb.mount()
	again("after a remount")
	sb.write(w+"/tables/main/t/c.csv", "x,y\n3,three\n")
	sb.must(w, "touch .commit .push")
	again("after another version")
}
