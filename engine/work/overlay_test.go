package work_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/work"
)

func TestErrnos(t *testing.T) {
	b := newBase().add("main/t/a.csv=a", "main/t/b.csv=b", "main/empty", "geo/g/a.csv=g")
	long := strings.Repeat("n", 256)
	tests := []struct {
		name string
		op   func(o *work.Overlay) error
		want error
	}{
		{"lookup missing", func(o *work.Overlay) error { _, err := o.Lookup("main/none"); return err }, syscall.ENOENT},
		{"lookup below a file", func(o *work.Overlay) error { _, err := o.Lookup("main/t/a.csv/x"); return err }, syscall.ENOTDIR},
		{"lookup with dots", func(o *work.Overlay) error { _, err := o.Lookup("main/../main"); return err }, syscall.EINVAL},
		{"name too long", func(o *work.Overlay) error { _, err := o.Lookup("main/" + long); return err }, syscall.ENAMETOOLONG},
		{"list a file", func(o *work.Overlay) error { _, err := o.List("main/t/a.csv"); return err }, syscall.ENOTDIR},
		{"open folder to read", func(o *work.Overlay) error { _, _, err := o.OpenRead("main"); return err }, syscall.EISDIR},
		{"open folder to write", func(o *work.Overlay) error { _, err := o.OpenWrite("main/t", os.O_WRONLY, b.open); return err }, syscall.EISDIR},
		{"open missing to write", func(o *work.Overlay) error { _, err := o.OpenWrite("main/t/x", os.O_WRONLY, b.open); return err }, syscall.ENOENT},
		{"create exclusively over base", func(o *work.Overlay) error {
			_, _, err := o.Create("main/t/a.csv", os.O_WRONLY|os.O_EXCL, 0o644, b.open)
			return err
		}, syscall.EEXIST},
		{"create in a missing folder", func(o *work.Overlay) error { return write(o, b, "main/none/x.csv", "") }, syscall.ENOENT},
		{"create over a table", func(o *work.Overlay) error { return write(o, b, "main/t", "") }, syscall.EISDIR},
		{"create too long", func(o *work.Overlay) error { return write(o, b, "main/t/"+long, "") }, syscall.ENAMETOOLONG},
		{"copy up fails", func(o *work.Overlay) error {
			_, err := o.OpenWrite("main/t/a.csv", os.O_WRONLY, func(work.BaseFile) (work.Source, error) { return nil, syscall.ETIMEDOUT })
			return err
		}, syscall.ETIMEDOUT},
		{"truncate below zero", func(o *work.Overlay) error { return o.Truncate("main/t/a.csv", -1, b.open) }, syscall.EINVAL},
		{"unlink folder", func(o *work.Overlay) error { return o.Unlink("main/t") }, syscall.EISDIR},
		{"unlink missing", func(o *work.Overlay) error { return o.Unlink("main/t/none") }, syscall.ENOENT},
		{"mkdir over table", func(o *work.Overlay) error { _, err := o.Mkdir("main/t", 0o755); return err }, syscall.EEXIST},
		{"mkdir over base file", func(o *work.Overlay) error { _, err := o.Mkdir("main/t/a.csv", 0o755); return err }, syscall.EEXIST},
		{"mkdir in missing", func(o *work.Overlay) error { _, err := o.Mkdir("none/t", 0o755); return err }, syscall.ENOENT},
		{"rmdir table with files", func(o *work.Overlay) error { return o.Rmdir("main/t") }, syscall.ENOTEMPTY},
		{"rmdir file", func(o *work.Overlay) error { return o.Rmdir("main/t/a.csv") }, syscall.ENOTDIR},
		{"rmdir tables itself", func(o *work.Overlay) error { return o.Rmdir("") }, syscall.EBUSY},
		{"rmdir schema of the base", func(o *work.Overlay) error {
			noErr(t, o.Unlink("geo/g/a.csv"), o.Rmdir("geo/g"))
			return o.Rmdir("geo")
		}, syscall.EPERM},
		{"rename exchange", func(o *work.Overlay) error { return o.Rename("main/t/a.csv", "main/t/b.csv", unix.RENAME_EXCHANGE) }, syscall.EINVAL},
		{"rename noreplace over base", func(o *work.Overlay) error { return o.Rename("main/t/a.csv", "main/t/b.csv", unix.RENAME_NOREPLACE) }, syscall.EEXIST},
		{"rename base file to another table", func(o *work.Overlay) error { return o.Rename("main/t/a.csv", "main/empty/a.csv", 0) }, syscall.EXDEV},
		{"rename base table to another schema", func(o *work.Overlay) error { return o.Rename("main/t", "geo/t", 0) }, syscall.EXDEV},
		{"rename base schema", func(o *work.Overlay) error { return o.Rename("geo", "geo2", 0) }, syscall.EPERM},
		{"rename file over folder", func(o *work.Overlay) error { return o.Rename("main/t/a.csv", "main/empty", 0) }, syscall.EISDIR},
		{"rename folder over file", func(o *work.Overlay) error { return o.Rename("main/empty", "main/t/a.csv", 0) }, syscall.ENOTDIR},
		{"rename table over full table", func(o *work.Overlay) error { return o.Rename("main/empty", "main/t", 0) }, syscall.ENOTEMPTY},
		{"rename table into itself", func(o *work.Overlay) error { return o.Rename("main/t", "main/t/x", 0) }, syscall.EINVAL},
		{"rename missing", func(o *work.Overlay) error { return o.Rename("main/none", "main/x", 0) }, syscall.ENOENT},
		{"chmod missing", func(o *work.Overlay) error { return o.Chmod("main/none", 0o600) }, syscall.ENOENT},
		{"chmod of a base file is accepted", func(o *work.Overlay) error { return o.Chmod("main/t/a.csv", 0o600) }, nil},
		{"times of a base file are accepted", func(o *work.Overlay) error { return o.SetTimes("main/t/a.csv", time.Now(), time.Now()) }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOverlay(t, b)
			// Not errors.Is: a mount hands the result to the kernel as it is.
			if got := tt.op(o); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// "rsync -a": a temporary name beside the file, its times and mode, a rename
// over it; a second run compares size and time and transfers nothing.
func TestRsync(t *testing.T) {
	b := newBase().add("main/t/a.csv=old")
	o := newOverlay(t, b)
	h, _, err := o.Create("main/t/.a.csv.Xy12Zz", os.O_RDWR|os.O_EXCL, 0o600, nil)
	noErr(t, err)
	_, err = h.WriteString("new bytes")
	noErr(t, err, o.SetTimes("main/t/.a.csv.Xy12Zz", time.Time{}, stagedTime), o.Chmod("main/t/.a.csv.Xy12Zz", 0o444), h.Close())
	if got := o.OpenWriters(); len(got) > 0 {
		t.Errorf("open for writing: %v", got)
	}
	wantStaged(t, o) // the temporary name is junk
	noErr(t, o.Rename("main/t/.a.csv.Xy12Zz", "main/t/a.csv", 0))
	e, err := o.Lookup("main/t/a.csv")
	noErr(t, err)
	if e.Size != 9 || !e.ModTime.Equal(stagedTime) || e.Perm != 0o444 || e.Kind != work.KindStaged {
		t.Errorf("after rsync: %+v", e)
	}
	cs := wantStaged(t, o, "put main.t a.csv")
	if cs[0].Path != "tables/main/t/a.csv" || cs[0].Size != 9 || !cs[0].ModTime.Equal(stagedTime) {
		t.Errorf("change: %+v", cs[0])
	}
}

func TestEditors(t *testing.T) {
	tests := []struct {
		name string
		do   func(o *work.Overlay, b *memBase) error
	}{
		{"sed -i", func(o *work.Overlay, b *memBase) error {
			return errors.Join(write(o, b, "main/t/sedAbCdEf", "new"), o.Rename("main/t/sedAbCdEf", "main/t/a.csv", 0))
		}},
		{"vim, backup by rename", func(o *work.Overlay, b *memBase) error {
			return errors.Join(write(o, b, "main/t/4913", ""), o.Unlink("main/t/4913"),
				o.Rename("main/t/a.csv", "main/t/a.csv~", 0), write(o, b, "main/t/a.csv", "new"), o.Unlink("main/t/a.csv~"))
		}},
		{"emacs, backup kept", func(o *work.Overlay, b *memBase) error {
			return errors.Join(o.Rename("main/t/a.csv", "main/t/a.csv~", 0), write(o, b, "main/t/a.csv", "new"))
		}},
		{"in place", func(o *work.Overlay, b *memBase) error {
			h, err := o.OpenWrite("main/t/a.csv", os.O_RDWR, b.open)
			if err != nil {
				return err
			}
			_, err = h.WriteAt([]byte("new"), 0)
			return errors.Join(err, h.Close())
		}},
		{"remove and write", func(o *work.Overlay, b *memBase) error {
			return errors.Join(o.Unlink("main/t/a.csv"), write(o, b, "main/t/a.csv", "new"))
		}},
		{"DuckDB COPY over it", func(o *work.Overlay, b *memBase) error {
			return errors.Join(write(o, b, "main/t/tmp_a.csv", "new"), o.Rename("main/t/tmp_a.csv", "main/t/a.csv", 0))
		}},
		{"LibreOffice", func(o *work.Overlay, b *memBase) error {
			return errors.Join(write(o, b, "main/t/.~lock.a.csv#", "me"), write(o, b, "main/t/a.csv", "new"), o.Unlink("main/t/.~lock.a.csv#"))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBase().add("main/t/a.csv=old", "main/t/b.csv=b")
			o := newOverlay(t, b)
			noErr(t, tt.do(o, b))
			wantStaged(t, o, "put main.t a.csv")
			text, err := read(o, b, "main/t/a.csv")
			if text != "new" || err != nil {
				t.Errorf("a.csv holds %q, %v", text, err)
			}
		})
	}
}

func TestSpark(t *testing.T) {
	b := newBase().add("main/t/a.csv=old")
	o := newOverlay(t, b)
	for _, d := range []string{"main/out", "main/out/_temporary", "main/out/_temporary/0", "main/out/_temporary/0/task_1"} {
		_, err := o.Mkdir(d, 0o755)
		noErr(t, err)
	}
	noErr(t, write(o, b, "main/out/_temporary/0/task_1/part-0.parquet", "p"), write(o, b, "main/out/_temporary/0/task_1/.part-0.parquet.crc", "c"))
	wantStaged(t, o)
	noErr(t, o.Rename("main/out/_temporary/0/task_1/part-0.parquet", "main/out/part-0.parquet", 0),
		o.Rename("main/out/_temporary/0/task_1", "main/out/_temporary/0/task_2", 0),
		o.Unlink("main/out/_temporary/0/task_2/.part-0.parquet.crc"), o.Rmdir("main/out/_temporary/0/task_2"),
		o.Rmdir("main/out/_temporary/0"), o.Rmdir("main/out/_temporary"), write(o, b, "main/out/_SUCCESS", ""))
	wantStaged(t, o, "put main.out part-0.parquet")
	// partitioned output: reported with its folder, for the commit to refuse by name
	_, err := o.Mkdir("main/out/year=2024", 0o755)
	noErr(t, err, write(o, b, "main/out/year=2024/x.parquet", "x"))
	wantStaged(t, o, "put main.out part-0.parquet", "put main.out year=2024/x.parquet")
}

func TestNamespaceChanges(t *testing.T) {
	files := []string{"main/t/a.csv=a", "main/t/b.csv=b", "main/u/x.csv=x", "main/empty", "geo/g/c.csv=c"}
	tests := []struct {
		name string
		do   func(o *work.Overlay, b *memBase) error
		want []string
	}{
		{"nothing", func(o *work.Overlay, b *memBase) error { return nil }, []string{}},
		{"opened and not written counts as put", func(o *work.Overlay, b *memBase) error {
			h, err := o.OpenWrite("main/t/a.csv", os.O_RDWR, b.open)
			return errors.Join(err, h.Close())
		}, []string{"put main.t a.csv"}},
		{"loose files feed their stem's table", func(o *work.Overlay, b *memBase) error {
			return errors.Join(write(o, b, "towns.v2.csv", "1"), write(o, b, "geo/roads.parquet", "2"))
		}, []string{"put geo.roads roads.parquet", "put main.towns.v2 towns.v2.csv"}},
		{"remove and rename", func(o *work.Overlay, b *memBase) error {
			return errors.Join(o.Unlink("main/t/a.csv"), o.Rename("main/t/b.csv", "main/t/c.csv", 0), o.Rename("main/t/c.csv", "main/t/d.csv", 0))
		}, []string{"remove main.t a.csv", "rename main.t d.csv from b.csv"}},
		{"rename there and back", func(o *work.Overlay, b *memBase) error {
			return errors.Join(o.Rename("main/t/b.csv", "main/t/c.csv", 0), o.Rename("main/t/c.csv", "main/t/b.csv", 0))
		}, []string{}},
		{"rename over another base file", func(o *work.Overlay, b *memBase) error { return o.Rename("main/t/b.csv", "main/t/a.csv", 0) },
			[]string{"remove main.t a.csv", "rename main.t a.csv from b.csv"}},
		{"rename over a renamed one", func(o *work.Overlay, b *memBase) error {
			return errors.Join(o.Rename("main/t/b.csv", "main/t/c.csv", 0), o.Rename("main/t/a.csv", "main/t/c.csv", 0))
		}, []string{"remove main.t b.csv", "rename main.t c.csv from a.csv"}},
		{"swap", func(o *work.Overlay, b *memBase) error {
			return errors.Join(o.Rename("main/t/a.csv", "main/t/x", 0), o.Rename("main/t/b.csv", "main/t/a.csv", 0), o.Rename("main/t/x", "main/t/b.csv", 0))
		}, []string{"rename main.t a.csv from b.csv", "rename main.t b.csv from a.csv"}},
		{"renamed, then removed", func(o *work.Overlay, b *memBase) error {
			return errors.Join(o.Rename("main/t/b.csv", "main/t/c.csv", 0), o.Unlink("main/t/c.csv"))
		}, []string{"remove main.t b.csv"}},
		{"renamed to a name that is never data", func(o *work.Overlay, b *memBase) error { return o.Rename("main/t/b.csv", "main/t/b.csv~", 0) },
			[]string{"remove main.t b.csv"}},
		{"a re-drop in another form", func(o *work.Overlay, b *memBase) error {
			return errors.Join(o.Unlink("main/t/a.csv"), write(o, b, "main/t/a.json", "{}"))
		}, []string{"put main.t a.json"}},
		{"drop table", func(o *work.Overlay, b *memBase) error {
			return errors.Join(o.Unlink("main/u/x.csv"), o.Rmdir("main/u"))
		},
			[]string{"drop main.u"}},
		{"drop a table without files", func(o *work.Overlay, b *memBase) error { return o.Rmdir("main/empty") }, []string{"drop main.empty"}},
		{"drop and make anew", func(o *work.Overlay, b *memBase) error {
			_, err := o.Lookup("main/u")
			err = errors.Join(err, o.Unlink("main/u/x.csv"), o.Rmdir("main/u"))
			_, err2 := o.Mkdir("main/u", 0o755)
			return errors.Join(err, err2, write(o, b, "main/u/y.csv", "y"))
		}, []string{"drop main.u", "put main.u y.csv"}},
		{"empty new folder is no table", func(o *work.Overlay, b *memBase) error { _, err := o.Mkdir("main/new", 0o755); return err }, []string{}},
		{"rename table", func(o *work.Overlay, b *memBase) error {
			return errors.Join(o.Unlink("main/t/a.csv"), write(o, b, "main/t/n.csv", "n"), o.Rename("main/t", "main/v", 0), o.Rename("main/v/b.csv", "main/v/c.csv", 0))
		}, []string{"rename table main.v from t", "remove main.v a.csv", "rename main.v c.csv from b.csv", "put main.v n.csv"}},
		{"rename table there and back", func(o *work.Overlay, b *memBase) error {
			return errors.Join(o.Rename("main/t", "main/v", 0), o.Rename("main/v", "main/t", 0))
		}, []string{}},
		{"swap tables", func(o *work.Overlay, b *memBase) error {
			return errors.Join(o.Rename("main/t", "main/v", 0), o.Rename("main/u", "main/t", 0), o.Rename("main/v", "main/u", 0))
		}, []string{"rename table main.t from u", "rename table main.u from t"}},
		{"rename table over an empty one", func(o *work.Overlay, b *memBase) error { return o.Rename("main/t", "main/empty", 0) },
			[]string{"drop main.empty", "rename table main.empty from t"}},
		{"drop a renamed table", func(o *work.Overlay, b *memBase) error {
			return errors.Join(o.Rename("main/u", "main/v", 0), o.Unlink("main/v/x.csv"), o.Rmdir("main/v"))
		}, []string{"drop main.u"}},
		{"new table moved between schemas", func(o *work.Overlay, b *memBase) error {
			_, err := o.Mkdir("main/new", 0o755)
			return errors.Join(err, write(o, b, "main/new/n.csv", "n"), o.Rename("main/new", "geo/new", 0))
		}, []string{"put geo.new n.csv"}},
		{"new schema renamed", func(o *work.Overlay, b *memBase) error {
			_, err := o.Mkdir("s", 0o755)
			_, err2 := o.Mkdir("s/t", 0o755)
			return errors.Join(err, err2, write(o, b, "s/t/n.csv", "n"), o.Rename("s", "z", 0))
		}, []string{"put z.t n.csv"}},
		{"hidden folders are no data", func(o *work.Overlay, b *memBase) error {
			_, err := o.Mkdir(".git", 0o755)
			_, err2 := o.Mkdir("main/.cache", 0o755)
			return errors.Join(err, err2, write(o, b, ".git/config", ""), write(o, b, "main/.cache/x.csv", ""))
		}, []string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBase().add(files...)
			dir := t.TempDir()
			f, err := work.Open(dir, nil)
			noErr(t, err)
			o := work.NewOverlay(f.Current(), b)
			noErr(t, tt.do(o, b))
			shown := tree(t, o, b)
			wantStaged(t, o, tt.want...)
			noErr(t, f.Close())
			o = work.NewOverlay(openFolder(t, dir, nil).Current(), b)
			wantStaged(t, o, tt.want...)
			if d := cmp.Diff(shown, tree(t, o, b)); d != "" {
				t.Errorf("tree after reopen:\n%s", d)
			}
		})
	}
}

// Marks speak of one base file; another that comes to have its name is shown.
func TestMarksDoNotOutliveTheirFile(t *testing.T) {
	b := newBase().add("main/t/a.csv=a", "main/t/b.csv=b", "main/u/x.csv=x", "main/v/y.csv=y")
	o := newOverlay(t, b)
	noErr(t, o.Unlink("main/t/a.csv"), o.Rename("main/t/b.csv", "main/t/c.csv", 0),
		o.Unlink("main/u/x.csv"), o.Rmdir("main/u"), o.Rename("main/v", "main/w", 0))
	next := newBase()
	next.next = 100
	next.add("main/t/a.csv=newer a", "main/t/b.csv=newer b")
	noErr(t, o.SetBase(next))
	wantStaged(t, o)
	want := map[string]string{"main/": "", "main/t/": "", "main/t/a.csv": "newer a", "main/t/b.csv": "newer b"}
	if d := cmp.Diff(want, tree(t, o, next)); d != "" {
		t.Errorf("tree:\n%s", d)
	}
	noErr(t, o.SetBase(next.add("main/u/x.csv=x by SQL", "main/v/y.csv=y by SQL"))) // tables that SQL makes later
	wantStaged(t, o)
	if got, err := read(o, next, "main/u/x.csv"); got != "x by SQL" || err != nil {
		t.Errorf("main/u/x.csv: %q, %v", got, err)
	}
}

func TestStagedRefusesNames(t *testing.T) {
	tests := []struct{ name, path, path2, want string }{
		{"file", "main/towns/A.csv", "", "differs only in case"},
		{"table", "main/Towns.csv", "", "differs only in case"},
		{"two new tables", "roads.csv", "Roads.json", "differs only in case"},
		{"schema", "Main/x.csv", "", "differs only in case"},
		{"two staged of one stem", "main/towns/n.csv", "main/towns/n.json", "have one name"},
		{"loose and in its table", "main/towns/towns.csv", "towns.json", "have one name"},
		{"not UTF-8", "main/towns/\xff.csv", "", "UTF-8"},
		{"control character", "main/towns/a\nb.csv", "", "control character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBase().add("main/towns/a.csv=a")
			o := newOverlay(t, b)
			_, _ = o.Mkdir("Main", 0o755)
			noErr(t, write(o, b, tt.path, ""))
			n := 1
			if tt.path2 != "" {
				noErr(t, write(o, b, tt.path2, ""))
				n = 2
			}
			cs, err := o.Staged()
			if len(cs) != n {
				t.Errorf("%d changes, want %d beside the error", len(cs), n)
			}
			if !errors.Is(err, work.ErrName) || outcome.Of(err) != outcome.Refused || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("junk may clash, and what is removed does not", func(t *testing.T) {
		b := newBase().add("main/towns/a.csv=a")
		o := newOverlay(t, b)
		noErr(t, write(o, b, "main/towns/.x", ""), write(o, b, "main/towns/.X", ""), o.Unlink("main/towns/a.csv"), write(o, b, "main/towns/A.csv", ""))
		wantStaged(t, o, "remove main.towns a.csv", "put main.towns A.csv")
	})
}

func TestWriters(t *testing.T) {
	b := newBase()
	o := newOverlay(t, b)
	h, _, err := o.Create("a.csv", os.O_WRONLY, 0o644, nil)
	noErr(t, err)
	junk, _, err := o.Create(".a.swp", os.O_WRONLY, 0o644, nil)
	noErr(t, err)
	r, _, err := o.Create("r.csv", os.O_RDONLY, 0o644, nil)
	noErr(t, err)
	want := func(paths ...string) {
		t.Helper()
		if d := cmp.Diff(paths, o.OpenWriters()); d != "" {
			t.Errorf("writers:\n%s", d)
		}
	}
	want("a.csv")
	cs, err := o.Staged()
	noErr(t, err)
	if _, err := o.Take(cs); !errors.Is(err, work.ErrOpenForWrite) || outcome.Of(err) != outcome.Busy || !strings.Contains(err.Error(), "tables/a.csv") {
		t.Errorf("take: %v", err)
	}
	noErr(t, o.Rename("a.csv", "b.csv", 0))
	want("b.csv")
	noErr(t, write(o, b, "a.csv", ""), h.Close(), h.Close())
	want()
	o.OpenedForWrite("b.csv")
	noErr(t, o.Rename("b.csv", "c.csv", 0))
	want("c.csv")
	o.ClosedForWrite("b.csv") // by the name it was opened under
	o.ClosedForWrite("b.csv")
	want()
	o.OpenedForWrite("c.csv")
	noErr(t, o.Unlink("c.csv"))
	want()
	noErr(t, junk.Close(), r.Close())
}

func TestTakenFiles(t *testing.T) {
	b := newBase().add("main/t/a.csv=a", "main/v/y.csv=y", "main/t/c.csv=c")
	o := newOverlay(t, b)
	noErr(t, write(o, b, "main/t/n.csv", "bytes"), o.Rename("main/v", "main/w", 0), o.Rename("main/t/c.csv", "main/t/d.csv", 0))
	cs, err := o.Staged()
	noErr(t, err)
	taken, err := o.Take(cs)
	noErr(t, err)
	e, err := o.Lookup("main/t/n.csv")
	noErr(t, err)
	if e.Kind != work.KindTaken || e.Size != 5 {
		t.Errorf("taken entry: %+v", e)
	}
	if text, err := read(o, b, "main/t/n.csv"); text != "bytes" || err != nil {
		t.Errorf("read taken: %q %v", text, err)
	}
	for name, err := range map[string]error{
		"write":              write(o, b, "main/t/n.csv", "x"),
		"truncate":           o.Truncate("main/t/n.csv", 0, b.open),
		"unlink":             o.Unlink("main/t/n.csv"),
		"rename":             o.Rename("main/t/n.csv", "main/t/m.csv", 0),
		"rename over":        o.Rename("main/t/a.csv", "main/t/n.csv", 0),
		"rename its table":   o.Rename("main/t", "main/tt", 0),
		"unlink renamed":     o.Unlink("main/t/d.csv"),
		"write renamed":      write(o, b, "main/t/d.csv", "x"),
		"rename renamed":     o.Rename("main/t/d.csv", "main/t/e.csv", 0),
		"rename table again": o.Rename("main/w", "main/v", 0),
	} {
		if err != syscall.EBUSY {
			t.Errorf("%s: %v, want EBUSY", name, err)
		}
	}
	if err := o.Rmdir("main/t"); err != syscall.ENOTEMPTY {
		t.Errorf("rmdir: %v", err)
	}
	if _, err := o.Take(nil); !errors.Is(err, work.ErrTaken) {
		t.Errorf("second take: %v", err)
	}
	// the rest of tables/ goes on
	noErr(t, write(o, b, "main/t/later.csv", "later"), o.Unlink("main/t/a.csv"))
	noErr(t, taken.PutBack(), taken.PutBack())
	wantStaged(t, o, "rename table main.w from v", "remove main.t a.csv", "rename main.t d.csv from c.csv", "put main.t later.csv", "put main.t n.csv")
	if _, err := o.Take(cs); err != nil {
		t.Errorf("take again: %v", err)
	}
}

func TestTakeRefusesWhatChanged(t *testing.T) {
	b := newBase().add("main/t/a.csv=a")
	o := newOverlay(t, b)
	noErr(t, write(o, b, "main/t/n.csv", "n"), o.Unlink("main/t/a.csv"))
	cs, err := o.Staged()
	noErr(t, err, o.Unlink("main/t/n.csv"))
	if _, err := o.Take(cs); !errors.Is(err, work.ErrChanged) || outcome.Of(err) != outcome.Busy {
		t.Errorf("got %v", err)
	}
	wantStaged(t, o, "remove main.t a.csv")
}

func TestInodes(t *testing.T) {
	b := newBase().add("main/t/a.csv=a", "main/t/b.csv=b")
	o := newOverlay(t, b)
	ino := func(p string) uint64 {
		t.Helper()
		e, err := o.Lookup(p)
		noErr(t, err)
		return e.Ino
	}
	a, tab := ino("main/t/a.csv"), ino("main/t")
	noErr(t, write(o, b, "main/t/n.csv", "1"))
	n := ino("main/t/n.csv")
	noErr(t, write(o, b, "main/t/n.csv", "22"), o.Rename("main/t/n.csv", "main/t/m.csv", 0), o.Rename("main/t/a.csv", "main/t/c.csv", 0), o.Rename("main/t", "main/u", 0))
	_, err := o.Mkdir("main/t", 0o755)
	noErr(t, err)
	if ino("main/u/m.csv") != n || ino("main/u/c.csv") != a || ino("main/u") != tab {
		t.Error("a rename changed the inode")
	}
	if ino("main/t") == tab {
		t.Error("two folders have one inode")
	}
	noErr(t, o.Unlink("main/u/m.csv"), write(o, b, "main/u/m.csv", "3"))
	if ino("main/u/m.csv") == n {
		t.Error("a new file has the inode of a deleted one")
	}
}

// TestInodesTellWhatIsShown: a file that another version shows with other
// rows or columns is another inode, or a mount goes on showing the old bytes.
func TestInodesTellWhatIsShown(t *testing.T) {
	b := newBase().add("main/t/a.csv=a")
	ino := func(logical bool, content string) uint64 {
		t.Helper()
		f := b.tree["main"]["t"]["a.csv"]
		f.Logical, f.Content = logical, content
		b.tree["main"]["t"]["a.csv"] = f
		e, err := newOverlay(t, b).Lookup("main/t/a.csv")
		noErr(t, err)
		return e.Ino
	}
	stored, one, two := ino(true, ""), ino(false, "version 1"), ino(false, "version 2")
	if stored == one || one == two || stored == two {
		t.Errorf("files that show other bytes share an inode: stored %d, rewritten %d and %d", stored, one, two)
	}
	if ino(true, "") != stored || ino(false, "version 1") != one {
		t.Error("what shows the same bytes has another inode")
	}
}

func TestRetiredOverlay(t *testing.T) {
	f := openFolder(t, t.TempDir(), nil)
	b := newBase()
	o := work.NewOverlay(f.Current(), b)
	noErr(t, write(o, b, "a.csv", "a"))
	nb, err := f.Begin()
	noErr(t, err)
	_, err = f.Publish(nb, "pull")
	noErr(t, err)
	if err := write(o, b, "b.csv", "b"); err != syscall.ESTALE {
		t.Errorf("got %v, want ESTALE", err)
	}
}
