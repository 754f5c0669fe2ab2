package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// makeForeign makes the newest version of a folder repository look like
// another tool's: no files.json, no dataset.json, no sha256, fields, files and a
// further catalog that nobody here knows.
const makeForeign = `
import json, os, sys
root = sys.argv[1]
d = root + "/versions/" + open(root + "/refs/heads/main").read().strip() + "/"
os.remove(d + "files.json"); os.remove(d + "dataset.json")
v = json.load(open(d + "version.json"))
os.remove(d + "version.json")
json.dump({"id": v["id"], "parents": v["parents"], "created_at": v["created_at"], "message": "by another tool",
           "ducklake": {"snapshot_id": v["ducklake"]["snapshot_id"], "x": 1}, "colour": "green"}, open(d + "version.json", "w"))
os.makedirs(d + "catalogs")
open(d + "catalogs/other.duckdb", "w").write("another catalog")
open(d + "origin.txt", "w").write("unknown")
`

// TestVersionsMadeByOthers: real programs on a version of another tool, in a
// folder, on S3 and behind tarn serve.
func TestVersionsMadeByOthers(t *testing.T) {
	venv(t)
	needFUSE(t)
	for _, kind := range []string{"folder", "versitygw"} {
		t.Run(kind, func(t *testing.T) {
			sb := newSandbox(t)
			sb.must(sb.dir, "tarn init "+sb.repo+" && tarn --repo "+sb.repo+" checkout main co")
			co := filepath.Join(sb.dir, "co")
			sb.write(co+"/tables/main/t/a.csv", "n\n1\n2\n")
			sb.must(co, "tarn commit && tarn push")
			sb.inCheckout(co, sb.attachSQL(co), "DELETE FROM t WHERE n = 2", "INSERT INTO t VALUES (3)", "CREATE TABLE empty (x INTEGER)")
			sb.must(co, "tarn commit && tarn push")
			sb.python(sb.dir, makeForeign, sb.repo)
			sb.must(sb.dir, "rm -rf co '"+sb.home+"/cache'")
			if kind == "versitygw" {
				s := servers.Versitygw(t)
				sb.env = append(sb.env, s.Env()...)
				from := sb.repo
				sb.repo = s.URL("towns.lake")
				copyToS3(t, sb, from, servers.Bucket+"/towns.lake", s)
			}
			repo := "--repo '" + sb.repo + "'"

			// The mount: what is listed and read.
			sb.mount()
			v := "branches/main/"
			if got, want := sb.must(sb.mnt, "ls "+v+" "+v+"catalogs "+v+"tables/main | tr '\\n' ' '"), v+": attach.sql catalogs data diff ducklake.duckdb log origin.txt tables version.json  "+
				v+"catalogs: other.duckdb  "+v+"tables/main: empty t "; got != want {
				t.Errorf("the folder: %q, want %q", got, want)
			}
			if got := sb.must(sb.mnt, "cat "+v+"catalogs/other.duckdb "+v+"origin.txt && find "+v+" -type f -exec cat {} + > /dev/null"); got != "another catalogunknown" {
				t.Errorf("files: %q", got)
			}
			if got := sb.lakeRows("t"); got != "[(1,), (3,)]" {
				t.Errorf("DuckDB by attach.sql: %s", got)
			}
			if got := sb.python(sb.mnt, `
import pyarrow.dataset as ds
print(sorted(ds.dataset("branches/main/tables/main/t", format="parquet").to_table()["n"].to_pylist()))`); got != "[1, 3]\n" {
				t.Errorf("tables/: %s", got)
			}
			// A commit that changes nothing makes none; one on top is like any other.
			sb.must(sb.work(), "touch .commit")
			sb.wantClean(sb.work())
			if got := sb.must(sb.work(), "tarn log --json | wc -l"); strings.TrimSpace(got) != "2" {
				t.Errorf("versions: %s", sb.must(sb.work(), "cat log"))
			}
			sb.write(sb.work()+"/tables/main/t/more.csv", "n\n10\n")
			sb.must(sb.work(), "touch .commit .push")
			sb.umount()

			for _, cmd := range []string{"log", "log --table t", "show main~1", "diff main~2 main~1", "diff --rows main~2 main~1", "diff --rows main~1 main", "verify --data", "gc --dry-run", "gc"} {
				sb.must(sb.dir, "tarn "+cmd+" "+repo)
			}
			sb.must(sb.dir, "tarn export "+repo+" -o out.csv main~1:t && grep -q 3 out.csv && tarn clone '"+sb.repo+"' clone.lake && tarn verify --data --repo clone.lake")
			for _, at := range []string{sb.repo, "clone.lake"} {
				if got := sb.must(sb.dir, `tarn sql --csv --repo '`+at+`' main~1 "SELECT sum(n) AS s FROM t"`); got != "s\n4\n" {
					t.Errorf("%s: %s", at, got)
				}
				sb.wantRows(at, "SELECT sum(n) FROM t", "14")
			}
			if got := storedFiles(t, filepath.Join(sb.dir, "clone.lake", "versions")); !strings.Contains(fmt.Sprint(got), "/catalogs/other.duckdb") || !strings.Contains(fmt.Sprint(got), "/origin.txt") {
				t.Errorf("the clone has %q", got)
			}
			if _, err := os.Stat(filepath.Join(sb.dir, "clone.lake", "HEAD")); err != nil {
				t.Error(err)
			}
			// Behind a server, where nothing is listed for a reader without a token.
			web := newWebServer(sb, filepath.Join(sb.dir, "clone.lake"))
			reader := web.client(readToken)
			reader.must(reader.dir, "tarn clone "+web.address+" again.lake && tarn verify --data --repo again.lake && tarn verify --data --repo "+web.address)
			reader.must(reader.dir, "diff -r again.lake '"+filepath.Join(sb.dir, "clone.lake")+"'")
		})
	}
}

