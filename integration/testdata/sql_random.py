"""A DuckDB user who runs random transactions in a working folder, drops files
into its tables, and commits and pushes in between. After each push the version
is read by another process and must give what this session sees.

usage: sql_random.py MOUNT SEED TRANSACTIONS
       sql_random.py --reader MOUNT       (the other process: a request a line)
"""
import collections
import datetime
import errno
import glob
import json
import os
import random
import subprocess
import sys

import duckdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lakeanswers as la


def reader(mnt):
    """Reads the branch's version, as a stranger would."""
    known = {}
    for _ in sys.stdin:
        at = os.path.realpath(os.path.join(mnt, "branches", "main"))
        c, alias = la.connect(os.path.join(at, "attach.sql"))
        la.ids(c, alias, known)
        cols = la.tables(c, alias)
        got = la.answers(c, alias)
        # The rows of a table as its files, which must be those of the table.
        for (s, t), rows in la.shown(os.path.join(at, "tables"), cols).items():
            if rows != got[f"table {s}.{t}"]["rows"]:
                raise AssertionError(f"tables/{s}/{t} has the rows {rows[:20]}, the table {got[f'table {s}.{t}']['rows'][:20]}")
        c.close()
        print(json.dumps([os.path.basename(at), got]), flush=True)


TYPES = ["INTEGER", "BIGINT", "DOUBLE", "FLOAT", "VARCHAR", "DECIMAL(9,2)", "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "BOOLEAN", "UUID", "BLOB", "TIME", "TIME WITH TIME ZONE", "JSON", "UTINYINT", "UBIGINT",
         "STRUCT(x INTEGER, y VARCHAR)", "INTEGER[]", "MAP(VARCHAR, INTEGER)", "STRUCT(p STRUCT(q DOUBLE)[])"]
