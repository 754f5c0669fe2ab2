package work_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/work"
)

// dieAt runs op on the folder dir and lets it die before its n-th step;
// false when op ended first. Close changes nothing on disk, so what is left
// is what a kill leaves.
func dieAt(t testing.TB, dir string, n int, op func(*work.Folder)) (step string, died bool) {
	t.Helper()
	left := -1
	f, err := work.Open(dir, &work.Options{Step: func(name string) {
		if left--; left == 0 {
			step = name
			panic(errCrash)
		}
	}})
	noErr(t, err)
	left = n
	defer func() {
		noErr(t, f.Close())
		if x := recover(); x != nil {
			if x != any(errCrash) {
				panic(x)
			}
			died = true
		}
	}()
	op(f)
	left = -1
	return "", false
}

// everyStep lets op die before each of its steps in turn, each time on a
// folder fresh from setup, and checks what is left.
func everyStep(t *testing.T, min int, setup func(testing.TB, string), op func(*work.Folder), check func(testing.TB, string)) {
	t.Helper()
	for n := 1; ; n++ {
		dir := filepath.Join(t.TempDir(), "w")
		setup(t, dir)
		step, died := dieAt(t, dir, n, op)
		t.Run(fmt.Sprintf("%d %s", n, step), func(t *testing.T) { check(t, dir) })
		if !died {
			if n <= min {
				t.Errorf("only %d steps, want at least %d", n-1, min)
			}
			return
		}
		if n > 100 {
			t.Fatal("no end of steps")
		}
	}
}

func takeBase() *memBase {
	return newBase().add("main/t/a.csv=old a", "main/t/b.csv=old b", "main/t/c.csv=old c", "main/u/x.csv=x", "main/v/y.csv=y")
}

var stagedTime = time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)

// stageAll stages one of each kind of change.
func stageAll(t testing.TB, o *work.Overlay, b *memBase) {
	t.Helper()
	_, err := o.Mkdir("geo", 0o755)
	noErr(t, err,
		write(o, b, "main/t/new.csv", "new"), write(o, b, "main/t/a.csv", "new a"), write(o, b, "loose.csv", "loose"), write(o, b, "geo/inner.csv", "inner"),
		o.Chmod("main/t/new.csv", 0o640), o.SetTimes("main/t/new.csv", time.Time{}, stagedTime),
		o.Unlink("main/t/b.csv"), o.Rename("main/t/c.csv", "main/t/d.csv", 0),
		o.Unlink("main/u/x.csv"), o.Rmdir("main/u"), o.Rename("main/v", "main/w", 0), write(o, b, "main/w/.junk", "junk"))
}

func TestTakeDiesAnywhere(t *testing.T) {
	base := takeBase()
	for _, end := range []string{"put back", "done"} {
		t.Run(end, func(t *testing.T) {
			var before map[string]string
			var list []string
			var next *memBase
			var entered map[string]bool
			setup := func(t testing.TB, dir string) {
				f, err := work.Open(dir, nil)
				noErr(t, err)
				o := work.NewOverlay(f.Current(), base)
				stageAll(t, o, base)
				before = tree(t, o, base)
				cs, err := o.Staged()
				list = shorts(cs)
				next, entered = nil, map[string]bool{}
				noErr(t, err, f.Close())
			}
			op := func(f *work.Folder) {
				o := work.NewOverlay(f.Current(), base)
				cs, err := o.Staged()
				noErr(t, err)
				taken, err := o.Take(cs)
				noErr(t, err)
				if end == "put back" {
					noErr(t, taken.PutBack())
					return
				}
				next = base.apply(t, taken.Changes)
				entered[taken.ID] = true
				noErr(t, taken.Done(next))
			}
			check := func(t testing.TB, dir string) {
				for k := 1; k <= 3; k++ { // recovery dies, too
					dieAt(t, dir, k, func(f *work.Folder) {
						_, err := f.Current().RecoverPending(func(id string) bool { return entered[id] })
						noErr(t, err)
					})
				}
				f := openFolder(t, dir, nil)
				_, err := f.Current().RecoverPending(func(id string) bool { return entered[id] })
				noErr(t, err)
				if next == nil {
					o := work.NewOverlay(f.Current(), base)
					if d := cmp.Diff(before, tree(t, o, base)); d != "" {
						t.Errorf("tree (-before +after):\n%s", d)
					}
					wantStaged(t, o, list...)
					e, err := o.Lookup("main/t/new.csv")
					if err != nil || !e.ModTime.Equal(stagedTime) || e.Perm != 0o640 {
						t.Errorf("new.csv came back with time %v, mode %o, %v", e.ModTime, e.Perm, err)
					}
				} else {
					o := work.NewOverlay(f.Current(), next)
					wantStaged(t, o)
					if d := cmp.Diff(moved(before), tree(t, o, next)); d != "" {
						t.Errorf("tree (-before +after commit):\n%s", d)
					}
				}
				wantEmpty(t, filepath.Join(f.Current().Dir(), "pending"))
				wantEmpty(t, filepath.Join(dir, "trash"))
			}
			everyStep(t, 10, setup, op, check)
		})
	}
}

