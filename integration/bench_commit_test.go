package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sqlClient is DuckDB in a process of its own, attached to work/main, that runs
// what it is told.
type sqlClient struct {
	sb  *sandbox
	in  io.WriteCloser
	out *bufio.Reader
}

const sqlClientScript = `
import duckdb, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar=false")
c.execute(open(sys.argv[1] + "/attach.sql").read())
print("ready", flush=True)
for line in sys.stdin:
    try:
        c.execute(line)
        print("ok", flush=True)
    except Exception as e:
        print(repr(e), flush=True)
`

func newSQLClient(sb *sandbox) *sqlClient {
	sb.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := sb.command(ctx, sb.dir, filepath.Join(venv(sb.t), "bin", "python"), "-c", sqlClientScript, sb.work())
	in, err := cmd.StdinPipe()
	if err != nil {
		sb.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		sb.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		sb.t.Fatal(err)
	}
	sb.t.Cleanup(func() {
		in.Close()
		cancel()
		_ = cmd.Wait()
	})
	c := &sqlClient{sb, in, bufio.NewReader(out)}
	c.expect("ready")
	return c
}

func (c *sqlClient) expect(want string) {
	c.sb.t.Helper()
	line, err := c.out.ReadString('\n')
	if strings.TrimSpace(line) != want {
		c.sb.t.Fatalf("SQL client: %q, %v\n%s", line, err, c.sb.daemonLog())
	}
}

func (c *sqlClient) exec(format string, args ...any) {
	c.sb.t.Helper()
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		c.sb.t.Fatal(err)
	}
	c.expect("ok")
}

// timedCommit touches .commit and says how long that took.
func (sb *sandbox) timedCommit() time.Duration {
	sb.t.Helper()
	start := time.Now()
	if err := sb.touch("commit"); err != nil {
		sb.t.Fatalf("touch .commit: %v\n%s%s", err, sb.failed(), sb.daemonLog())
	}
	return time.Since(start)
}

// logLines are the lines of the daemon's log, as JSON, that have this message.
func (sb *sandbox) logLines(msg string) []map[string]any {
	sb.t.Helper()
	var found []map[string]any
	logs, err := filepath.Glob(filepath.Join(sb.home, "state", "tarn", "log", "*.log"))
	if err != nil || len(logs) == 0 {
		sb.t.Fatal("no log of the daemon", err)
	}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			sb.t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n") {
			var m map[string]any
			if json.Unmarshal([]byte(line), &m) == nil && m["msg"] == msg {
				found = append(found, m)
			}
		}
	}
	return found
}

// usage is what the daemon and its workers have used.
type usage struct {
	cpu                time.Duration
	daemonPeak, worker int64 // greatest resident set so far, bytes
}

func (sb *sandbox) usage() usage {
	sb.t.Helper()
	var u usage
	daemons := map[string]bool{}
	for _, pid := range sb.daemons() {
		daemons[strconv.Itoa(pid)] = true
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (comm) state ppid ...: the 14th and 15th field are the times
		_, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after)
		pid := filepath.Base(filepath.Dir(path))
		if len(fields) < 15 || !daemons[pid] && !daemons[fields[1]] {
			continue
		}
		for _, f := range fields[11:13] {
			ticks, _ := strconv.ParseInt(f, 10, 64)
			u.cpu += time.Duration(ticks) * 10 * time.Millisecond
		}
		status, _ := os.ReadFile(filepath.Join("/proc", pid, "status"))
		_, peak, _ := strings.Cut(string(status), "VmHWM:")
		kb, _, _ := strings.Cut(strings.TrimSpace(peak), " ")
		n, _ := strconv.ParseInt(kb, 10, 64)
		if daemons[pid] {
			u.daemonPeak = max(u.daemonPeak, n<<10)
		} else {
			u.worker = max(u.worker, n<<10)
		}
	}
	return u
}

// long runs a command that may take longer than others.
func (sb *sandbox) long(dir, name string, args ...string) {
	sb.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	if out, err := sb.command(ctx, dir, name, args...).CombinedOutput(); err != nil {
		sb.t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, sb.daemonLog())
	}
}

