package fs_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/outcome"
)

// TestMountedControl runs the programs that people use on control files.
func TestMountedControl(t *testing.T) {
	t.Parallel()
	needCommand(t, "python3", "rsync")
	p := startServed(t, setup{})
	p.must(`echo text > /tmp/tarn-msg.$$; mv /tmp/tarn-msg.$$ ` + p.setup.Dir + `/msg`)
	commit := func(message string) []act { return []act{{"commit", message}} }
	for _, tc := range []struct {
		script string
		want   []act
	}{
		{`touch $W/.commit`, commit("")},
		{`touch -c $W/.commit`, commit("")},
		{`touch $W/.commit $W/.push`, []act{{"commit", ""}, {"push", ""}}},
		{`touch -d yesterday $W/.commit`, nil},
		{`touch -a $W/.commit`, nil},
		{`: > $W/.commit`, nil},
		{`echo a message > $W/.commit`, commit("a message")},
		{`echo a message >> $W/.commit`, commit("a message")},
		{`/bin/echo a message | tee $W/.commit`, commit("a message")},
		{`printf 'one\ntwo\n' > $W/.commit`, commit("one\ntwo")},
		{`cp ` + p.setup.Dir + `/msg $W/.commit`, commit("text")},
		{`cp -p ` + p.setup.Dir + `/msg $W/.commit`, commit("text")},
		{`dd if=` + p.setup.Dir + `/msg of=$W/.commit status=none`, commit("text")},
		{`python3 -c 'open("'$W'/.commit","w").write("from python")'`, commit("from python")},
		{`python3 -c 'import os; f=open("'$W'/.commit","w"); f.write("m"); f.flush(); os.utime(f.fileno()); f.close()'`, commit("m")},
		{`python3 -c 'import os; f=open("'$W'/.commit","w"); f.write("m"); f.flush(); os.fsync(f.fileno()); f.close()'`, commit("m")},
		{`sync $W/.commit`, commit("")},
		{`sync -d $W/.reset`, []act{{"reset", ""}}},
		{`sync $W`, []act{{"sync", ""}}},
		{`sync -f $W`, nil},
		{`sync $W/tables $W/catalog $W/data $W/meta $W/..`, nil},
		{`cat $W/.commit >/dev/null; test -f $W/.push; stat $W/.reset >/dev/null`, nil},
		{`ls -la $W $W/tables >/dev/null; find $W -type f -exec stat {} + >/dev/null`, nil},
		{`rsync -a $W/ ` + p.setup.Dir + `/copy/ && cp -a $W ` + p.setup.Dir + `/copy2 && test ! -e ` + p.setup.Dir + `/copy/.commit -a ! -e ` + p.setup.Dir + `/copy2/.commit`, nil},
		{`tar cf - -C $W . >/dev/null`, nil},
	} {
		if out, rc := p.sh(tc.script); rc != 0 {
			t.Errorf("%s: exit code %d\n%s", tc.script, rc, out)
		}
		if d := cmp.Diff(tc.want, p.acts()); d != "" {
			t.Errorf("%s: %s", tc.script, d)
		}
	}
	if got := p.must(`cat $W/.push`); got != "last push: done" {
		t.Errorf(".push reads %q", got)
	}
	out, rc := p.sh(`head -c 70000 /dev/zero | tr '\0' x > $W/.commit`)
	if rc == 0 || !strings.Contains(out, "File too large") || p.acts() != nil {
		t.Errorf("a message of 70000 bytes: exit code %d, %s", rc, out)
	}
}

// TestMountedControlError: a refusal reaches the shell, in each way to ask
// that a shell does not hide.
func TestMountedControlError(t *testing.T) {
	t.Parallel()
	p := startServed(t, setup{})
	p.ask(command{Op: "fail", Outcome: outcome.Refused, Arg: "more.csv line 17"})
	for _, script := range []string{`touch $W/.commit`, `sync $W/.commit`, `/bin/echo m > $W/.commit`, `python3 -c 'f=open("'$W'/.commit","w"); f.write("m"); f.close()'`} {
		out, rc := p.sh(script)
		if rc == 0 || !strings.Contains(out, "Invalid argument") {
			t.Errorf("%s: exit code %d, %q", script, rc, out)
		}
	}
	p.ask(command{Op: "failed", Arg: "commit refused: more.csv line 17\n"})
	if got := p.must(`cat $W/FAILED.txt; ls $W | grep FAILED`); got != "commit refused: more.csv line 17\nFAILED.txt" {
		t.Errorf("FAILED.txt: %q", got)
	}
	p.ask(command{Op: "failed"})
	p.must(`test ! -e $W/FAILED.txt`)
}

// TestMountedInterrupt: a caller that is stopped leaves at once, the work
// goes on, and a second caller is answered meanwhile.
func TestMountedInterrupt(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	p := startServed(t, setup{})
	p.ask(command{Op: "delay", Delay: 2500 * time.Millisecond})
	for _, how := range []string{`touch $W/.commit`, `sync $W/.commit`, `/bin/echo m > $W/.commit`} {
		for _, sig := range []string{"TERM", "KILL"} {
			p.ask(command{Op: "clear"})
			start := time.Now()
			_, rc := p.sh(`timeout -s ` + sig + ` 1 bash -c '` + how + `'`)
			if took := time.Since(start); took > 2300*time.Millisecond || rc == 0 {
				t.Errorf("%s, %s: exit code %d after %v", how, sig, rc, took)
			}
			if !eventually(func() bool { return len(p.ask(command{Op: "state"}).Results) == 1 }) {
				t.Errorf("%s, %s: the work did not end", how, sig)
			}
		}
	}
}

