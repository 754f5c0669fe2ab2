"""Reads a DuckLake catalog with a reader that is not DuckLake, and prints what
it finds, rows as DuckDB would print them.

usage: thirdparty.py polars|pandas CATALOG DATA_PATH TABLE...     (TABLE is schema.table)
One process a catalog: DuckDB does not open one file in two ways.
"""
import datetime
import json
import sys


def value(v):
    if isinstance(v, dict):
        return {k: value(x) for k, x in v.items()}
    if hasattr(v, "tolist") and not hasattr(v, "isoformat"):  # numpy
        v = v.tolist()
    if isinstance(v, (list, tuple)):
        return [value(x) for x in v]
    if v is None or v != v or str(v) in ("NaT", "<NA>"):
        return None
    if isinstance(v, datetime.date):
        return v.isoformat()[:10]
    if isinstance(v, float) and v == int(v):
        return int(v)  # pandas has no integers with NULL
    return v


def polars(catalog, data, schema, table):
    from polars_ducklake import scan_ducklake

    frame = scan_ducklake(catalog, table, schema=schema, data_path=data).collect()
    return frame.columns, frame.rows()


def pandas(catalog, data, schema, table):
    from ducklake_pandas import read_ducklake

    frame = read_ducklake(catalog, table, schema=schema, data_path=data)
    return list(frame.columns), list(frame.itertuples(index=False, name=None))


def main(how, catalog, data, names):
    out = {}
    for full in names:
        schema, table = full.split(".", 1)
        try:
            columns, rows = {"polars": polars, "pandas": pandas}[how](catalog, data, schema, table)
            out[full] = {"columns": list(columns), "rows": sorted(([value(v) for v in row] for row in rows), key=str)}
        except Exception as e:
            out[full] = {"error": f"{type(e).__name__}: {e}"}
    print(json.dumps(out))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