// moved is where stageAll's loose files lie after a commit.
func moved(tree map[string]string) map[string]string {
	out := map[string]string{"main/loose/": "", "main/loose/loose.csv": "loose", "geo/inner/": "", "geo/inner/inner.csv": "inner"}
	for p, text := range tree {
		if p != "loose.csv" && p != "geo/inner.csv" {
			out[p] = text
		}
	}
	return out
}

func wantEmpty(t testing.TB, dir string) {
	t.Helper()
	es, err := os.ReadDir(dir)
	noErr(t, err)
	for _, e := range es {
		t.Errorf("left in %s: %s", dir, e.Name())
	}
}

// genSetup makes a folder whose generation 1 has a staged file and a note in meta/.
func genSetup(t testing.TB, dir string) {
	t.Helper()
	f, err := work.Open(dir, nil)
	noErr(t, err)
	b := newBase()
	o := work.NewOverlay(f.Current(), b)
	noErr(t, write(o, b, "one.csv", "one"), os.WriteFile(filepath.Join(f.Current().MetaDir(), "note"), []byte("1"), 0o600), f.Close())
}

// holds says what generation l is: "1" or "2" by its note, and its staged files.
func holds(t testing.TB, l string) string {
	t.Helper()
	note, err := os.ReadFile(filepath.Join(l, "meta", "note"))
	noErr(t, err)
	out := string(note)
	err = filepath.WalkDir(filepath.Join(l, "staging"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out += " " + d.Name()
		}
		return err
	})
	noErr(t, err)
	return out
}

// whole is each generation in the folder, current first, then trash.
func whole(t testing.TB, f *work.Folder) []string {
	t.Helper()
	out := []string{holds(t, f.Current().Dir())}
	es, err := os.ReadDir(filepath.Join(f.Dir(), "gen"))
	noErr(t, err)
	if len(es) != 1 {
		t.Errorf("gen/ holds %v", es)
	}
	for _, e := range es {
		if _, err := os.Stat(filepath.Join(f.Dir(), "gen", e.Name(), "BUILDING")); err == nil {
			t.Errorf("generation %s is still marked", e.Name())
		}
	}
	trash, err := f.Trash()
	noErr(t, err)
	for _, e := range trash {
		out = append(out, e.Why+": "+holds(t, filepath.Join(f.Dir(), "trash", e.Name)))
	}
	return out
}

func publishSecond(t testing.TB, f *work.Folder) {
	b, err := f.Begin()
	noErr(t, err, os.WriteFile(filepath.Join(b.MetaDir(), "note"), []byte("2"), 0o600))
	_, err = f.Publish(b, "reset")
	noErr(t, err)
}

func TestPublishDiesAnywhere(t *testing.T) {
	everyStep(t, 5, genSetup, func(f *work.Folder) { publishSecond(t, f) }, func(t testing.TB, dir string) {
		f := openFolder(t, dir, nil)
		got := strings.Join(whole(t, f), ", ")
		if got != "1 one.csv" && got != "2, reset: 1 one.csv" {
			t.Errorf("generations: %s", got)
		}
	})
}

func TestUndoDiesAnywhere(t *testing.T) {
	setup := func(t testing.TB, dir string) {
		genSetup(t, dir)
		f, err := work.Open(dir, nil)
		noErr(t, err)
		publishSecond(t, f)
		noErr(t, f.Close())
	}
	undo := func(f *work.Folder) {
		e, err := f.Undo(nil)
		noErr(t, err)
		if e.Why != "reset" || e.Gen != 1 || e.Kind != work.KindGeneration {
			t.Errorf("undone: %+v", e)
		}
	}
	everyStep(t, 5, setup, undo, func(t testing.TB, dir string) {
		f := openFolder(t, dir, nil)
		got := strings.Join(whole(t, f), ", ")
		if got != "1 one.csv, undo: 2" && got != "2, reset: 1 one.csv" {
			t.Errorf("generations: %s", got)
		}
	})
}

