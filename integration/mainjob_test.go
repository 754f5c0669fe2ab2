package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// TestTranscriptOverHTTP: the README's first two minutes on `tarn serve`.
func TestTranscriptOverHTTP(t *testing.T) {
	venv(t)
	needFUSE(t)
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo)
	web := newWebServer(sb, sb.repo)
	ann := web.client(writeToken)
	playTranscript(t, ann, web.address, web.address)
	ann.umount()
	if out := ann.must(ann.dir, "tarn verify --data --repo "+web.address); !strings.Contains(out, "is whole") {
		t.Error(out)
	}
}

// TestTranscriptByCommands: the README's first two minutes without a mount, by
// the same verbs, on a folder and on S3.
func TestTranscriptByCommands(t *testing.T) {
	venv(t)
	for name, start := range map[string]func(*sandbox) string{
		"folder": func(sb *sandbox) string { return sb.repo },
		"versitygw": func(sb *sandbox) string {
			s := servers.Versitygw(sb.t)
			sb.env = append(sb.env, s.Env()...)
			return s.URL("towns.lake")
		},
	} {
		t.Run(name, func(t *testing.T) {
			sb := newSandbox(t)
			url := start(sb)
			co := filepath.Join(sb.dir, "co")
			sb.write(filepath.Join(sb.home, "towns.csv"), townsCSV)
			sb.write(filepath.Join(sb.home, "more.csv"), moreCSV())
			sb.must(sb.dir, "tarn init '"+url+"' && tarn --repo '"+url+"' checkout main co")
			for _, step := range []struct{ script, want string }{
				{"cp ~/towns.csv tables/ && tarn status", "branch main, no version yet. To commit:\n" +
					"  + main.towns   new table, 3 rows from towns.csv: id BIGINT, name VARCHAR, pop BIGINT\nkeep: tarn commit    drop: tarn reset\n"},
				{"tarn commit && tarn push && tarn status", "committed <ID> \"add table main.towns (3 rows)\"\npushed 1 version to main, now at <ID>\n" +
					"branch main at <ID> \"add table main.towns (3 rows)\", pushed. Nothing to commit.\n"},
				{"ls tables/main/towns", "towns.parquet\n"},
				{`tarn sql --csv main "SELECT count(*) AS n FROM towns"`, "n\n3\n"},
				{`tarn attach --direct main > ../attach.sql && duckdb -csv -noheader -init ../attach.sql -c "SELECT count(*) FROM towns" 2>/dev/null | tail -n 1`, "3\n"},
			} {
				if d := cmp.Diff(step.want, maskID.ReplaceAllString(sb.must(co, step.script), "<ID>")); d != "" {
					t.Errorf("%s (-want +got):\n%s", step.script, d)
				}
			}
			r := sb.sh(co, "cp ~/more.csv tables/main/towns/ && tarn commit")
			if r.code != 12 || !strings.Contains(r.out, `tables/main/towns/more.csv line 17, column pop: "n/a" is not a BIGINT (wanted by table main.towns)`) {
				t.Errorf("commit: exit code %d\n%s", r.code, r.out)
			}
			if got := sb.must(co, "cmp ~/more.csv tables/main/towns/more.csv && rm tables/main/towns/more.csv && tarn status"); !strings.Contains(got, "Nothing to commit") {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

// TestMainJobElsewhere: DuckDB in a working folder, and files beside it, on S3
// and over HTTP, through a mount; the version reads the same from a clone.
func TestMainJobElsewhere(t *testing.T) {
	venv(t)
	needFUSE(t)
	for name, start := range map[string]func(t *testing.T) *sandbox{
		"versitygw": func(t *testing.T) *sandbox {
			s := servers.Versitygw(t)
			sb := onStore(t, s)
			sb.repo = s.URL("towns.lake")
			sb.must(sb.dir, "tarn init '"+sb.repo+"'")
			return sb
		},
		"serve": func(t *testing.T) *sandbox {
			sb := newSandbox(t)
			sb.must(sb.dir, "tarn init "+sb.repo)
			return newWebServer(sb, sb.repo).client(writeToken)
		},
	} {
		t.Run(name, func(t *testing.T) {
			sb := start(t)
			sb.mount()
			w := sb.work()
			sb.sql("CREATE TABLE a (n BIGINT, s VARCHAR)", "INSERT INTO a SELECT range, 'x' FROM range(100)", "UPDATE a SET s = 'y' WHERE n < 10",
				"DELETE FROM a WHERE n = 50", "ALTER TABLE a ADD COLUMN d DOUBLE DEFAULT 0.5", "CREATE TABLE p (n BIGINT, day VARCHAR)",
				"ALTER TABLE p SET PARTITIONED BY (day)", "INSERT INTO p VALUES (1, 'mon'), (2, 'tue')", "CREATE VIEW few AS SELECT n FROM a WHERE s = 'y'")
			sb.must(w, "touch .commit")
			// Both at once: one commit holds both, and no id comes twice.
			sb.write(w+"/tables/main/b/one.csv", "n\n1\n2\n")
			sb.sql("INSERT INTO a VALUES (1000, 'z', 1)")
			sb.write(w+"/tables/main/b/two.csv", "n\n3\n")
			before := strings.TrimSpace(sb.must(w, "tarn log --json | wc -l"))
			sb.must(w, "touch .commit")
			sb.wantClean(w)
			if before != "1" || strings.TrimSpace(sb.must(w, "tarn log --json | wc -l")) != "2" {
				t.Errorf("versions: %s", sb.must(w, "cat log"))
			}
			sb.must(w, "touch .push")
			ids := sb.python(sb.mnt, `
import json
files = json.load(open("branches/main/files.json"))["files"]
ids = [f["id"] for f in files]
print(len(ids) == len(set(ids)), len(set(f["table_id"] for f in files if f["kind"] == "data")))`)
			if ids != "True 3\n" {
				t.Errorf("ids: %s", ids)
			}
			const query = "SELECT (SELECT count(*) || ' ' || sum(n) || ' ' || sum(d) FROM a) || ' ' || (SELECT sum(n) FROM b) || ' ' || (SELECT count(*) FROM few) || ' ' || (SELECT string_agg(day, '' ORDER BY n) FROM p)"
			want := "100 5900 50.5 6 10 montue"
			if got := sb.ask(query); got != "[('"+want+"',)]\n" {
				t.Errorf("in the mount: %s", got)
			}
			sb.umount()
			sb.must(sb.dir, "tarn clone '"+sb.repo+"' clone.lake && tarn verify --data --repo clone.lake")
			sb.wantRows("clone.lake", query, want)
			sb.wantRows(sb.repo, query, want)
		})
	}
}

// TestTwoWritersElsewhere: two mounts push to one branch on S3 and over HTTP:
// one ESTALE, and touch .pull .push keeps both sets of rows.
func TestTwoWritersElsewhere(t *testing.T) {
	venv(t)
	needFUSE(t)
	for name, start := range map[string]func(t *testing.T) func() *sandbox{
		"versitygw": func(t *testing.T) func() *sandbox {
			s := servers.Versitygw(t)
			first := onStore(t, s)
			first.must(first.dir, "tarn init '"+s.URL("towns.lake")+"'")
			return func() *sandbox {
				sb := onStore(t, s)
				sb.repo = s.URL("towns.lake")
				return sb
			}
		},
		"serve": func(t *testing.T) func() *sandbox {
			sb := newSandbox(t)
			sb.must(sb.dir, "tarn init "+sb.repo)
			web := newWebServer(sb, sb.repo)
			return func() *sandbox { return web.client(writeToken) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := start(t)
			ann, bob := client(), client()
			ann.mount()
			ann.write(ann.work()+"/tables/towns.csv", "id,name\n1,Aarau\n")
			ann.must(ann.work(), "touch .commit .push")
			bob.mount()
			ann.write(ann.work()+"/tables/main/towns/ann.csv", "id,name\n10,Ann\n")
			bob.write(bob.work()+"/tables/main/towns/bob.csv", "id,name\n20,Bob\n")
			ann.must(ann.work(), "touch .commit .push")
			bob.must(bob.work(), "touch .commit")
			if out := bob.fails(bob.work(), "touch .push"); !strings.Contains(out, "Stale file handle") {
				t.Errorf("push: %s", out)
			}
			bob.must(bob.work(), "touch .pull .push && test ! -e FAILED.txt")
			bob.wantClean(bob.work())
			ann.must(ann.work(), "touch .pull")
			for _, sb := range []*sandbox{ann, bob} {
				if got, want := sb.lakeRows("towns"), "[(1, 'Aarau'), (10, 'Ann'), (20, 'Bob')]"; got != want {
					t.Errorf("rows %s, want %s", got, want)
				}
			}
			bob.umount()
			ann.umount()
		})
	}
}

// TestRepositoryMoves: copied to another path and to S3 by programs that know
// nothing of it, the old root gone: old versions read, with their checksums.
func TestRepositoryMoves(t *testing.T) {
	venv(t)
	needFUSE(t)
	s := servers.Versitygw(t)
	sb := onStore(t, s)
	sb.must(sb.dir, "tarn init "+sb.repo+" && tarn --repo "+sb.repo+" checkout main co")
	co := filepath.Join(sb.dir, "co")
	sb.write(co+"/tables/main/t/a.csv", "n\n1\n2\n")
	sb.must(co, "tarn commit && tarn push && tarn tag v1")
	sb.inCheckout(co, sb.attachSQL(co), "DELETE FROM t WHERE n = 2", "ALTER TABLE t ADD COLUMN s VARCHAR DEFAULT 'd'", "INSERT INTO t VALUES (3, 'x')")
	sb.must(co, "tarn commit && tarn push && cp -a "+sb.repo+" ../moved.lake")

	copied := s.URL("copied.lake")
	copyToS3(t, sb, filepath.Join(sb.dir, "moved.lake"), servers.Bucket+"/copied.lake", s)
	old := sb.repo
	sb.must(sb.dir, "rm -rf '"+old+"' co")
	for _, at := range []string{filepath.Join(sb.dir, "moved.lake"), copied} {
		if out := sb.must(sb.dir, "tarn verify --data --repo '"+at+"'"); !strings.Contains(out, "is whole") {
			t.Errorf("%s: %s", at, out)
		}
		for ref, want := range map[string]string{"v1": "2 3", "main": "2 4", "main~1": "2 3"} {
			got := sb.must(sb.dir, `tarn sql --csv --repo '`+at+`' `+ref+` "SELECT count(*) || ' ' || sum(n) AS r FROM t"`)
			if got != "r\n"+want+"\n" {
				t.Errorf("%s of %s: %s, want %s", ref, at, got, want)
			}
			// A client of DuckLake, too, by what attach says, and past any mount.
			direct := sb.must(sb.dir, "tarn attach --direct --repo '"+at+"' "+ref)
			if got := sb.inCheckout(sb.dir, direct, "SELECT count(*) || ' ' || sum(n) FROM t"); got != "[('"+want+"',)]" {
				t.Errorf("DuckDB at %s of %s: %s, want %s", ref, at, got, want)
			}
		}
		// It goes on from there: a mount, a commit, a push.
		user := onStore(t, s)
		user.repo = at
		user.mount()
		if got := user.python(user.mnt, askSQL, "tags/v1/attach.sql", "SELECT sum(n)::BIGINT FROM t"); got != "[(3,)]\n" {
			t.Errorf("mount of %s: %s", at, got)
		}
		user.write(user.work()+"/tables/main/t/more.csv", "n,s\n10,m\n")
		user.must(user.work(), "touch .commit .push")
		user.umount()
		sb.wantRows(at, "SELECT count(*) || ' ' || sum(n) FROM t", "3 14")
	}
}

// copyToS3 copies a folder to bucket/prefix by rclone, where `setup.sh bench`
// has installed it, else by pyarrow's client of S3.
func copyToS3(t *testing.T, sb *sandbox, from, to string, s *servers.Server) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	rclone := filepath.Join(cache, "tarn-dev", "servers", "bin", "rclone")
	if _, err := exec.LookPath(rclone); err == nil {
		sb.must(sb.dir, "RCLONE_CONFIG="+os.DevNull+" RCLONE_CONFIG_X_TYPE=s3 RCLONE_CONFIG_X_PROVIDER=Other RCLONE_CONFIG_X_ENV_AUTH=true RCLONE_CONFIG_X_ENDPOINT="+
			s.Endpoint+" RCLONE_CONFIG_X_REGION=us-east-1 RCLONE_CONFIG_X_FORCE_PATH_STYLE=true '"+rclone+"' copy '"+from+"' 'X:"+to+"'")
		return
	}
	sb.python(sb.dir, `
import sys
from pyarrow import fs
at = sys.argv[3]
s3 = fs.S3FileSystem(endpoint_override=at.split("://")[1], scheme="http", region="us-east-1")
fs.copy_files(sys.argv[1], sys.argv[2], destination_filesystem=s3, source_filesystem=fs.LocalFileSystem())`, from, to, s.Endpoint)
}
