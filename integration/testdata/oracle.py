"""What RockLake got wrong when stock DuckDB spoke to it, played on a mounted
working folder, on the version it is committed to, and on a DuckLake of DuckDB's
own. Each check compares the three and is named by its fault; the names that
held are printed, one a line."""

import os
import subprocess
import sys

import duckdb

mnt, ref = sys.argv[1], sys.argv[2]
work = os.path.join(mnt, "work", "main")
os.makedirs(os.path.join(ref, "data"))


def connect(sql):
    c = duckdb.connect()
    c.execute("SET enable_progress_bar = false; SET TimeZone = 'UTC'")
    c.execute(sql)
    return c


def read(path):
    with open(path) as f:
        return f.read()


refsql = f"ATTACH 'ducklake:sqlite:{ref}/meta.sqlite' AS r (DATA_PATH '{ref}/data', DATA_INLINING_ROW_LIMIT 0); USE r;"
ours = connect(read(os.path.join(work, "attach.sql")))
theirs = connect(refsql)
snapshots = []  # (ours, theirs) after each statement


def newest(c):
    return c.execute("SELECT max(snapshot_id) FROM ducklake_snapshots(current_database())").fetchone()[0]


def do(*statements):
    for s in statements:
        ours.execute(s)
        theirs.execute(s)
        snapshots.append((newest(ours), newest(theirs)))


def rows(c, query):
    try:
        return sorted(c.execute(query).fetchall(), key=str)
    except duckdb.Error as e:
        return type(e).__name__


def same(name, *queries, want=None):
    """On the working catalog, and on the version made of it."""
    subprocess.run(["touch", ".commit", ".push"], cwd=work, check=True)
    version = connect(read(os.path.join(os.path.realpath(os.path.join(mnt, "branches", "main")), "attach.sql")))
    for q in queries:
        a, b, v = rows(ours, q), rows(theirs, q), rows(version, q)
        if a != b or v != b or (want is not None and b != want):
            sys.exit(f"{name}: {q}\nworking folder {a}\nversion        {v}\nDuckLake       {b}\nwanted         {want}")
    version.close()
    print(name)


do("CREATE SCHEMA raw", "CREATE TABLE t(a INTEGER, b VARCHAR)", "CREATE TABLE raw.u(x BIGINT NOT NULL, d DATE)")
do("INSERT INTO t SELECT i, 'v' || i FROM range(10) r(i)")
same("a plain local DATA_PATH", "SELECT * FROM t", "SELECT count(*) FROM t")
do("INSERT INTO t SELECT i, 'v' || i FROM range(10, 30) r(i)", "INSERT INTO raw.u SELECT i, DATE '2026-01-01' + i::INTEGER FROM range(30) r(i)", "DELETE FROM t WHERE a < 3")


def stats(c, table, columns):
    db = c.execute("SELECT current_database()").fetchone()[0]
    return sorted(c.execute(f'SELECT {columns} FROM "__ducklake_metadata_{db}".{table}').fetchall(), key=str)


for table, columns in [
    ("ducklake_table_stats", "table_id, record_count, next_row_id"),
    ("ducklake_table_column_stats", "table_id, column_id, contains_null, min_value, max_value"),
    ("ducklake_file_column_stats", "table_id, column_id, value_count, null_count, min_value, max_value"),
]:
    a, b = stats(ours, table, columns), stats(theirs, table, columns)
    if a != b or not b:
        sys.exit(f"{table}: {a}\nDuckLake: {b}")
same("statistics rows", "SELECT count(*), min(a), max(a) FROM t", "SELECT count(*), min(x), max(d) FROM raw.u")

do("CREATE TABLE p(a INTEGER)", "INSERT INTO p SELECT i FROM range(-25, 25) r(i)")
same("filters on a Parquet table", "SELECT * FROM p WHERE a = 1", want=[(1,)])
do("UPDATE p SET a = 1000 WHERE a = 1", "DELETE FROM p WHERE a = 2")
same("UPDATE and DELETE with WHERE", "SELECT count(*) FROM p", want=[(49,)])
do("INSERT INTO p SELECT i FROM range(100, 150) r(i)")
same("bounds of a table are extended", "SELECT * FROM p WHERE a = 120", want=[(120,)])

do("ALTER TABLE t ADD COLUMN c DOUBLE DEFAULT 1.5", "ALTER TABLE t RENAME COLUMN b TO b2")
same("RENAME COLUMN keeps the old values", "SELECT a, b2, c FROM t", "SELECT count(*) FROM t WHERE b2 IS NULL")
do("INSERT INTO t VALUES (-1, 'new', 2.5)")
same("INSERT after a rename", "SELECT a FROM t ORDER BY a LIMIT 1", want=[(-1,)])
do("UPDATE t SET b2 = 'x' WHERE a = 5", "CREATE VIEW seen AS SELECT a FROM t WHERE a > 20")
same("CREATE VIEW leaves the lake usable", "SELECT * FROM seen", "SELECT count(*) FROM t", "SELECT count(*) FROM raw.u")

for at, (o, r) in enumerate(snapshots):
    for table in ("t", "p", "raw.u"):
        q = "SELECT count(*) FROM {} AT (VERSION => {})"
        a, b = rows(ours, q.format(table, o)), rows(theirs, q.format(table, r))
        if a != b:
            sys.exit(f"after statement {at}, {table}: {a}, DuckLake {b}")
counts = {str(rows(ours, f"SELECT count(*) FROM t AT (VERSION => {o})")) for o, _ in snapshots}
beyond = rows(ours, f"SELECT count(*) FROM t AT (VERSION => {snapshots[-1][0] + 1})")
if len(counts) < 5 or not isinstance(beyond, str):
    sys.exit(f"time travel: {counts}, beyond the newest: {beyond}")
print("AT (VERSION => n)")

if len(ours.execute("SELECT * FROM ducklake_snapshots(current_database())").fetchall()) < len(snapshots):
    sys.exit("ducklake_snapshots lacks some")
print("ducklake_snapshots()")

ours.close()
again = connect(read(os.path.join(work, "attach.sql")))
if rows(again, "SELECT * FROM t") != rows(theirs, "SELECT * FROM t"):
    sys.exit("attached again")
print("re-attach without DATA_PATH")
if rows(again, "SELECT count(*), sum(a), max(b2) FROM t WHERE a > 0") != rows(theirs, "SELECT count(*), sum(a), max(b2) FROM t WHERE a > 0"):
    sys.exit("aggregates")
print("projections and aggregates")
