"""Makes a working catalog of one small data file into one of many.

grow_catalog.py LAKE.sqlite DATA_DIR N: the table with the only data file gets N-1
more files of the same bytes, in one snapshot, as an INSERT of DuckDB would
have made them. Rows are made by SQLite and files by links: the cost of making
the catalog must not hide the cost of what is measured on it.
"""
import os
import sqlite3
import sys

lake, data, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
db = sqlite3.connect(lake, isolation_level=None)
one = lambda q, *a: db.execute(q, a).fetchone()
snapshot, schema_version, next_catalog, next_file = one(
    "SELECT snapshot_id, schema_version, next_catalog_id, next_file_id FROM ducklake_snapshot ORDER BY 1 DESC LIMIT 1")
file_id, table, path, rows, size = one(
    "SELECT data_file_id, table_id, path, record_count, file_size_bytes FROM ducklake_data_file WHERE end_snapshot IS NULL")
folder = "".join(r[0] for r in db.execute(
    "SELECT s.path FROM ducklake_schema s JOIN ducklake_table t USING (schema_id) WHERE t.table_id = ? UNION ALL SELECT path FROM ducklake_table WHERE table_id = ?",
    (table, table)))
folder = os.path.join(data, folder)

# A file system allows one file only so many links.
copy = None
for i in range(1, n):
    target = os.path.join(folder, f"f{i:06d}.parquet")
    if i % 10000 == 1:
        with open(os.path.join(folder, path), "rb") as f, open(target, "wb") as out:
            out.write(f.read())
        copy = target
    else:
        os.link(copy, target)

db.execute("BEGIN IMMEDIATE")
db.execute("CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n", (n - 1,))


def copies(name, **new):
    """One more row of the seed file's for each i, with some columns anew."""
    columns = [r[1] for r in db.execute(f"PRAGMA table_info({name})")]
    exprs = ", ".join(new.get(c, "t." + c) for c in columns)
    db.execute(f"INSERT INTO {name} SELECT {exprs} FROM n CROSS JOIN {name} t WHERE t.data_file_id = {file_id} ORDER BY i")


new_id = f"{next_file} + i - 1"
copies("ducklake_file_column_stats", data_file_id=new_id)
copies("ducklake_data_file", data_file_id=new_id, begin_snapshot=str(snapshot + 1), file_order="NULL",
       path="printf('f%06d.parquet', i)", row_id_start=f"i * {rows}")
db.execute("UPDATE ducklake_table_stats SET record_count = ?, next_row_id = ?, file_size_bytes = ? WHERE table_id = ?", (rows * n, rows * n, size * n, table))
db.execute("INSERT INTO ducklake_snapshot SELECT snapshot_id + 1, strftime('%Y-%m-%d %H:%M:%f+00', 'now', '+1 second'), schema_version, next_catalog_id, next_file_id + ? FROM ducklake_snapshot WHERE snapshot_id = ?",
           (n - 1, snapshot))
db.execute("INSERT INTO ducklake_snapshot_changes(snapshot_id, changes_made) VALUES (?, ?)", (snapshot + 1, f"inserted_into_table:{table}"))
db.execute("COMMIT")