func eventually(ok func() bool) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

// TestMountedSecondCaller: while one request waits, another is busy at once,
// and everything else in the folder goes on.
func TestMountedSecondCaller(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	p := startServed(t, setup{})
	p.ask(command{Op: "delay", Delay: 1500 * time.Millisecond})
	p.ask(command{Op: "busy", Flag: true})
	first := exec.Command("touch", p.W+"/.commit")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return len(p.ask(command{Op: "state"}).Acts) == 1 }) {
		t.Fatal("the first request did not arrive")
	}
	start := time.Now()
	for _, script := range []string{`touch $W/.commit`, `touch $W/.push`, `sync $W/.commit`} {
		if out, rc := p.sh(script); rc == 0 || !strings.Contains(out, "Device or resource busy") {
			t.Errorf("%s: exit code %d, %q", script, rc, out)
		}
	}
	p.must(`ls -la $W $W/tables/main/towns >/dev/null; cat $W/status; echo 1 > $W/tables/main/towns/x.csv; mkdir $W/tables/main/y; echo '{}' > $W/meta/dataset.json; rm $W/tables/main/towns/x.csv`)
	if took := time.Since(start); took > 1200*time.Millisecond {
		t.Errorf("waited for the first: %v", took)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("the first: %v", err)
	}
}

// makeLake makes the working catalog.
func makeLake(p *served, journal string) {
	p.Helper()
	p.must(`python3 -c "
import sqlite3
c = sqlite3.connect('$W/catalog/lake.sqlite')
c.execute('PRAGMA journal_mode=` + journal + `')
c.execute('CREATE TABLE t(x)')
c.commit()
"`)
}

// TestMountedFolderSync: fsync of the folder waits for a child that opens the
// catalog through the side door, with nothing cached.
func TestMountedFolderSync(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	asRoot(t)
	needCommand(t, "python3")
	for _, journal := range []string{"wal", "delete"} {
		t.Run(journal, func(t *testing.T) {
			p := startServed(t, setup{})
			makeLake(p, journal)
			p.ask(command{Op: "worker", Flag: true})
			if door := p.ask(command{Op: "state"}).Door; door != p.M+"/work/.w/main" {
				t.Fatalf("door %q", door)
			}
			for range 3 {
				p.must(`echo 3 > /proc/sys/vm/drop_caches; exec 9<$W; echo 3 > /proc/sys/vm/drop_caches; timeout 15 sync $W`)
			}
			if got := p.must(`python3 -c "import sqlite3; print(sqlite3.connect('$W/catalog/lake.sqlite').execute('SELECT count(*) FROM t').fetchone()[0])"`); got != "3" {
				t.Errorf("%s rows", got)
			}
			r := p.ask(command{Op: "state"})
			if r.Clients["catalog"] != 0 || r.Most["catalog"] == 0 {
				t.Errorf("clients of the catalog: %v, at most %v", r.Clients, r.Most)
			}
		})
	}
}

// TestMountedDoorIsNoClient: the worker's handles are not counted as a client's.
func TestMountedDoorIsNoClient(t *testing.T) {
	t.Parallel()
	needCommand(t, "python3")
	p := startServed(t, setup{})
	st := p.ask(command{Op: "state"})
	if err := os.WriteFile(st.Catalog+"/lake.sqlite", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p.must(`exec 8<$W/catalog/lake.sqlite; exec 8<&-`)
	if got := p.ask(command{Op: "state"}).Most["catalog"]; got != 1 {
		t.Fatalf("a client counts %d", got)
	}
	makeLake(p, "wal")
	before := p.ask(command{Op: "state"}).Most["catalog"]
	p.ask(command{Op: "worker", Flag: true})
	p.must(`sync $W`)
	if got := p.ask(command{Op: "state"}).Most["catalog"]; got != before {
		t.Errorf("the worker counts as a client: %d, before %d", got, before)
	}
}

// TestMountedCatalog: two clients, one by catalog/ and one by the door, write
// the same database; nothing is lost, and both see one set of files.
func TestMountedCatalog(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	needCommand(t, "python3", "sqlite3")
	const rows = 30
	for _, journal := range []string{"wal", "delete"} {
		t.Run(journal, func(t *testing.T) {
			p := startServed(t, setup{})
			makeLake(p, journal)
			script := `
import sqlite3, sys
for i in range(%d):
    c = sqlite3.connect(sys.argv[1] + "/lake.sqlite", timeout=30, isolation_level=None)
    c.execute("BEGIN IMMEDIATE"); c.execute("INSERT INTO t VALUES (?)", (sys.argv[2] + str(i),)); c.execute("COMMIT")
    c.close()
`
			out := p.must(fmt.Sprintf(`S='%s'
python3 -c "$S" $W/catalog a & A=$!
python3 -c "$S" $M/work/.w/main b & B=$!
python3 -c "$S" $W/catalog c & C=$!
wait $A && wait $B && wait $C && sqlite3 $W/catalog/lake.sqlite 'SELECT count(*), count(DISTINCT x) FROM t; PRAGMA integrity_check'`, fmt.Sprintf(script, rows)))
			if want := fmt.Sprintf("%d|%d\nok", 3*rows, 3*rows); out != want {
				t.Errorf("got %q, want %q", out, want)
			}
			if got := p.must(`stat -c %i $W/catalog/lake.sqlite $M/work/.w/main/lake.sqlite | uniq | wc -l`); got != "1" {
				t.Error("the door shows another inode")
			}
		})
	}
}
