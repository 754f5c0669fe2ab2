package forgetful_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/work"
	"github.com/tarnfs/tarn/integration/forgetful"
)

// The parts that write, alone on the disk: what each has answered for is there
// after a power cut. Fast; integration/powerloss_test.go has the whole program.

// onDisk lets do something in a folder of a forgetful disk, cuts the power, and
// looks at what each way of losing leaves.
func onDisk(t *testing.T, do func(dir string), look func(t *testing.T, dir string)) {
	t.Helper()
	needFUSE(t)
	dir := t.TempDir()
	d := forgetful.Start(t, dir)
	do(dir)
	for _, lose := range []forgetful.Lose{forgetful.LoseAll, forgetful.LoseBytes} {
		d.Lose(lose)
		t.Run("lose "+string(lose), func(t *testing.T) { look(t, dir) })
	}
}

func openWork(t testing.TB, dir string) *work.Folder {
	t.Helper()
	f, err := work.Open(dir, &work.Options{AnyDisk: true})
	noErr(t, err)
	t.Cleanup(func() { noErr(t, f.Close()) })
	return f
}

func holds(t testing.TB, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %q (%v), want %q", path, got, err, want)
	}
}

// emptyBase is a branch without a version.
type emptyBase struct{}

func (emptyBase) Schemas() []string                    { return nil }
func (emptyBase) Tables(string) []string               { return nil }
func (emptyBase) Files(string, string) []work.BaseFile { return nil }
func noOpen(work.BaseFile) (work.Source, error)        { return nil, fs.ErrNotExist }
func notEntered(string) bool                           { return false }
func overlayOf(f *work.Folder) *work.Overlay           { return work.NewOverlay(f.Current(), emptyBase{}) }
func stage(t testing.TB, o *work.Overlay, p, text string) {
	t.Helper()
	noErr(t, stageFile(o, p, text))
}
func stageFile(o *work.Overlay, p, text string) error {
	h, _, err := o.Create(p, os.O_WRONLY, 0o644, noOpen)
	if err != nil {
		return err
	}
	_, err = io.WriteString(h.File, text)
	return errors.Join(err, h.Close())
}

// Folders above the working folder that somebody else has made, as the
// daemon's log is there first, are durable with it.
func TestNewFolderSurvives(t *testing.T) {
	onDisk(t, func(dir string) {
		noErr(t, os.MkdirAll(filepath.Join(dir, "state/tarn"), 0o700))
		f := openWork(t, filepath.Join(dir, "state/tarn/repo/work/main"))
		if n := f.Current().Number(); n != 1 {
			t.Errorf("generation %d, want 1", n)
		}
	}, func(t *testing.T, dir string) {
		w := filepath.Join(dir, "state/tarn/repo/work/main")
		holds(t, filepath.Join(w, "FORMAT"), "1\n")
		holds(t, filepath.Join(w, "CURRENT"), "1\n")
		openWork(t, w)
	})
}

// A file that a commit has taken is somewhere, whole, whatever comes.
func TestTakenFileSurvives(t *testing.T) {
	onDisk(t, func(dir string) {
		o := overlayOf(openWork(t, filepath.Join(dir, "w")))
		stage(t, o, "a.csv", "not synced by anybody")
		changes, err := o.Staged()
		noErr(t, err)
		_, err = o.Take(changes)
		noErr(t, err)
	}, func(t *testing.T, dir string) {
		f := openWork(t, filepath.Join(dir, "w"))
		_, err := f.Current().RecoverPending(notEntered)
		noErr(t, err)
		r, _, err := overlayOf(f).OpenRead("a.csv")
		noErr(t, err)
		defer r.Close()
		if got, err := io.ReadAll(r); err != nil || string(got) != "not synced by anybody" {
			t.Errorf("a.csv is back with %q, %v", got, err)
		}
	})
}