func TestLightResetDiesAnywhere(t *testing.T) {
	b := newBase().add("main/t/a.csv=a")
	stage := func(t testing.TB, dir string) {
		f, err := work.Open(dir, nil)
		noErr(t, err)
		o := work.NewOverlay(f.Current(), b)
		noErr(t, write(o, b, "one.csv", "one"), o.Unlink("main/t/a.csv"), f.Close())
	}
	full := "main/ main/t/ one.csv"
	empty := "main/ main/t/ main/t/a.csv"
	shows := func(t testing.TB, f *work.Folder) string {
		var names []string
		for p := range tree(t, work.NewOverlay(f.Current(), b), b) {
			names = append(names, p)
		}
		return strings.Join(slices.Sorted(slices.Values(names)), " ")
	}
	check := func(t testing.TB, dir string) {
		f := openFolder(t, dir, nil)
		switch got := shows(t, f); got {
		case full:
			if trash, err := f.Trash(); err != nil || len(trash) > 1 {
				t.Errorf("also in the trash: %v %v", trash, err)
			}
		case empty:
			_, err := f.Undo(nil)
			noErr(t, err)
			if got := shows(t, f); got != full {
				t.Errorf("after undo: %s", got)
			}
		default:
			t.Errorf("shows %s", got)
		}
	}
	t.Run("reset", func(t *testing.T) {
		everyStep(t, 2, stage, func(f *work.Folder) {
			_, ok, err := f.MoveStagingToTrash("reset")
			noErr(t, err)
			if !ok {
				t.Error("nothing was staged")
			}
		}, check)
	})
	t.Run("undo", func(t *testing.T) {
		setup := func(t testing.TB, dir string) {
			stage(t, dir)
			f, err := work.Open(dir, nil)
			noErr(t, err)
			_, _, err = f.MoveStagingToTrash("reset")
			noErr(t, err, f.Close())
		}
		everyStep(t, 2, setup, func(f *work.Folder) {
			_, err := f.Undo(nil)
			noErr(t, err)
		}, check)
	})
}

func TestFirstUseDiesAnywhere(t *testing.T) {
	for n := 1; n < 100; n++ {
		dir := filepath.Join(t.TempDir(), "w")
		died, left := false, n
		func() {
			defer func() { died = recover() != nil }()
			f, err := work.Open(dir, &work.Options{Step: func(string) {
				if left--; left == 0 {
					panic(errCrash)
				}
			}})
			noErr(t, err, f.Close())
		}()
		f := openFolder(t, dir, nil)
		if f.Current().Number() != 1 {
			t.Errorf("generation %d", f.Current().Number())
		}
		wantEmpty(t, filepath.Join(dir, "trash"))
		if !died {
			return
		}
	}
}

