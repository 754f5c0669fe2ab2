"""A DuckDB session in a working folder that may lose its life, its worker or its
mount at any moment, and says before and after each transaction what it asks for.

usage: sql_killed.py WORK FIRST SEED
Reads go, stop and rows from stdin. Prints JSON lines:
  {"try": KEY, "value": V, "both": B}   asked for: table a holds V under KEY, or
                                        nothing (null); with B the same of table b
  {"ok": KEY}   acknowledged        {"no": KEY}   surely not done
  {"unknown": KEY, "why": TEXT}     no answer
  {"stopped": true}                 answer to stop
  {"a": [[KEY, V]...], "b": [KEY...]}   answer to rows
"""
import json
import os
import queue
import random
import sys
import threading
import time

import duckdb

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lakeanswers as la

BUSY = ("database is locked", "busy", "Exceeded the maximum retry count")


def say(**what):
    os.write(1, (json.dumps(what) + "\n").encode())  # one write: whole, or not at all


class Session:
    def __init__(self, work, first, seed):
        self.work, self.next, self.r = work, first, random.Random(seed)
        self.mine = []  # keys that are surely there: (key, both)
        self.c = None

    def connect(self):
        self.c, _ = la.connect(os.path.join(self.work, "attach.sql"), timeout_ms=2000)

    def lost(self):
        if self.c is not None:
            try:
                self.c.close()
            except Exception:
                pass
        self.c = None

    def transaction(self):
        """One transaction; False when there is nobody to ask."""
        kind = self.r.random()
        if kind < 0.6 or not self.mine:
            self.next += 1
            key, both, value = self.next, kind < 0.3, f"new {self.next}"
            statements = [f"INSERT INTO a VALUES ({key}, '{value}')"] + [f"INSERT INTO b VALUES ({key}, '{value}')"] * both
        else:
            key, both = self.r.choice(self.mine)
            self.next += 1
            if kind < 0.8:
                value, statements = f"changed {self.next}", [f"UPDATE a SET v = 'changed {self.next}' WHERE k = {key}"]
            else:
                value, statements = None, [f"DELETE FROM a WHERE k = {key}", f"DELETE FROM b WHERE k = {key}"]
        asked = False
        try:
            if self.c is None:
                self.connect()
            self.c.execute("BEGIN")
            for s in statements:
                self.c.execute(s)
            asked = True
            say(**{"try": key, "value": value, "both": both})
            self.c.execute("COMMIT")
        except (duckdb.Error, OSError) as e:
            text = str(e)
            busy = any(b in text for b in BUSY)
            if asked:
                say(**({"no": key} if busy else {"unknown": key, "why": text[:200]}))
                if not busy:
                    self.mine = [m for m in self.mine if m[0] != key]
            try:
                self.c.execute("ROLLBACK")
            except Exception:
                pass
            if not busy:
                self.lost()
                return False
            return True
        say(ok=key)
        if value is None:
            self.mine = [m for m in self.mine if m[0] != key]
        elif value.startswith("new"):
            self.mine.append((key, both))
        return True

    def rows(self):
        if self.c is None:
            self.connect()
        return {"a": self.c.execute("SELECT k, v FROM a ORDER BY ALL").fetchall(), "b": [k for k, in self.c.execute("SELECT k FROM b ORDER BY ALL").fetchall()]}


def main(work, first, seed):
    s = Session(work, first, seed)
    asked = queue.Queue()

    def listen():
        for line in sys.stdin:
            asked.put(line.strip())
        asked.put("end")

    threading.Thread(target=listen, daemon=True).start()
    running = False
    while True:
        try:
            what = asked.get(block=not running)
        except queue.Empty:
            if not s.transaction():
                time.sleep(0.02)
            continue
        if what == "end":
            return
        running = what == "go"
        if what == "stop":
            say(stopped=True)
        elif what == "rows":
            say(**s.rows())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