// largeCatalog publishes a table main.many of n data files and mounts it.
func largeCatalog(b *testing.B, n int) *sandbox {
	b.Helper()
	sb := newSandbox(b)
	needFUSE(b)
	// Not looked at in the end: that takes longer than what is measured.
	sb.damaged = true
	co := filepath.Join(sb.dir, "co")
	sb.must(sb.dir, "tarn init "+sb.repo+" && tarn -C "+sb.repo+" checkout main "+co)
	sb.write(co+"/tables/main/many/seed.csv", "id,name,v\n1,a,0.5\n2,b,1.5\n3,c,2.5\n")
	sb.must(co, "tarn commit")
	grow, err := filepath.Abs("testdata/grow_catalog.py")
	if err != nil {
		b.Fatal(err)
	}
	sb.long(co, filepath.Join(venv(b), "bin", "python"), grow, "catalog/lake.sqlite", filepath.Join(sb.repo, "data"), strconv.Itoa(n))
	start := time.Now()
	sb.long(co, sb.bin, "commit")
	b.Logf("first commit of %d data files, with tables/ of the checkout: %v", n, time.Since(start).Round(time.Millisecond))
	start = time.Now()
	sb.long(co, sb.bin, "push")
	b.Logf("push: %v", time.Since(start).Round(time.Millisecond))
	if err := os.RemoveAll(co); err != nil {
		b.Fatal(err)
	}
	sb.keep(sb.mnt)
	start = time.Now()
	sb.long(sb.dir, sb.bin, "mount", sb.repo, sb.mnt, "--log-level", "debug", "--log-format", "json")
	b.Logf("mount, with the checkout of main: %v", time.Since(start).Round(time.Millisecond))
	return sb
}

// parts adds up the parts of the commits in the log, in milliseconds.
func (sb *sandbox) commitParts(from int) (total float64, parts map[string]float64) {
	sb.t.Helper()
	parts = map[string]float64{}
	lines := sb.logLines("commit took")
	if len(lines) <= from {
		sb.t.Fatalf("%d commits in the log, wanted more than %d", len(lines), from)
	}
	for _, line := range lines[from:] {
		ms, _ := line["total_ms"].(float64)
		total += ms
		of, _ := line["ms"].(map[string]any)
		for name, v := range of {
			ms, _ := v.(float64)
			parts[name] += ms
		}
	}
	return total, parts
}

// BenchmarkCommitInsert commits after one INSERT into catalogs of 1,000, 10,000
// and 100,000 data files. cpu-ms is of daemon and worker together and tells more
// than ms on a machine that does other things, too; the shares are of the time.
func BenchmarkCommitInsert(b *testing.B) {
	for _, n := range []int{1000, 10000, 100000} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			sb := largeCatalog(b, n)
			sql := newSQLClient(sb)
			id := 0
			one := func() time.Duration {
				id++
				sql.exec("INSERT INTO main.many VALUES (%d, 'x', 1.0)", id)
				return sb.timedCommit()
			}
			one() // the first one reads the history once
			for b.Loop() {
				const commits = 5
				before := sb.usage()
				var times []time.Duration
				for range commits {
					times = append(times, one())
				}
				after := sb.usage()
				sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
				b.ReportMetric(times[commits/2].Seconds()*1000, "ms")
				b.ReportMetric((after.cpu-before.cpu).Seconds()*1000/commits, "cpu-ms")
				b.ReportMetric(float64(after.daemonPeak)/1e6, "daemon-MB")
				b.ReportMetric(float64(after.worker)/1e6, "worker-MB")
				total, parts := sb.commitParts(id - commits)
				rest := total
				for _, part := range []string{"freeze", "import", "refuse", "describe"} {
					b.ReportMetric(100*parts[part]/total, part+"-%")
					rest -= parts[part]
				}
				b.ReportMetric(100*rest/total, "other-%")
			}
			b.StopTimer()
			sql.in.Close()
			sb.must(sb.dir, "tarn umount "+sb.mnt)
		})
	}
}

