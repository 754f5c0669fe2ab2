"""What DuckDB answers about a whole catalog, in a form that can be compared."""
import glob
import math
import os

import duckdb


def connect(attach_sql, timeout_ms=None):
    """A session that has executed an attach.sql, and the alias it uses."""
    c = duckdb.connect()
    sql = open(attach_sql).read()
    if timeout_ms is not None:
        sql = sql.replace("META_BUSY_TIMEOUT 5000", f"META_BUSY_TIMEOUT {timeout_ms}")
    c.execute("SET enable_progress_bar = false; SET TimeZone = 'UTC'; SET threads = 1;" + sql)
    return c, c.execute("SELECT current_database()").fetchone()[0]


def name(*parts):
    return ".".join('"' + p.replace('"', '""') + '"' for p in parts)


def value(v):
    if isinstance(v, float):
        return "nan" if math.isnan(v) else repr(v)
    if isinstance(v, dict):
        return "{" + ", ".join(f"{k}: {value(x)}" for k, x in v.items()) + "}"
    if isinstance(v, (list, tuple)):
        return "[" + ", ".join(value(x) for x in v) + "]"
    return repr(v)


def rows_of(result):
    return sorted("|".join(value(v) for v in r) for r in result.fetchall())


def ask(c, sql):
    """The rows of a query, or the kind of error it ends with."""
    try:
        return rows_of(c.execute(sql))
    except duckdb.Error as e:
        text = str(e)
        if "INTERNAL" in text or "FATAL" in text:
            raise
        return type(e).__name__


def tables(c, alias):
    """schema.table -> [(column, type)]"""
    out = {}
    for s, t, col, typ in c.execute(
        "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE database_name = ? AND (schema_name, table_name) IN (SELECT (schema_name, table_name) FROM duckdb_tables() WHERE database_name = ?) "
        "ORDER BY schema_name, table_name, column_index", [alias, alias]).fetchall():
        out.setdefault((s, t), []).append((col, typ))
    return out


META = {  # what DuckDB shows nowhere else: by the catalog's own tables, without ids
    "partitions": """SELECT s.schema_name, t.table_name, pc.partition_key_index, c.column_name, pc.transform
        FROM {m}.ducklake_partition_info p JOIN {m}.ducklake_partition_column pc USING (partition_id)
        JOIN {m}.ducklake_table t ON t.table_id = p.table_id AND t.end_snapshot IS NULL
        JOIN {m}.ducklake_schema s USING (schema_id)
        JOIN {m}.ducklake_column c ON c.table_id = p.table_id AND c.column_id = pc.column_id AND c.end_snapshot IS NULL
        WHERE p.end_snapshot IS NULL""",
    "sorts": """SELECT s.schema_name, t.table_name, e.sort_key_index, e.expression, e.sort_direction, e.null_order
        FROM {m}.ducklake_sort_info p JOIN {m}.ducklake_sort_expression e USING (sort_id)
        JOIN {m}.ducklake_table t ON t.table_id = p.table_id AND t.end_snapshot IS NULL
        JOIN {m}.ducklake_schema s USING (schema_id) WHERE p.end_snapshot IS NULL""",
    "macros": """SELECT s.schema_name, m.macro_name, i.impl_id, i.type, i.sql, p.column_id, p.parameter_name, p.default_value, p.default_value_type
        FROM {m}.ducklake_macro m JOIN {m}.ducklake_macro_impl i USING (macro_id)
        LEFT JOIN {m}.ducklake_macro_parameters p USING (macro_id, impl_id)
        JOIN {m}.ducklake_schema s USING (schema_id) WHERE m.end_snapshot IS NULL""",
    "tags": """SELECT coalesce(t.table_name, v.view_name), g.key, g.value FROM {m}.ducklake_tag g
        LEFT JOIN {m}.ducklake_table t ON t.table_id = g.object_id AND t.end_snapshot IS NULL
        LEFT JOIN {m}.ducklake_view v ON v.view_id = g.object_id AND v.end_snapshot IS NULL WHERE g.end_snapshot IS NULL AND g.value IS NOT NULL""",  # NULL is the comment of who has none
    "defaults": """SELECT t.table_name, c.column_name, c.initial_default, c.default_value, c.nulls_allowed::BOOLEAN
        FROM {m}.ducklake_column c JOIN {m}.ducklake_table t ON t.table_id = c.table_id AND t.end_snapshot IS NULL WHERE c.end_snapshot IS NULL""",
}