// TestLaterLayoutRefused: each verb names a later layout, on both kinds of store.
func TestLaterLayoutRefused(t *testing.T) {
	venv(t)
	for _, kind := range []string{"folder", "versitygw"} {
		for _, later := range []struct{ name, make, want string }{
			{"metadata.db", `import json, sys
d = sys.argv[1] + "/versions/" + open(sys.argv[1] + "/refs/heads/main").read().strip()
import os
os.rename(d + "/ducklake.duckdb", d + "/metadata.db")
v = json.load(open(d + "/version.json")); v["sha256"]["metadata.db"] = v["sha256"].pop("ducklake.duckdb")
os.remove(d + "/version.json"); json.dump(v, open(d + "/version.json", "w"))`, "has metadata.db instead of ducklake.duckdb: a later repository format"},
			{"format_version", `import sys
open(sys.argv[1] + "/fdl.json", "w").write('{"format_version": 2}')`, "fdl.json has format_version 2, this tarn reads up to 1"},
		} {
			t.Run(kind+"/"+later.name, func(t *testing.T) {
				sb := newSandbox(t)
				sb.damaged = true
				sb.must(sb.dir, "tarn init "+sb.repo+" && tarn --repo "+sb.repo+" checkout main co")
				sb.write(sb.dir+"/co/tables/main/t/a.csv", "n\n1\n")
				sb.must(sb.dir+"/co", "tarn commit && tarn push")
				sb.python(sb.dir, later.make, sb.repo)
				at := sb.repo
				if kind == "versitygw" {
					s := servers.Versitygw(t)
					sb.env = append(sb.env, s.Env()...)
					copyToS3(t, sb, sb.repo, servers.Bucket+"/towns.lake", s)
					at = s.URL("towns.lake")
				}
				for _, cmd := range []string{"log", "show main", "diff main main", "sql main 'SELECT 1'", "export -o x.csv main:t", "branch", "tag x", "checkout main co2", "gc --dry-run", "gc",
					"attach --direct main", "verify --data"} {
					r := sb.sh(sb.dir, "tarn --repo '"+at+"' "+cmd)
					finding := strings.HasPrefix(cmd, "verify") && later.name == "metadata.db"
					if r.code != 12 && !(finding && r.code == 1) || !strings.Contains(r.out, later.want) {
						t.Errorf("tarn %s: exit code %d\n%s", cmd, r.code, r.out)
					}
				}
				for _, cmd := range []string{"clone '" + at + "' copy.lake", "mount '" + at + "' " + sb.mnt} {
					if r := sb.sh(sb.dir, "tarn "+cmd); r.code != 12 || !strings.Contains(r.out, later.want) {
						t.Errorf("tarn %s: exit code %d\n%s", cmd, r.code, r.out)
					}
				}
				if kind == "folder" { // the checkout that was made before
					for _, cmd := range []string{"status", "commit", "push", "pull", "merge main"} {
						if r := sb.sh(sb.dir+"/co", "tarn "+cmd); r.code != 12 || !strings.Contains(r.out, later.want) {
							t.Errorf("tarn %s: exit code %d\n%s", cmd, r.code, r.out)
						}
					}
				}
			})
		}
	}
}
