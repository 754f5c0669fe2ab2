package work_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/work"
)

func scanBase() *memBase {
	return newBase().add("geo", "main/t/a.csv=aaa", "main/t/b.csv=bbb", "main/u/x.csv=xxx", "main/empty", "geo/g/c.csv=ccc")
}

func TestScan(t *testing.T) {
	put := func(path, text string) func(string) error {
		return func(dir string) error {
			p := filepath.Join(dir, "tables", path)
			return errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644))
		}
	}
	mv := func(a, b string) func(string) error {
		return func(dir string) error {
			return os.Rename(filepath.Join(dir, "tables", a), filepath.Join(dir, "tables", b))
		}
	}
	rm := func(path string) func(string) error {
		return func(dir string) error { return os.RemoveAll(filepath.Join(dir, "tables", path)) }
	}
	tests := []struct {
		name string
		do   []func(string) error
		want []string
	}{
		{"nothing", nil, []string{}},
		{"new and changed", []func(string) error{put("main/t/n.csv", "n"), put("main/t/a.csv", "longer"), put("loose.csv", "l"), put("geo/in.csv", "i"), put("new/t/y.csv", "y")},
			[]string{"put geo.in in.csv", "put main.loose loose.csv", "put main.t a.csv", "put main.t n.csv", "put new.t y.csv"}},
		{"same size and time, other bytes", []func(string) error{func(dir string) error {
			p := filepath.Join(dir, "tables/main/t/a.csv")
			return errors.Join(os.WriteFile(p, []byte("AAA"), 0o644), os.Chtimes(p, time.Time{}, baseTime))
		}}, []string{"put main.t a.csv"}},
		{"removed", []func(string) error{rm("main/t/a.csv"), rm("main/u"), rm("geo")}, []string{"drop geo.g", "drop main.u", "remove main.t a.csv"}},
		{"renamed", []func(string) error{mv("main/t/a.csv", "main/t/z.csv"), mv("main/u", "main/v")}, []string{"rename table main.v from u", "rename main.t z.csv from a.csv"}},
		{"renamed table, changed file", []func(string) error{mv("main/t", "main/v"), put("main/v/a.csv", "longer"), rm("main/v/b.csv")},
			[]string{"rename table main.v from t", "remove main.v b.csv", "put main.v a.csv"}},
		{"empty table renamed", []func(string) error{mv("main/empty", "main/e2")}, []string{"rename table main.e2 from empty"}},
		{"moved over another", []func(string) error{mv("main/t/a.csv", "main/t/b.csv")}, []string{"remove main.t a.csv", "put main.t b.csv"}},
		{"moved to another table", []func(string) error{mv("main/t/a.csv", "main/u/a.csv")}, []string{"remove main.t a.csv", "put main.u a.csv"}},
		{"backup", []func(string) error{mv("main/t/a.csv", "main/t/a.csv~")}, []string{"remove main.t a.csv"}},
		{"in another form", []func(string) error{rm("main/t/a.csv"), put("main/t/a.json", "{}")}, []string{"put main.t a.json"}},
		{"junk", []func(string) error{put("main/t/.x", ""), put(".git/config", ""), put("main/t/_temporary/0/p.parquet", ""), put("_SUCCESS", "")}, []string{}},
		{"deeper", []func(string) error{put("main/t/year=2024/p.parquet", "")}, []string{"put main.t year=2024/p.parquet"}},
		{"empty new folder", []func(string) error{func(dir string) error { return os.Mkdir(filepath.Join(dir, "tables/main/new"), 0o755) }}, []string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, b := t.TempDir(), scanBase()
			x, err := work.WriteTables(dir, b, b.open)
			noErr(t, err)
			index := filepath.Join(dir, "index")
			noErr(t, x.Write(index))
			for _, do := range tt.do {
				noErr(t, do(dir))
			}
			x, err = work.ReadIndex(index)
			noErr(t, err)
			cs, err := work.Scan(dir, b, x)
			noErr(t, err)
			if d := cmp.Diff(tt.want, shorts(cs)); d != "" {
				t.Errorf("changes:\n%s", d)
			}
			for _, c := range cs {
				if c.Kind == work.Put && c.Real != filepath.Join(dir, c.Path) {
					t.Errorf("%s lies at %s", c.Path, c.Real)
				}
			}
		})
	}
}