// bigTable publishes main.big: files of rowsPerFile rows of 68 bytes.
func bigTable(sb *sandbox, files, rowsPerFile int) {
	sb.t.Helper()
	src := filepath.Join(sb.dir, "big")
	sb.long(sb.dir, filepath.Join(venv(sb.t), "bin", "python"), "-c", `
import duckdb, os, sys
duckdb.execute("SET enable_progress_bar=false")
d, files, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.makedirs(d)
for f in range(files):
    duckdb.execute(f"""COPY (SELECT range AS id, hash(range)::VARCHAR || md5(range::VARCHAR) AS name, range % 1000 AS n
        FROM range({f * rows}, {(f + 1) * rows})) TO '{d}/f{f:03d}.parquet' (FORMAT parquet, COMPRESSION uncompressed,
        FIELD_IDS {{id: 1, name: 2, n: 3}})""")`, src, strconv.Itoa(files), strconv.Itoa(rowsPerFile))
	sb.long(sb.work(), "bash", "-c", "mkdir -p tables/main/big && cp "+src+"/*.parquet tables/main/big/ && rm -r "+src+" && touch .commit .push")
}

// changedRow makes SQL write a row anew, commits, and says how much the check
// for changes read and whether a version came of it.
func changedRow(sb *sandbox, sql *sqlClient, query string) (read int64, version bool) {
	sb.t.Helper()
	head := func() string {
		text, err := os.ReadFile(filepath.Join(sb.work(), "log"))
		if err != nil {
			sb.t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		return line
	}
	was, compared := head(), len(sb.logLines("rows compared"))
	sql.exec("%s", query)
	sb.timedCommit()
	lines := sb.logLines("rows compared")
	if len(lines) != compared+1 {
		sb.t.Fatalf("rows were compared %d times, wanted once\n%s", len(lines)-compared, sb.daemonLog())
	}
	n, _ := lines[compared]["bytes_read"].(float64)
	return int64(n), head() != was
}

func storedBytes(sb *sandbox) (n int64) {
	sb.t.Helper()
	err := filepath.WalkDir(filepath.Join(sb.repo, "data"), func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		n += fi.Size()
		return err
	})
	if err != nil {
		sb.t.Fatal(err)
	}
	return n
}

// TestChangedRowReadsWhatDiffers: of a table of many row groups, an UPDATE of
// one row makes the check for changes read that row's alone, by the kernel's
// count of what the worker read, and say rightly whether it changed anything.
func TestChangedRowReadsWhatDiffers(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount("--log-level", "debug", "--log-format", "json")
	bigTable(sb, 4, 300000)
	sql := newSQLClient(sb)
	total := storedBytes(sb)
	for _, tc := range []struct {
		name, query string
		version     bool
	}{
		{"nothing changed", "UPDATE main.big SET n = n WHERE id = 450000", false},
		{"changed", "UPDATE main.big SET n = n + 1 WHERE id = 450000", true},
		{"another", "UPDATE main.big SET n = n + 1 WHERE id = 7", true},
	} {
		read, version := changedRow(sb, sql, tc.query)
		if version != tc.version {
			t.Errorf("%s: a version was made: %v", tc.name, version)
		}
		// One row group of 122,880 rows of 1.2 million, footers and catalogs.
		if read == 0 || read > total/4 {
			t.Errorf("%s: read %d bytes of a table of %d", tc.name, read, total)
		}
		t.Logf("%s: read %d bytes of a table of %d", tc.name, read, total)
	}
	sql.in.Close()
}

// BenchmarkChangedRow is TestChangedRowReadsWhatDiffers on 1 GB: how long the
// commit takes, and how much of the table is read to find out what changed.
func BenchmarkChangedRow(b *testing.B) {
	sb := newSandbox(b)
	sb.initAndMount("--log-level", "debug", "--log-format", "json")
	bigTable(sb, 16, 1000000)
	sql := newSQLClient(sb)
	total := storedBytes(sb)
	b.Logf("table of %d bytes", total)
	for name, query := range map[string]string{
		"unchanged": "UPDATE main.big SET n = n WHERE id = 7500000", "changed": "UPDATE main.big SET n = n + 1 WHERE id = 7500000",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				read, version := changedRow(sb, sql, query)
				if version != (name == "changed") {
					b.Errorf("a version was made: %v", version)
				}
				took := sb.logLines("commit took")
				ms, _ := took[len(took)-1]["total_ms"].(float64)
				b.ReportMetric(ms, "ms")
				b.ReportMetric(float64(read)/1e6, "read-MB")
				b.ReportMetric(float64(total)/1e6, "table-MB")
			}
		})
	}
	sql.in.Close()
}
