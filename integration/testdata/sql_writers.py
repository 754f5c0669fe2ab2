"""Programs that write in one working folder at once, and remember what they
were told was done.

usage: sql_writers.py sql  WORK SECONDS ID     (a DuckDB session)
       sql_writers.py drop WORK SECONDS        (files into tables/)
       sql_writers.py check WORK               (PRAGMA integrity_check)
Each prints one JSON object: what must be there now, and errors by text.
"""
import collections
import errno
import json
import os
import random
import sqlite3
import sys
import time

import duckdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lakeanswers as la

BUSY = ("database is locked", "busy", "Exceeded the maximum retry count")


def sql(work, seconds, who):
    r = random.Random(who)
    c, alias = la.connect(os.path.join(work, "attach.sql"), timeout_ms=2000)
    own, shared, mine, n, done = f"own_{who}", {}, {}, 0, 0
    errors = collections.Counter()

    def attempt(*statements):
        """All in one transaction; whether it was acknowledged."""
        try:
            c.execute("BEGIN")
            for s in statements:
                c.execute(s)
            c.execute("COMMIT")
            return True
        except duckdb.Error as e:
            text = str(e)
            errors[next((b for b in BUSY if b in text), text[:300])] += 1
            try:
                c.execute("ROLLBACK")
            except duckdb.Error:
                pass
            return False

    end = time.time() + seconds
    while not attempt(f"CREATE TABLE {own}(k BIGINT, v VARCHAR)") and time.time() < end:
        pass
    while time.time() < end:
        n += 1
        row = f"({n}, '{who}-{n}')"
        kind = r.random()
        if kind < 0.5:
            ok = attempt(f"INSERT INTO shared VALUES {row}")
            if ok:
                shared[n] = f"{who}-{n}"
        elif kind < 0.7:  # two tables in one transaction: both or none
            ok = attempt(f"INSERT INTO shared VALUES {row}", f"INSERT INTO {own} VALUES {row}")
            if ok:
                shared[n] = mine[n] = f"{who}-{n}"
        elif kind < 0.85 and mine:
            k = r.choice(sorted(mine))
            ok = attempt(f"UPDATE {own} SET v = 'new {n}' WHERE k = {k}")
            if ok:
                mine[k] = f"new {n}"
        elif mine:
            k = r.choice(sorted(mine))
            ok = attempt(f"DELETE FROM {own} WHERE k = {k}")
            if ok:
                del mine[k]
        else:
            continue
        done += ok
    c.close()
    print(json.dumps({"done": done, "errors": errors, "tables": {"shared": sorted([k, v] for k, v in shared.items()), own: sorted([k, v] for k, v in mine.items())}}))


def drop(work, seconds):
    r = random.Random(7)
    files, errors, n = {}, collections.Counter(), 0
    end = time.time() + seconds
    while time.time() < end:
        n += 1
        # Mostly new files; now and then the rows of one that was dropped before are replaced.
        name = r.choice(sorted(files)) if files and r.random() < 0.2 else f"f{n}.csv"
        rows = [[1_000_000 + n * 100 + i, f"file {n}"] for i in range(r.randrange(1, 4))]
        try:
            with open(os.path.join(work, "tables", "main", "shared", name), "w") as f:
                f.write("k,v\n" + "".join(f"{k},{v}\n" for k, v in rows))
            files[name] = rows
        except OSError as e:
            errors["busy" if e.errno == errno.EBUSY else str(e)] += 1
        time.sleep(r.random() * 0.3)
    print(json.dumps({"done": n, "errors": errors, "tables": {"shared": sorted(row for rows in files.values() for row in rows)}}))


def check(work):
    db = sqlite3.connect("file:" + os.path.join(work, "catalog", "lake.sqlite") + "?mode=ro", uri=True)
    print(json.dumps([r[0] for r in db.execute("PRAGMA integrity_check")] + [db.execute(
        "SELECT count(*) - count(DISTINCT snapshot_id), count(*) FROM ducklake_snapshot").fetchone()]))


if __name__ == "__main__":
    {"sql": lambda: sql(sys.argv[2], float(sys.argv[3]), int(sys.argv[4])), "drop": lambda: drop(sys.argv[2], float(sys.argv[3])), "check": lambda: check(sys.argv[2])}[sys.argv[1]]()