// Data files: brought in by a commit, and those that a client wrote, with the
// folders that it made.
func TestDataFileSurvives(t *testing.T) {
	onDisk(t, func(dir string) {
		g := openWork(t, filepath.Join(dir, "w")).Current()
		src := filepath.Join(dir, "src")
		noErr(t, os.WriteFile(src, []byte("copied"), 0o600), g.AdoptData(work.AdoptCopy, work.Adoption{Src: src, Path: "main/t/copied.parquet"}))
		noErr(t, g.AdoptData(work.AdoptLink, work.Adoption{Src: src, Path: "main/t/linked.parquet"}))
		made := filepath.Join(g.DataDir(), "geo/s/k=1/made.parquet")
		noErr(t, os.MkdirAll(filepath.Dir(made), 0o755), os.WriteFile(made, []byte("made"), 0o600), g.SyncData("geo/s/k=1/made.parquet"))
	}, func(t *testing.T, dir string) {
		data := openWork(t, filepath.Join(dir, "w")).Current().DataDir()
		holds(t, filepath.Join(data, "main/t/copied.parquet"), "copied")
		holds(t, filepath.Join(data, "main/t/linked.parquet"), "copied")
		holds(t, filepath.Join(data, "geo/s/k=1/made.parquet"), "made")
	})
}

// A version in the outbox is whole.
func TestOutboxSurvives(t *testing.T) {
	const id = "019a7c1e-4f3b-7000-8000-000000000001"
	onDisk(t, func(dir string) {
		v, err := openWork(t, filepath.Join(dir, "w")).Current().Outbox().NewVersionDir(id)
		noErr(t, err)
		noErr(t, os.Mkdir(filepath.Join(v.Path(), "catalogs"), 0o700))
		for _, name := range []string{"version.json", "catalogs/c"} {
			noErr(t, os.WriteFile(filepath.Join(v.Path(), name), []byte(name), 0o444))
		}
		_, err = v.Publish()
		noErr(t, err)
	}, func(t *testing.T, dir string) {
		box := openWork(t, filepath.Join(dir, "w")).Current().Outbox()
		for _, name := range []string{"version.json", "catalogs/c"} {
			holds(t, filepath.Join(box.Path(id), name), name)
		}
	})
}

// The switch to another generation, with all that is in it.
func TestGenerationSurvives(t *testing.T) {
	onDisk(t, func(dir string) {
		f := openWork(t, filepath.Join(dir, "w"))
		b, err := f.Begin()
		noErr(t, err)
		noErr(t, os.MkdirAll(filepath.Join(b.MetaDir(), "checks"), 0o755), os.WriteFile(filepath.Join(b.MetaDir(), "checks/c.sql"), []byte("SELECT"), 0o600))
		_, err = f.Publish(b, "reset")
		noErr(t, err)
	}, func(t *testing.T, dir string) {
		f := openWork(t, filepath.Join(dir, "w"))
		if n := f.Current().Number(); n != 2 {
			t.Fatalf("generation %d, want 2", n)
		}
		holds(t, filepath.Join(f.Current().MetaDir(), "checks/c.sql"), "SELECT")
		if trash, err := f.Trash(); err != nil || len(trash) != 1 {
			t.Errorf("trash: %v, %v; want the generation before", trash, err)
		}
	})
}

// Objects of a repository in a folder, and its refs.
func TestStoreSurvives(t *testing.T) {
	onDisk(t, func(dir string) {
		l, err := blobstore.CreateLocal(filepath.Join(dir, "lakes/towns.lake"))
		noErr(t, err)
		defer l.Close()
		src := filepath.Join(dir, "src")
		noErr(t, os.WriteFile(src, []byte("from a file"), 0o600))
		_, err = l.PutIfAbsent(t.Context(), "data/main/t/f.parquet", blobstore.FileBody(src, 11, ""))
		noErr(t, err)
		_, err = l.PutIfAbsent(t.Context(), "versions/1/version.json", blobstore.BytesBody([]byte("{}")))
		noErr(t, err)
		v, err := l.PutIfMatch(t.Context(), "refs/heads/main", "", []byte("1"))
		noErr(t, err)
		_, err = l.PutIfMatch(t.Context(), "refs/heads/main", v, []byte("2"))
		noErr(t, err)
		_, err = l.PutIfMatch(t.Context(), "refs/heads/gone", "", []byte("1"))
		noErr(t, err, l.Delete(t.Context(), "refs/heads/gone"))
	}, func(t *testing.T, dir string) {
		root := filepath.Join(dir, "lakes/towns.lake")
		holds(t, filepath.Join(root, "data/main/t/f.parquet"), "from a file")
		holds(t, filepath.Join(root, "versions/1/version.json"), "{}")
		holds(t, filepath.Join(root, "refs/heads/main"), "2")
		if _, err := os.Lstat(filepath.Join(root, "refs/heads/gone")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a deleted ref is back: %v", err)
		}
	})
}
