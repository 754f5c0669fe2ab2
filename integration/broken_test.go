package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lakeFile is the backing file of the working catalog.
func (sb *sandbox) lakeFile() string {
	sb.t.Helper()
	found, err := filepath.Glob(filepath.Join(sb.home, "state/tarn/*-*/work/main/gen/*/catalog/lake.sqlite"))
	if err != nil || len(found) != 1 {
		sb.t.Fatalf("lake.sqlite: %v %v", found, err)
	}
	return found[0]
}

// TestWorkingCatalogLostOrRubbish: lake.sqlite deleted or overwritten while
// nothing is mounted is rebuilt from the last commit, staged files stay, and
// the broken file is kept in the trash.
func TestWorkingCatalogLostOrRubbish(t *testing.T) {
	venv(t)
	for name, breakIt := range map[string]func(path string) error{
		"deleted":   os.Remove,
		"rubbish":   func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("rubbish ", 4000)), 0o600) },
		"empty":     func(p string) error { return os.Truncate(p, 0) },
		"truncated": func(p string) error { return os.Truncate(p, 5000) },
	} {
		t.Run(name, func(t *testing.T) {
			sb := newSandbox(t)
			sb.initAndMount()
			sb.write(sb.work()+"/tables/main/t/a.csv", "x,y\n1,one\n")
			sb.must(sb.work(), "touch .commit .push")
			sb.write(sb.work()+"/tables/main/t/b.csv", "x,y\n2,two\n")
			sb.umount()
			if err := breakIt(sb.lakeFile()); err != nil {
				t.Fatal(err)
			}
			sb.mount()
			if out := sb.must(sb.work(), "cat status"); !strings.Contains(out, "1 row from b.csv") {
				t.Errorf("status: %s", out)
			}
			sb.must(sb.work(), "touch .commit .push")
			if got, want := sb.lakeRows("t"), "[(1, 'one'), (2, 'two')]"; got != want {
				t.Errorf("rows %s, want %s", got, want)
			}
			sb.umount()
		})
	}
}

// TestHalfDeletedRepository: each part that is missing is named, in one line,
// with its exit code; nothing panics.
func TestHalfDeletedRepository(t *testing.T) {
	needFUSE(t)
	for _, tc := range []struct {
		name, remove string
		cmd          string
		code         int
		want         string
	}{
		{"fdl.json", "fdl.json", "tarn mount $R $M", 10, "not a repository"},
		{"HEAD", "HEAD", "tarn mount $R $M", 19, "no HEAD"},
		{"the tip's version.json", "versions/*/version.json", "tarn mount $R $M", 19, "version.json"},
		{"the tip's catalog", "versions/*/ducklake.duckdb", "tarn --repo $R checkout main $D/plain", 19, "ducklake.duckdb"},
		{"files.json", "versions/*/files.json", "tarn --repo $R show main", 19, "files.json"},
		{"all versions", "versions", "tarn --repo $R log", 19, "version"},
		{"refs", "refs", "tarn --repo $R log main", 10, "main"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sb := newSandbox(t)
			sb.initAndMount()
			sb.write(sb.work()+"/tables/main/t/a.csv", "x,y\n1,one\n")
			sb.must(sb.work(), "touch .commit .push")
			sb.umount()
			sb.damaged = true
			if err := os.RemoveAll(filepath.Join(sb.home, "state")); err != nil {
				t.Fatal(err)
			}
			sb.must(sb.repo, "rm -r "+tc.remove)
			r := sb.sh("/", strings.NewReplacer("$R", sb.repo, "$M", sb.mnt, "$D", sb.dir).Replace(tc.cmd))
			if r.code != tc.code || !strings.Contains(r.out, tc.want) {
				t.Errorf("exit code %d, want %d and %q\n%s", r.code, tc.code, tc.want, r.out)
			}
			if n := strings.Count(strings.TrimRight(r.out, "\n"), "\n"); n != 1 || strings.Contains(r.out, "panic") {
				t.Errorf("want one line what and one what to do:\n%s", r.out)
			}
		})
	}
}

// TestVerify: a whole repository is whole; each damage is named, with exit code 1.
func TestVerify(t *testing.T) {
	needFUSE(t)
	sb := newSandbox(t)
	sb.initAndMount()
	sb.write(sb.work()+"/tables/main/t/a.csv", "x,y\n1,one\n")
	sb.must(sb.work(), "touch .commit .push")
	sb.umount()
	if out := sb.must("/", "tarn --repo "+sb.repo+" verify --data"); !strings.Contains(out, "is whole") {
		t.Errorf("verify: %s", out)
	}
	sb.damaged = true
	sb.must(sb.repo, `f=$(ls data/main/t/*.parquet); chmod u+w $f; printf X | dd of=$f bs=1 seek=20 conv=notrunc 2>/dev/null`)
	if r := sb.sh("/", "tarn --repo "+sb.repo+" verify"); r.code != 0 {
		t.Errorf("verify without --data reads no data file: exit code %d\n%s", r.code, r.out)
	}
	if r := sb.sh("/", "tarn --repo "+sb.repo+" verify --data"); r.code != 1 || !strings.Contains(r.out, "fault: data/main/t/a-") {
		t.Errorf("verify --data after a flipped byte: exit code %d\n%s", r.code, r.out)
	}
	sb.must(sb.repo, "rm data/main/t/*.parquet versions/*/files.json")
	if r := sb.sh("/", "tarn --repo "+sb.repo+" verify --json"); r.code != 1 || !strings.Contains(r.out, `files.json`) {
		t.Errorf("verify after a loss: exit code %d\n%s", r.code, r.out)
	}
}