// Each operation of an overlay is, after a crash at any of its steps, done or
// not done; and whatever it left behind does not disturb what comes after.
func TestOverlayDiesAnywhere(t *testing.T) {
	b := newBase().add("main/t/a.csv=a", "main/t/b.csv=b", "main/u/x.csv=x")
	tests := []struct {
		name string
		min  int
		prep func(o *work.Overlay) error
		op   func(o *work.Overlay) error
		then func(o *work.Overlay) error // to be tried after a crash; may be nil
	}{
		{"unlink a shadowed file", 2,
			func(o *work.Overlay) error { return write(o, b, "main/t/a.csv", "new") },
			func(o *work.Overlay) error { return o.Unlink("main/t/a.csv") }, nil},
		{"unlink a renamed file", 2,
			func(o *work.Overlay) error { return o.Rename("main/t/a.csv", "main/t/c.csv", 0) },
			func(o *work.Overlay) error { return o.Unlink("main/t/c.csv") },
			func(o *work.Overlay) error { return o.Rename("main/t/c.csv", "main/t/a.csv", 0) }},
		{"rename home", 2,
			func(o *work.Overlay) error { return o.Rename("main/t/a.csv", "main/t/c.csv", 0) },
			func(o *work.Overlay) error { return o.Rename("main/t/c.csv", "main/t/a.csv", 0) }, nil},
		{"rename a staged file over a renamed one", 2,
			func(o *work.Overlay) error {
				return errors.Join(o.Rename("main/t/a.csv", "main/t/c.csv", 0), write(o, b, "main/t/b.csv", "new"))
			},
			func(o *work.Overlay) error { return o.Rename("main/t/b.csv", "main/t/c.csv", 0) }, nil},
		{"rename a base file over another", 2, nil,
			func(o *work.Overlay) error { return o.Rename("main/t/a.csv", "main/t/b.csv", 0) }, nil},
		{"drop a table with a staging folder", 1,
			func(o *work.Overlay) error {
				return errors.Join(write(o, b, "main/u/n.csv", "n"), o.Unlink("main/u/n.csv"), o.Unlink("main/u/x.csv"))
			},
			func(o *work.Overlay) error { return o.Rmdir("main/u") }, nil},
		{"rename a table that has changes", 2,
			func(o *work.Overlay) error {
				return errors.Join(o.Unlink("main/t/a.csv"), write(o, b, "main/t/n.csv", "n"))
			},
			func(o *work.Overlay) error { return o.Rename("main/t", "main/v", 0) }, nil},
		{"rename a table without any", 2, nil,
			func(o *work.Overlay) error { return o.Rename("main/t", "main/v", 0) }, nil},
		{"rename a table home", 2,
			func(o *work.Overlay) error { return o.Rename("main/t", "main/v", 0) },
			func(o *work.Overlay) error { return o.Rename("main/v", "main/t", 0) }, nil},
		{"truncate a renamed file", 2,
			func(o *work.Overlay) error { return o.Rename("main/t/a.csv", "main/t/c.csv", 0) },
			func(o *work.Overlay) error { return o.Truncate("main/t/c.csv", 1, b.open) }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := func(dir string, ops ...func(*work.Overlay) error) map[string]string {
				f, err := work.Open(dir, nil)
				noErr(t, err)
				o := work.NewOverlay(f.Current(), b)
				for _, op := range ops {
					if op != nil {
						noErr(t, op(o))
					}
				}
				shown := tree(t, o, b)
				noErr(t, f.Close())
				return shown
			}
			whole := t.TempDir()
			before := run(whole, tt.prep)
			after := run(whole, tt.op)
			setup := func(_ testing.TB, dir string) { run(dir, tt.prep) }
			op := func(f *work.Folder) { noErr(t, tt.op(work.NewOverlay(f.Current(), b))) }
			everyStep(t, tt.min, setup, op, func(t testing.TB, dir string) {
				got := run(dir)
				if maps.Equal(got, after) {
					return
				}
				if d := cmp.Diff(before, got); d != "" {
					t.Fatalf("neither before nor after; to before:\n%s", d)
				}
				if tt.then == nil {
					tt.then = tt.op
				}
				want := run(prepared(t, tt.prep, b), tt.then)
				if d := cmp.Diff(want, run(dir, tt.then)); d != "" {
					t.Errorf("the next operation (-want +got):\n%s", d)
				}
			})
		})
	}
}

// prepared is a fresh folder with prep done.
func prepared(t testing.TB, prep func(*work.Overlay) error, b *memBase) string {
	t.Helper()
	dir := t.TempDir()
	f, err := work.Open(dir, nil)
	noErr(t, err)
	if prep != nil {
		noErr(t, prep(work.NewOverlay(f.Current(), b)))
	}
	noErr(t, f.Close())
	return dir
}

// A table's folder with a staging folder of its own goes in one step.
func TestDropTableDiesAnywhere(t *testing.T) {
	b := newBase().add("main/u/x.csv=x", "main/v")
	ops := []func(*work.Overlay) error{
		func(o *work.Overlay) error { _, err := o.Mkdir("main/u/sub", 0o755); return err },
		func(o *work.Overlay) error { return o.Rmdir("main/u/sub") },
		func(o *work.Overlay) error { return o.Unlink("main/u/x.csv") },
		func(o *work.Overlay) error { return o.Rmdir("main/u") },
	}
	state := func(o *work.Overlay) map[string]string {
		m := tree(t, o, b)
		cs, err := o.Staged()
		noErr(t, err)
		m["staged"] = strings.Join(shorts(cs), ", ")
		return m
	}
	o := newOverlay(t, b)
	allowed := []map[string]string{state(o)}
	for _, op := range ops {
		noErr(t, op(o))
		allowed = append(allowed, state(o))
	}
	everyStep(t, 5, func(testing.TB, string) {}, func(f *work.Folder) {
		o := work.NewOverlay(f.Current(), b)
		for _, op := range ops {
			noErr(t, op(o))
		}
	}, func(t testing.TB, dir string) {
		got := state(work.NewOverlay(openFolder(t, dir, nil).Current(), b))
		if !slices.ContainsFunc(allowed, func(m map[string]string) bool { return maps.Equal(m, got) }) {
			t.Errorf("none of the states between operations: %v", got)
		}
	})
}
