package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tpchMake writes the eight TPC-H tables at scale 0.1 as Parquet and CSV, and
// keeps the database they came from.
const tpchMake = `
import duckdb, sys
dir = sys.argv[1]
c = duckdb.connect(dir + "/tpch.duckdb")
c.execute("LOAD tpch; CALL dbgen(sf=0.1)")
for (t,) in c.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall():
    c.execute(f"COPY {t} TO '{dir}/parquet/{t}.parquet' (FORMAT parquet)")
    c.execute(f"COPY {t} TO '{dir}/csv/{t}.csv' (HEADER)")
`

// tpchCompare compares the eight tables of the source database with those
// below a tables/ folder, read by three clients, as multisets. Source values
// are cast to the types read, because CSV has no types.
const tpchCompare = `
import duckdb, sys, glob, pyarrow.parquet as pq, pyarrow.dataset as ds, polars as pl
src, tables, attach = sys.argv[1:4]
c = duckdb.connect()
c.execute("SET TimeZone='UTC'; SET enable_progress_bar = false")
c.execute(f"ATTACH '{src}' AS src (READ_ONLY)")
names = [t for (t,) in c.execute("SELECT table_name FROM duckdb_tables() WHERE database_name='src' ORDER BY 1").fetchall()]
assert len(names) == 8, names
lake = duckdb.connect()
lake.execute("SET enable_progress_bar = false")
lake.execute(open(attach).read())
def same(name, got, by):
    cols = c.execute(f"DESCRIBE SELECT * FROM {got}").fetchall()
    want = "SELECT " + ", ".join(f'CAST("{n[0]}" AS {n[1]}) AS "{n[0]}"' for n in cols) + f" FROM src.{name}"
    have = f"SELECT * FROM {got}"
    # Rows as a multiset: their number and the sum of their hashes.
    sums = lambda q: c.execute(f"SELECT count(*), sum(hash(r)::HUGEINT) FROM ({q}) r").fetchone()
    assert sums(want) == sums(have), (name, by, sums(want), sums(have))
    assert sums(want)[0] > 0
for name in names:
    files = sorted(glob.glob(f"{tables}/{name}/*.parquet"))
    assert files, name
    arrow = ds.dataset(files).to_table()
    c.register("arrow_rows", arrow); same(name, "arrow_rows", "pyarrow"); c.unregister("arrow_rows")
    polars = pl.read_parquet(files).to_arrow()
    c.register("polars_rows", polars); same(name, "polars_rows", "polars"); c.unregister("polars_rows")
    rows = lake.execute(f"SELECT * FROM {name}").to_arrow_table()
    c.register("lake_rows", rows); same(name, "lake_rows", "duckdb"); c.unregister("lake_rows")
print("same")
`

func TestTPCH(t *testing.T) {
	for _, form := range []string{"parquet", "csv"} {
		t.Run(form, func(t *testing.T) {
			sb := newSandbox(t)
			src := filepath.Join(sb.dir, "src")
			for _, d := range []string{"parquet", "csv"} {
				if err := os.MkdirAll(filepath.Join(src, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			sb.python(sb.dir, tpchMake, src)
			sb.initAndMount()
			sb.must(sb.work(), "cp "+filepath.Join(src, form)+"/* tables/ && touch .commit .push")
			compare := func(root string) {
				t.Helper()
				out := sb.python(sb.dir, tpchCompare, filepath.Join(src, "tpch.duckdb"), root+"/branches/main/tables/main", root+"/branches/main/attach.sql")
				if strings.TrimSpace(out) != "same" {
					t.Fatalf("compare: %s", out)
				}
			}
			compare(sb.mnt)

			// A copy at another path reads the same with the old path gone, and shares no state with it.
			sb.umount()
			copied := filepath.Join(sb.dir, "copied.lake")
			sb.must(sb.dir, "cp -a "+sb.repo+" "+copied+" && rm -rf "+sb.repo)
			sb.repo = copied
			sb.mount()
			compare(sb.mnt)
			if out := sb.must(sb.work(), "cat status"); !strings.Contains(out, "Nothing to commit") {
				t.Errorf("status of the copy: %s", out)
			}
			states, err := filepath.Glob(filepath.Join(sb.home, "state", "tarn", "*-*", "work", "main"))
			if err != nil || len(states) != 2 {
				t.Errorf("state folders: %v, want one for each root URL", states)
			}
			sb.umount()
		})
	}
}