WIDER = {"UTINYINT": ["INTEGER", "BIGINT", "UBIGINT"], "INTEGER": ["BIGINT"], "FLOAT": ["DOUBLE"]}
FLAT = {"INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "DATE", "BOOLEAN"}  # what a CSV file carries exactly


class User:
    def __init__(self, mnt, seed):
        self.mnt, self.work, self.r = mnt, os.path.join(mnt, "work", "main"), random.Random(seed)
        self.c, self.alias = la.connect(os.path.join(self.work, "attach.sql"))
        self.n = 0  # names given out
        self.done, self.failed = collections.Counter(), collections.Counter()
        self.why = collections.Counter()
        self.drops = []  # staged: (schema, table, file, columns, rows as text)
        self.log = []
        self.other = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--reader", mnt], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.history = {}

    def fresh(self, prefix):
        self.n += 1
        return f"{prefix}{self.n}"

    # What there is, as this session sees it: also inside its transaction.

    def tables(self):
        return la.tables(self.c, self.alias)

    def schemas(self):
        return [s for s, in self.c.execute("SELECT schema_name FROM duckdb_schemas() WHERE database_name = ?", [self.alias]).fetchall()]

    def views(self):
        return self.c.execute("SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = ? AND NOT internal", [self.alias]).fetchall()

    def macros(self):
        return self.c.execute("SELECT schema_name, function_name, function_type FROM duckdb_functions() WHERE database_name = ? AND NOT internal", [self.alias]).fetchall()

    def table(self):
        have = sorted(self.tables().items())
        return self.r.choice(have) if have else None

    # Values.

    def literal(self, typ):
        r = self.r
        if r.random() < 0.12:
            return "NULL"
        text = lambda: "'" + r.choice(["", "a", "it''s", "ü→", 'say "hi"', "a,b", "x" * 200, "NULL", str(r.randrange(50))]) + "'"
        if typ.startswith("STRUCT(p"):
            return "{'p': [{'q': " + str(r.random()) + "}, NULL]}"
        if typ.startswith("STRUCT"):
            return "{'x': " + self.literal("INTEGER") + ", 'y': " + self.literal("VARCHAR") + "}"
        if typ.endswith("[]"):
            return "[" + ", ".join(self.literal("INTEGER") for _ in range(r.randrange(3))) + "]::INTEGER[]"
        if typ.startswith("MAP"):
            return "MAP {" + ", ".join(f"'k{i}': {r.randrange(9)}" for i in range(r.randrange(3))) + "}::MAP(VARCHAR, INTEGER)"
        return {
            "INTEGER": lambda: str(r.randrange(-50, 50)), "BIGINT": lambda: str(r.choice([r.randrange(-50, 50), 2**62 + r.randrange(99)])),
            "UTINYINT": lambda: str(r.randrange(256)), "UBIGINT": lambda: str(r.choice([r.randrange(50), 2**64 - 1])),
            "DOUBLE": lambda: r.choice([repr(r.random()), "'nan'::DOUBLE", "'-inf'::DOUBLE", "-0.0"]), "FLOAT": lambda: f"{r.random():.3f}",
            "VARCHAR": text, "DECIMAL(9,2)": lambda: f"{r.randrange(-10**6, 10**6) / 100:.2f}", "BOOLEAN": lambda: r.choice(["true", "false"]),
            "DATE": lambda: f"DATE '20{r.randrange(10, 40)}-0{r.randrange(1, 9)}-1{r.randrange(9)}'",
            "TIMESTAMP": lambda: f"TIMESTAMP '2024-01-0{r.randrange(1, 9)} 01:02:03.{r.randrange(10**6):06d}'",
            "TIMESTAMP WITH TIME ZONE": lambda: f"TIMESTAMPTZ '2024-01-0{r.randrange(1, 9)} 01:02:03.5+02'",
            "TIME": lambda: f"TIME '0{r.randrange(9)}:02:03.5'", "TIME WITH TIME ZONE": lambda: f"'0{r.randrange(9)}:02:03+02'::TIMETZ", "JSON": lambda: f"'{{\"a\": {r.randrange(9)}}}'::JSON",
            "UUID": lambda: f"'{r.getrandbits(128):032x}'::UUID", "BLOB": lambda: f"'\\x{r.randrange(256):02X}b'::BLOB",
        }[typ]()

    def columns(self):
        return [(self.fresh(self.r.choice(["c", "Col ", "ü"])), self.r.choice(TYPES)) for _ in range(self.r.randrange(1, 5))]

    def values(self, cols, n):
        return ", ".join("(" + ", ".join(f"({self.literal(t)})::{t}" for _, t in cols) + ")" for _ in range(n))

    def where(self, cols):
        n, t = self.r.choice(cols)
        if self.r.random() < 0.3:
            return f"{la.name(n)} IS {self.r.choice(['', 'NOT '])}NULL"
        return f"{la.name(n)} {self.r.choice(['=', '<', '>='])} ({self.literal(t)})::{t} OR hash({la.name(n)}) % {self.r.randrange(2, 5)} = 0"

    # Statements: (kind, SQL), or None where there is nothing to do it to.

    def create(self):
        full = la.name(self.alias, self.r.choice(self.schemas()), self.fresh("t"))
        if self.r.random() < 0.3 and (t := self.table()):
            return f"CREATE TABLE {full} AS FROM {la.name(self.alias, *t[0])}"
        cols = self.columns()
        defs = ", ".join(f"{la.name(n)} {t}" + (f" DEFAULT {self.r.randrange(9)}" if t in ("INTEGER", "BIGINT") and self.r.random() < 0.3 else "") for n, t in cols)
        return f"CREATE TABLE {full}({defs})"

    def replace(self):
        if t := self.table():
            return f"CREATE OR REPLACE TABLE {la.name(self.alias, *t[0])} AS SELECT {self.r.randrange(9)} AS a, 'x' AS b FROM range({self.r.randrange(5)})"

    def insert(self):
        if t := self.table():
            if self.r.random() < 0.2:
                return f"INSERT INTO {la.name(self.alias, *t[0])} FROM {la.name(self.alias, *t[0])} LIMIT 50"
            return f"INSERT INTO {la.name(self.alias, *t[0])} VALUES {self.values(t[1], self.r.randrange(1, 12))}"

    def update(self):
        if t := self.table():
            n, typ = self.r.choice(t[1])
            return f"UPDATE {la.name(self.alias, *t[0])} SET {la.name(n)} = ({self.literal(typ)})::{typ} WHERE {self.where(t[1])}"

    def delete(self):
        if t := self.table():
            where = "" if self.r.random() < 0.1 else f" WHERE {self.where(t[1])}"
            return f"DELETE FROM {la.name(self.alias, *t[0])}{where}"

    def merge(self):
        if t := self.table():
            full, n = la.name(self.alias, *t[0]), la.name(t[1][0][0])
            src = f"(SELECT * FROM (VALUES {self.values(t[1], 4)}) v({', '.join(la.name(x) for x, _ in t[1])}) QUALIFY row_number() OVER (PARTITION BY {n}) = 1)"
            return f"MERGE INTO {full} USING {src} s ON {full}.{n} = s.{n} WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT"

    def add_column(self):
        if t := self.table():
            typ = self.r.choice(TYPES)
            default = f" DEFAULT {self.r.randrange(9)}" if typ in ("INTEGER", "BIGINT", "DOUBLE") and self.r.random() < 0.5 else ""
            return f"ALTER TABLE {la.name(self.alias, *t[0])} ADD COLUMN {la.name(self.fresh('n'))} {typ}{default}"

    def add_field(self):
        if t := self.table():
            structs = [n for n, typ in t[1] if typ.startswith("STRUCT(x")]
            if structs:
                return f"ALTER TABLE {la.name(self.alias, *t[0])} ADD COLUMN {la.name(self.r.choice(structs), self.fresh('f'))} INTEGER"

    def drop_column(self):
        if (t := self.table()) and len(t[1]) > 1:
            return f"ALTER TABLE {la.name(self.alias, *t[0])} DROP COLUMN {la.name(self.r.choice(t[1])[0])}"

    def rename_column(self):
        if t := self.table():
            return f"ALTER TABLE {la.name(self.alias, *t[0])} RENAME COLUMN {la.name(self.r.choice(t[1])[0])} TO {la.name(self.fresh('r'))}"

    def retype(self):
        if t := self.table():
            for n, typ in self.r.sample(t[1], len(t[1])):
                if typ in WIDER:
                    return f"ALTER TABLE {la.name(self.alias, *t[0])} ALTER COLUMN {la.name(n)} SET DATA TYPE {self.r.choice(WIDER[typ])}"

    def set_default(self):
        if t := self.table():
            for n, typ in t[1]:
                if typ in ("INTEGER", "BIGINT"):
                    return f"ALTER TABLE {la.name(self.alias, *t[0])} ALTER COLUMN {la.name(n)} SET DEFAULT {self.r.randrange(99)}"

    def rename_table(self):
        if t := self.table():
            return f"ALTER TABLE {la.name(self.alias, *t[0])} RENAME TO {la.name(self.fresh('t'))}"

    def drop_table(self):
        if len(self.tables()) > 3 and (t := self.table()):
            return f"DROP TABLE {la.name(self.alias, *t[0])}"

    def create_schema(self):
        return f"CREATE SCHEMA {la.name(self.alias, self.fresh(self.r.choice(['s', 'Sch ema '])))}"

    def drop_schema(self):
        s = [x for x in self.schemas() if x != "main"]
        if len(s) > 2:
            return f"DROP SCHEMA {la.name(self.alias, self.r.choice(s))} CASCADE"

    def partition(self):
        if t := self.table():
            if self.r.random() < 0.3:
                return f"ALTER TABLE {la.name(self.alias, *t[0])} RESET PARTITIONED BY"
            n, typ = self.r.choice(t[1])
            how = f"year({la.name(n)})" if typ in ("DATE", "TIMESTAMP") else f"bucket(3, {la.name(n)})" if typ == "INTEGER" and self.r.random() < 0.5 else la.name(n)
            if typ in ("INTEGER", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN"):
                return f"ALTER TABLE {la.name(self.alias, *t[0])} SET PARTITIONED BY ({how})"

    def sort(self):
        if t := self.table():
            return f"ALTER TABLE {la.name(self.alias, *t[0])} " + self.r.choice(["RESET SORTED BY", f"SET SORTED BY ({la.name(self.r.choice(t[1])[0])} DESC)"])

    def comment(self):
        if t := self.table():
            text = self.r.choice(["NULL", "'it''s'", f"'remark {self.fresh('')}'"])
            if self.r.random() < 0.5:
                return f"COMMENT ON TABLE {la.name(self.alias, *t[0])} IS {text}"
            return f"COMMENT ON COLUMN {la.name(self.alias, *t[0])}.{la.name(self.r.choice(t[1])[0])} IS {text}"

    def view(self):
        if (v := self.views()) and self.r.random() < 0.4:
            v = la.name(self.alias, *self.r.choice(v))
            return self.r.choice([f"DROP VIEW {v}", f"COMMENT ON VIEW {v} IS 'seen'", f"ALTER VIEW {v} RENAME TO {self.fresh('v')}"])
        if t := self.table():
            return f"CREATE OR REPLACE VIEW {la.name(self.alias, self.r.choice(self.schemas()), self.fresh('v'))} AS SELECT *, 1 AS one FROM {la.name(*t[0])}"

    def macro(self):
        if (m := self.macros()) and self.r.random() < 0.4:
            s, n, typ = self.r.choice(m)
            return f"DROP MACRO {'' if typ == 'macro' else 'TABLE '}{la.name(self.alias, s, n)}"
        full = la.name(self.alias, self.r.choice(self.schemas()), self.fresh("m"))
        return self.r.choice([f"CREATE MACRO {full}(x) AS x * {self.r.randrange(9)}", f"CREATE MACRO {full}(x, y := 'it''s') AS TABLE SELECT x AS a, y AS b"])

    STATEMENTS = ([create] * 3 + [replace] + [insert] * 8 + [update] * 5 + [delete] * 5 + [merge] * 2 + [add_column] * 2 + [add_field] + [drop_column] + [rename_column] + [retype] * 2
                  + [set_default] + [rename_table] + [drop_table] + [create_schema] + [drop_schema] + [partition] * 2 + [sort] + [comment] * 2 + [view] * 2 + [macro] * 2)

    def transaction(self):
        """1 to 4 statements, committed or rolled back."""
        kinds = []
        self.c.execute("BEGIN")
        try:
            for _ in range(self.r.randrange(1, 5)):
                make = self.r.choice(self.STATEMENTS)
                if make.__name__ == "rename_table" and kinds:
                    continue  # with another ALTER in one transaction DuckLake 1.5 leaves the table there twice
                sql = make(self)
                if sql:
                    self.log.append(sql)
                    self.c.execute(sql)
                    kinds.append(make.__name__)
                    if make.__name__ == "rename_table" or sql.endswith("RESET PARTITIONED BY"):
                        break  # an INSERT after the latter, in one transaction, ends DuckDB 1.5 with an internal error
            if self.r.random() < 0.1:
                self.c.execute("ROLLBACK")
                self.done["rollback"] += 1
                return
            self.c.execute("COMMIT")
            self.done.update(kinds)
            self.done["transaction"] += 1
            if "retype" in kinds:
                # DuckLake 1.5 keeps a table's bounds in the old type for this
                # session, and then fails at min() and max() with an internal error.
                self.reconnect()
        except duckdb.Error as e:
            # What DuckLake does not do, alone or with the statement before it.
            if "INTERNAL" in str(e) or "FATAL" in str(e) or "IO Error" in str(e):
                raise
            self.failed["transaction"] += 1
            self.why[str(e).split("\n")[0][:120]] += 1
            try:
                self.c.execute("ROLLBACK")
            except duckdb.Error:
                pass

    def maintain(self):
        sql = self.r.choice([f"CALL ducklake_merge_adjacent_files('{self.alias}')", f"CALL ducklake_rewrite_data_files('{self.alias}', delete_threshold => 0)",
                             f"CHECKPOINT {la.name(self.alias)}", f"CALL ducklake_flush_inlined_data('{self.alias}')",
                             f"CALL ducklake_delete_orphaned_files('{self.alias}', cleanup_all => true)"])
        self.log.append(sql)
        try:
            self.c.execute(sql)
            self.done["maintain"] += 1
        except duckdb.Error as e:
            # DuckLake 1.5 fails at some of its own sorted and retyped tables; a
            # session is no good after that, the catalog is as it was.
            self.failed["maintain"] += 1
            self.why[str(e).split("\n")[0][:120]] += 1
            self.reconnect()

    def reconnect(self):
        self.c.close()
        self.c, self.alias = la.connect(os.path.join(self.work, "attach.sql"))

    # Files.

    def drop_file(self):
        have = sorted(self.tables().items())
        plain = [t for t in have if "/" not in t[0][0] + t[0][1]]
        if not plain:
            return
        (s, t), cols = self.r.choice(plain)
        if self.r.random() < 0.2:
            t, cols = self.fresh("dropped"), self.columns()
        if any(typ == "TIME WITH TIME ZONE" for _, typ in cols):
            return  # refused in a file: it has no form there that every reader takes alike
        csv = all(typ in FLAT for _, typ in cols) and self.r.random() < 0.5
        f = os.path.join(self.work, "tables", s, t, self.fresh("d") + (".csv" if csv else ".parquet"))
        os.makedirs(os.path.dirname(f), exist_ok=True)
        m = duckdb.connect()
        m.execute("SET TimeZone = 'UTC'; CREATE TABLE x(" + ", ".join(f"{la.name(n)} {typ}" for n, typ in cols) + ")")
        m.execute(f"INSERT INTO x VALUES {self.values(cols, self.r.randrange(1, 8))}")
        if csv:  # NULL and the empty string are one there
            for n, typ in cols:
                m.execute(f"DELETE FROM x WHERE {la.name(n)} IS NULL" + (f" OR {la.name(n)} IN ('', 'NULL')" if typ == "VARCHAR" else f" OR NOT isfinite({la.name(n)})" if typ == "DOUBLE" else ""))
            if m.execute("SELECT count(*) FROM x").fetchone()[0] == 0:
                return
        m.execute(f"COPY x TO '{f.replace(chr(39), chr(39) * 2)}'" + (" (HEADER)" if csv else ""))
        rows = m.execute("SELECT * FROM x").fetchall()
        self.log.append(f"-- drop {f} {cols}")
        self.drops.append((s, t, f, cols, rows, open(f, "rb").read(), dict(have).get((s, t))))

    def expected(self, before_rows):
        """The rows of each table with what is staged."""
        want, sure = {}, {}
        for k, (cols, rows) in before_rows.items():
            want[k] = ([n for n, _ in cols], [dict(zip([n for n, _ in cols], r)) for r in rows])
            sure[k] = True
        for s, t, f, cols, rows, _, _ in self.drops:
            names, have = want.setdefault((s, t), ([], []))
            for n, _ in cols:
                if n not in names:
                    names.append(n)
            have += [dict(zip([n for n, _ in cols], r)) for r in rows]
        return {k: sorted("|".join(la.value(r.get(n)) for n in names) for r in rows) for k, (names, rows) in want.items()}

    def now(self):
        return {k: (cols, self.c.execute(f"SELECT * FROM {la.name(self.alias, *k)}").fetchall()) for k, cols in self.tables().items()}

    def touch(self, verb):
        try:
            os.utime(os.path.join(self.work, "." + verb))
        except OSError as e:
            if e.errno != errno.EINVAL:
                raise AssertionError(f".{verb}: {e}: {self.failure()}")
            return self.failure()

    def failure(self):
        try:
            return open(os.path.join(self.work, "FAILED.txt")).read()
        except FileNotFoundError:
            return ""

    def commit(self):
        before = self.now()
        why = self.touch("commit")
        while why:
            # A file that does not fit any more, because SQL has changed its table since.
            bad = [d for d in self.drops if os.path.relpath(d[2], self.work) in why]
            if not bad:
                raise AssertionError("commit refused: " + why)
            for d in bad:
                if before.get((d[0], d[1]), (None,))[0] == d[6] and d[6] is not None and len({x[2] for x in self.drops if x[:2] == d[:2]}) == 1:
                    raise AssertionError(f"{d[2]} has the columns of its table, {d[3]}, and was refused: {why}")
                if open(d[2], "rb").read() != d[5]:
                    raise AssertionError(f"{d[2]} was changed by a refused commit")
            if self.now() != before and repr(self.now()) != repr(before):
                raise AssertionError("a refused commit changed the catalog: " + why)
            for d in bad[:1]:
                os.remove(d[2])
                self.drops.remove(d)
            self.done["refused"] += 1
            why = self.touch("commit")
        want = self.expected(before)
        got = {k: sorted("|".join(la.value(v) for v in r) for r in rows) for k, (_, rows) in self.now().items()}
        for k in want:
            # A CSV file of a table that was dropped meanwhile makes it anew, with types of its own.
            retyped = k not in before and any(d[2].endswith(".csv") for d in self.drops if d[:2] == k)
            if got.get(k) != want[k] and not (retyped and len(got.get(k, [])) == len(want[k])):
                raise AssertionError(f"{k} after the commit: {got.get(k)}, want {want[k]}; dropped {[d[:4] for d in self.drops]}")
        if set(got) != set(want):
            raise AssertionError(f"tables {set(got) ^ set(want)} came or went in the commit")
        self.done["dropped"] += len(self.drops)
        self.drops = []
        mine = json.loads(json.dumps(la.answers(self.c, self.alias)))
        if why := self.touch("push"):
            raise AssertionError("push refused: " + why)
        if "no version yet" in open(os.path.join(self.work, "status")).readline():
            return  # nothing was done yet
        self.other.stdin.write("read\n")
        self.other.stdin.flush()
        line = self.other.stdout.readline()
        if not line:
            raise AssertionError("the reader of versions failed")
        version, theirs = json.loads(line)
        if mine != theirs:
            for k in sorted(set(mine) | set(theirs)):
                if mine.get(k) != theirs.get(k):
                    raise AssertionError(f"version {version}, {k}:\n{theirs.get(k)}\nDuckDB in the working folder:\n{mine.get(k)}")
        if version not in self.history:
            self.done["version"] += 1
        self.history[version] = theirs
        la.ids(self.c, self.alias, {})

    def older(self):
        """Every version still gives what it gave when it was new."""
        for version, want in self.history.items():
            c, alias = la.connect(os.path.join(self.mnt, "versions", version, "attach.sql"))
            got = json.loads(json.dumps(la.answers(c, alias)))
            c.close()
            for k in sorted(set(got) | set(want)):
                if got.get(k) != want.get(k):
                    raise AssertionError(f"version {version} changed, {k}:\n{got.get(k)}\nwas\n{want.get(k)}")


def main(mnt, seed, count):
    u = User(mnt, seed)
    try:
        while u.done["transaction"] < count:
            if sum(u.failed.values()) > 5 * count:
                raise AssertionError(f"too many transactions fail: {u.why}")
            u.transaction()
            if u.r.random() < 0.25:
                u.drop_file()
            if u.r.random() < 0.08:
                u.maintain()
            if u.r.random() < 0.3:
                u.commit()
            if u.r.random() < 0.05:  # another client takes over
                u.reconnect()
        u.commit()
        u.older()
    except Exception:
        print("\n".join(u.log[-60:]), file=sys.stderr)
        raise
    finally:
        u.other.stdin.close()
        u.other.wait(timeout=60)
    print(json.dumps({"done": u.done, "failed": u.failed, "why": u.why}))


if __name__ == "__main__":
    if sys.argv[1] == "--reader":
        reader(sys.argv[2])
    else:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