func TestScanWithoutIndex(t *testing.T) {
	dir, b := t.TempDir(), scanBase()
	_, err := work.WriteTables(dir, b, b.open)
	noErr(t, err)
	x, err := work.ReadIndex(filepath.Join(dir, "none"))
	noErr(t, err)
	a := b.tree["main"]["t"]["a.csv"]
	cs, err := work.Scan(dir, b, x)
	noErr(t, err)
	want := []string{"put geo.g c.csv", "put main.t a.csv", "put main.t b.csv", "put main.u x.csv"}
	if d := cmp.Diff(want, shorts(cs)); d != "" {
		t.Errorf("every file is to be read:\n%s", d)
	}
	noErr(t, x.Note(dir, "main/t/a.csv", &a), x.Note(dir, "main/t/none", &a))
	cs, err = work.Scan(dir, b, x)
	noErr(t, err)
	if d := cmp.Diff([]string{want[0], want[2], want[3]}, shorts(cs)); d != "" {
		t.Errorf("after Note:\n%s", d)
	}
}

func TestScanRefuses(t *testing.T) {
	dir, b := t.TempDir(), scanBase()
	x, err := work.WriteTables(dir, b, b.open)
	noErr(t, err)
	noErr(t, os.Symlink("/etc/passwd", filepath.Join(dir, "tables/main/t/p.csv")), unix.Mkfifo(filepath.Join(dir, "tables/pipe"), 0o600))
	cs, err := work.Scan(dir, b, x)
	if !errors.Is(err, work.ErrName) || !strings.Contains(err.Error(), "tables/main/t/p.csv") || !strings.Contains(err.Error(), "tables/pipe") || len(cs) > 0 {
		t.Errorf("link and pipe: %v, %v", cs, err)
	}
	noErr(t, os.RemoveAll(filepath.Join(dir, "tables")))
	cs, err = work.Scan(dir, b, x)
	if outcome.Of(err) != outcome.NotFound || len(cs) > 0 {
		t.Errorf("tables/ is missing: %v, %v", cs, err)
	}
}

func TestWriteTables(t *testing.T) {
	dir, b := t.TempDir(), scanBase()
	_, err := work.WriteTables(dir, b, b.open)
	noErr(t, err)
	p := filepath.Join(dir, "tables/main/t/a.csv")
	fi, err := os.Stat(p)
	noErr(t, err)
	text, err := os.ReadFile(p)
	noErr(t, err)
	if string(text) != "aaa" || !fi.ModTime().Equal(baseTime) {
		t.Errorf("a.csv: %q, %v", text, fi.ModTime())
	}
	if fi, err := os.Stat(filepath.Join(dir, "tables/main/empty")); err != nil || !fi.IsDir() {
		t.Errorf("empty table: %v", err)
	}
	if _, err := work.WriteTables(dir, b, b.open); !errors.Is(err, work.ErrExists) {
		t.Errorf("over files: %v", err)
	}
	for _, bad := range []string{"..", "a\x00b"} {
		evil := scanBase()
		evil.tree["main"]["t"][bad] = work.BaseFile{Name: bad, Path: "data/x"}
		evil.bytes["data/x"] = "x"
		out := t.TempDir()
		if _, err := work.WriteTables(filepath.Join(out, "w"), evil, evil.open); outcome.Of(err) != outcome.Refused {
			t.Errorf("file %q: %v", bad, err)
		}
		evil = scanBase()
		evil.tree[bad] = evil.tree["main"]
		if _, err := work.WriteTables(filepath.Join(out, "v"), evil, evil.open); outcome.Of(err) != outcome.Refused {
			t.Errorf("schema %q: %v", bad, err)
		}
	}
}
