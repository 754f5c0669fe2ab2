package work_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/work"
)

func TestOpenMakesLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	f := openFolder(t, dir, nil)
	format, err := os.ReadFile(filepath.Join(dir, "FORMAT"))
	noErr(t, err)
	current, err := os.ReadFile(filepath.Join(dir, "CURRENT"))
	noErr(t, err)
	if string(format) != "1\n" || string(current) != "1\n" || f.Current().Number() != 1 {
		t.Errorf("FORMAT %q, CURRENT %q, generation %d", format, current, f.Current().Number())
	}
	for _, d := range []string{"catalog", "data", "meta", "staging", "pending", "outbox"} {
		if fi, err := os.Stat(filepath.Join(f.Current().Dir(), d)); err != nil || !fi.IsDir() {
			t.Errorf("%s: %v", d, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	put := func(name, text string) func(testing.TB, string) {
		return func(t testing.TB, dir string) { noErr(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	}
	tests := []struct {
		name   string
		damage func(testing.TB, string)
		is     error
		out    outcome.Outcome
		says   string
	}{
		{"newer format", put("FORMAT", "2\n"), work.ErrFormat, outcome.Refused, "format 2"},
		{"no number", put("FORMAT", "rocks\n"), work.ErrFormat, outcome.Damaged, "rocks"},
		{"FORMAT lost", func(t testing.TB, dir string) { noErr(t, os.Remove(filepath.Join(dir, "FORMAT"))) }, work.ErrDamaged, outcome.Damaged, "FORMAT"},
		{"CURRENT lost", func(t testing.TB, dir string) { noErr(t, os.Remove(filepath.Join(dir, "CURRENT"))) }, work.ErrDamaged, outcome.Damaged, "CURRENT is missing"},
		{"CURRENT empty", put("CURRENT", ""), work.ErrDamaged, outcome.Damaged, "CURRENT"},
		{"CURRENT elsewhere", put("CURRENT", "7\n"), work.ErrDamaged, outcome.Damaged, "generation 7"},
		{"generation lost", func(t testing.TB, dir string) { noErr(t, os.RemoveAll(filepath.Join(dir, "gen", "1"))) }, work.ErrDamaged, outcome.Damaged, "generation 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			f, err := work.Open(dir, nil)
			noErr(t, err, f.Close())
			tt.damage(t, dir)
			_, err = work.Open(dir, nil)
			if !errors.Is(err, tt.is) || outcome.Of(err) != tt.out || !strings.Contains(err.Error(), tt.says) || outcome.Next(err) == "" {
				t.Errorf("got %v (%v)", err, outcome.Of(err))
			}
		})
	}
}

// TestHoldFolder is the other process of TestInUse.
func TestHoldFolder(t *testing.T) {
	dir := os.Getenv("TARN_TEST_HOLD")
	if dir == "" {
		t.Skip("helper of TestInUse")
	}
	f, err := work.Open(dir, &work.Options{Command: "tarn mount"})
	noErr(t, err)
	noErr(t, os.WriteFile(filepath.Join(dir, "held"), nil, 0o600))
	_, _ = os.Stdin.Read(make([]byte, 1)) // until killed, or the parent is gone
	noErr(t, f.Close())
}

func TestInUse(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestHoldFolder$")
	cmd.Env = append(os.Environ(), "TARN_TEST_HOLD="+dir)
	_, err := cmd.StdinPipe() // held open: the other process ends with this one
	noErr(t, err, cmd.Start())
	for i := 0; ; i++ {
		if _, err := os.Stat(filepath.Join(dir, "held")); err == nil {
			break
		}
		if i > 1000 {
			t.Fatal("the other process does not open the folder")
		}
		time.Sleep(10 * time.Millisecond)
	}
	_, err = work.Open(dir, nil)
	if !errors.Is(err, work.ErrInUse) || outcome.Of(err) != outcome.Busy || !strings.Contains(err.Error(), "tarn mount (pid ") {
		t.Errorf("got %v", err)
	}
	noErr(t, cmd.Process.Kill()) // the lock goes with the process
	_ = cmd.Wait()
	openFolder(t, dir, nil)
	if _, err := work.Open(dir, nil); !errors.Is(err, work.ErrInUse) { // the same process, too
		t.Errorf("second opener: %v", err)
	}
}

func TestTrash(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 10, 12, 14, 3, 5, 0, time.UTC)
	o := &work.Options{Clock: func() time.Time { return now }}
	f, err := work.Open(dir, o)
	noErr(t, err)
	b := newBase()
	ov := work.NewOverlay(f.Current(), b)
	if _, err := f.Undo(nil); !errors.Is(err, work.ErrNothingToUndo) {
		t.Errorf("undo of nothing: %v", err)
	}
	if _, ok, err := f.MoveStagingToTrash("reset"); ok || err != nil {
		t.Errorf("reset of nothing: %v %v", ok, err)
	}
	noErr(t, write(ov, b, "one.csv", "1"))
	_, ok, err := f.MoveStagingToTrash("Reset now!")
	noErr(t, err)
	wantStaged(t, ov) // the same overlay shows it at once
	now = now.Add(-48 * time.Hour)
	noErr(t, write(ov, b, "two.csv", "2"))
	e, ok2, err := f.MoveStagingToTrash("reset")
	noErr(t, err)
	if !ok || !ok2 || e.Seq != 2 {
		t.Errorf("entries: %v %v %+v", ok, ok2, e)
	}
	refusal := errors.New("not that one")
	if _, err := f.Undo(func(e work.TrashEntry) error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("refused undo: %v", err)
	}
	// the newest, although the clock was set back; what is staged meanwhile is kept
	noErr(t, write(ov, b, "three.csv", "3"))
	_, err = f.Undo(nil)
	noErr(t, err)
	wantStaged(t, ov, "put main.two two.csv")
	_, err = f.Undo(nil) // undoes the undo
	noErr(t, err)
	wantStaged(t, ov, "put main.three three.csv")
	list, err := f.Trash()
	noErr(t, err)
	var names []string
	for _, e := range list {
		names = append(names, e.Why)
	}
	if d := cmp.Diff([]string{"reset-now-", "undo"}, names); d != "" {
		t.Errorf("trash:\n%s", d)
	}
	noErr(t, f.Close())
	now = now.Add(48*time.Hour + 7*24*time.Hour) // the first entry is exactly 7 days old, the other 9
	f = openFolder(t, dir, o)
	if list, err = f.Trash(); err != nil || len(list) != 1 || list[0].Why != "reset-now-" {
		t.Errorf("after 7 days: %v %v", list, err)
	}
}

func TestUndoStagingOfAnotherGeneration(t *testing.T) {
	f := openFolder(t, t.TempDir(), nil)
	b := newBase()
	noErr(t, write(work.NewOverlay(f.Current(), b), b, "one.csv", "1"))
	_, _, err := f.MoveStagingToTrash("reset")
	noErr(t, err)
	nb, err := f.Begin()
	noErr(t, err)
	_, err = f.Publish(nb, "pull")
	noErr(t, err)
	if _, err := f.Undo(nil); err != nil { // the generation
		t.Fatal(err)
	}
	if f.Current().Number() != 1 {
		t.Errorf("generation %d", f.Current().Number())
	}
	nb, err = f.Begin()
	noErr(t, err)
	if nb.Number() != 3 { // 1 is current, 2 in the trash
		t.Errorf("numbers are used again: %d", nb.Number())
	}
	noErr(t, f.Discard(nb))
}

func TestNoSwitchWhileTaken(t *testing.T) {
	f := openFolder(t, t.TempDir(), nil)
	b := newBase()
	o := work.NewOverlay(f.Current(), b)
	noErr(t, write(o, b, "one.csv", "1"))
	cs, err := o.Staged()
	noErr(t, err)
	taken, err := o.Take(cs)
	noErr(t, err)
	nb, err := f.Begin()
	noErr(t, err)
	if _, err := f.Publish(nb, "pull"); !errors.Is(err, work.ErrTaken) {
		t.Errorf("publish: %v", err)
	}
	if _, _, err := f.MoveStagingToTrash("reset"); !errors.Is(err, work.ErrTaken) {
		t.Errorf("reset: %v", err)
	}
	noErr(t, taken.PutBack())
	_, err = f.Publish(nb, "pull")
	noErr(t, err)
}

func TestRecoverKeepsBoth(t *testing.T) {
	dir := t.TempDir()
	b := newBase()
	f, err := work.Open(dir, nil)
	noErr(t, err, write(work.NewOverlay(f.Current(), b), b, "one.csv", "older"), f.Close())
	dieAt(t, dir, 3, func(f *work.Folder) { // manifest, one move, then dead before the sync
		o := work.NewOverlay(f.Current(), b)
		cs, err := o.Staged()
		noErr(t, err)
		_, err = o.Take(cs)
		noErr(t, err)
	})
	f = openFolder(t, dir, nil)
	o := work.NewOverlay(f.Current(), b)
	if _, err := o.Take(nil); !errors.Is(err, work.ErrTaken) {
		t.Errorf("take before recovery: %v", err)
	}
	noErr(t, write(o, b, "one.csv", "newer"))
	r, err := f.Current().RecoverPending(func(string) bool { return false })
	noErr(t, err)
	if text, err := read(o, b, "one.csv"); text != "newer" || err != nil {
		t.Errorf("one.csv: %q %v", text, err)
	}
	if d := cmp.Diff([]string{"one.csv"}, r.Trashed); d != "" {
		t.Errorf("recovery:\n%s", d)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "trash", "*_file_*", "file.one.csv"))
	noErr(t, err)
	if len(kept) != 1 {
		t.Fatalf("kept: %v", kept)
	}
	if text, err := os.ReadFile(kept[0]); string(text) != "older" || err != nil {
		t.Errorf("kept: %q %v", text, err)
	}
	wantEmpty(t, filepath.Join(f.Current().Dir(), "pending"))
	if _, err := f.Undo(nil); !errors.Is(err, work.ErrNothingToUndo) {
		t.Errorf("undo took the kept file: %v", err)
	}
}
