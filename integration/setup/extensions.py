"""Install the DuckDB extensions of the wheels where DuckDB looks for them.

Every DuckDB of the same version then attaches a lake without network and
without LOAD: they go to ~/.duckdb/extensions/<version>/<platform>/.
"""

import importlib.util
import os
import pathlib
import sys

import duckdb

# sqlite_scanner first: ducklake alone would try to download it.
EXTENSIONS = ("sqlite_scanner", "ducklake", "tpch", "httpfs")


def wheel_file(name: str, version: str) -> pathlib.Path:
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"the wheel of the DuckDB extension {name} is not installed")
    path = pathlib.Path(list(spec.submodule_search_locations)[0])
    path = path / "extensions" / version / f"{name}.duckdb_extension"
    if not path.is_file():
        sys.exit(f"{path} is missing: the wheel is not for DuckDB {version}")
    return path


def main() -> None:
    con = duckdb.connect()
    (version,) = con.execute("SELECT library_version FROM pragma_version()").fetchone()
    (platform,) = con.execute("PRAGMA platform").fetchone()
    target = pathlib.Path(os.path.expanduser("~")) / ".duckdb" / "extensions" / version / platform
    for name in EXTENSIONS:
        source = wheel_file(name, version)
        there = target / source.name
        info = target / (source.name + ".info")
        if info.is_file() and there.is_file() and there.stat().st_size == source.stat().st_size:
            continue
        quoted = str(source).replace("'", "''")
        con.execute(f"FORCE INSTALL '{quoted}'")
        print(f"installed DuckDB extension {name} {version}")


if __name__ == "__main__":
    main()