def answers(c, alias):
    """Everything a client can ask of the newest snapshot."""
    out = {"schemas": ask(c, f"SELECT schema_name FROM duckdb_schemas() WHERE database_name = '{alias}'")}
    for (s, t), cols in tables(c, alias).items():
        full = name(alias, s, t)
        out[f"table {s}.{t}"] = {
            "columns": cols,
            "rows": ask(c, f"SELECT * FROM {full}"),
            "count": ask(c, f"SELECT count(*), sum(1) FROM {full}"),
            "bounds": ask(c, "SELECT " + ", ".join(f"min({name(n)}), max({name(n)}), count({name(n)})" for n, typ in cols if not typ.endswith("]") and "(" not in typ or typ.startswith("DECIMAL")) + f" FROM {full}")
            if any(not typ.endswith("]") and "(" not in typ or typ.startswith("DECIMAL") for _, typ in cols) else None,
            "comment": ask(c, f"SELECT comment FROM duckdb_tables() WHERE database_name = '{alias}' AND schema_name = '{s}' AND table_name = '{t}'"),
            "column comments": ask(c, f"SELECT column_name, comment FROM duckdb_columns() WHERE database_name = '{alias}' AND schema_name = '{s}' AND table_name = '{t}'"),
        }
    for s, v, sql, comment in c.execute("SELECT schema_name, view_name, sql, comment FROM duckdb_views() WHERE database_name = ? AND NOT internal", [alias]).fetchall():
        out[f"view {s}.{v}"] = {"sql": sql, "comment": comment, "rows": ask(c, f"SELECT * FROM {name(alias, s, v)}")}
    for what, sql in META.items():
        out[what] = ask(c, sql.format(m=name("__ducklake_metadata_" + alias)))
    for s, m, typ in c.execute("SELECT schema_name, function_name, function_type FROM duckdb_functions() WHERE database_name = ? AND NOT internal", [alias]).fetchall():
        full = name(alias, s, m)
        out[f"macro {s}.{m}"] = ask(c, f"SELECT {full}(20)" if typ == "macro" else f"SELECT * FROM {full}(20)")
    return out


def shown(tables_dir, columns):
    """The rows of the files of a version's tables/, by (schema, table)."""
    c = duckdb.connect()
    c.execute("SET enable_progress_bar = false; SET TimeZone = 'UTC'; SET threads = 1")
    out = {}
    for (s, t), cols in columns.items():
        rows = []
        for f in sorted(glob.glob(glob.escape(os.path.join(tables_dir, s, t)) + "/*.parquet")):
            r = c.execute("SELECT * FROM read_parquet(?, hive_partitioning = false)", [f])
            have = [d[0] for d in r.description]
            want = [n for n, _ in cols]
            if have != want:
                raise AssertionError(f"{f} has columns {have}, the table {want}")
            rows += rows_of(r)
        out[(s, t)] = sorted(rows)
    return out


IDS = {  # sequence -> queries of (id, what it stands for)
    "catalog": ["SELECT schema_id, 'schema ' || schema_uuid FROM {m}.ducklake_schema", "SELECT table_id, 'table ' || table_uuid FROM {m}.ducklake_table",
                "SELECT view_id, 'view ' || view_uuid FROM {m}.ducklake_view", "SELECT macro_id, 'macro ' || macro_name FROM {m}.ducklake_macro",
                "SELECT partition_id, 'partition ' || table_id FROM {m}.ducklake_partition_info", "SELECT sort_id, 'sort ' || table_id FROM {m}.ducklake_sort_info"],
    "file": ["SELECT data_file_id, 'data ' || path FROM {m}.ducklake_data_file", "SELECT delete_file_id, 'delete ' || path FROM {m}.ducklake_delete_file",
             "SELECT mapping_id, 'mapping ' || table_id FROM {m}.ducklake_column_mapping"],
    "snapshot": ["SELECT snapshot_id, 'snapshot ' || snapshot_time::VARCHAR FROM {m}.ducklake_snapshot"],
}


def ids(c, alias, known):
    """Fails when an id stands for two things, in this catalog or an earlier one."""
    m = name("__ducklake_metadata_" + alias)
    for seq, queries in IDS.items():
        for q in queries:
            for i, what in c.execute("SELECT DISTINCT * FROM (" + q.format(m=m) + ")").fetchall():
                was = known.setdefault((seq, i), what)
                if was != what:
                    raise AssertionError(f"{seq} id {i} is {what}, and was {was}")
    n = c.execute(f"SELECT count(*), count(DISTINCT snapshot_id), max(snapshot_id) FROM {m}.ducklake_snapshot").fetchone()
    if n[0] != n[1]:
        raise AssertionError(f"snapshot ids given twice: {n}")
    last = c.execute(f"SELECT next_catalog_id, next_file_id FROM {m}.ducklake_snapshot WHERE snapshot_id = {n[2]}").fetchone()
    for seq, nxt in zip(("catalog", "file"), last):
        top = max((i for q in IDS[seq] for i, _ in c.execute(q.format(m=m)).fetchall()), default=-1)
        if top >= nxt:
            raise AssertionError(f"{seq} id {top} is in use, and {nxt} would be given out next")
