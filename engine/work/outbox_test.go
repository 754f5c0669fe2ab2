package work_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/work"
)

const (
	id1 = "019a7c1e-4f3b-7000-8000-000000000001"
	id2 = "019a7c1e-4f3b-7000-8000-000000000002"
	id3 = "019a7c1e-4f3b-7000-8000-000000000003"
)

func putVersion(t testing.TB, b *work.Outbox, id string) {
	t.Helper()
	v, err := b.NewVersionDir(id)
	noErr(t, err, os.WriteFile(filepath.Join(v.Path(), "version.json"), []byte(id), 0o600), os.Mkdir(filepath.Join(v.Path(), "catalogs"), 0o700))
	final, err := v.Publish()
	noErr(t, err)
	if text, err := os.ReadFile(filepath.Join(final, "version.json")); string(text) != id || err != nil {
		t.Errorf("version.json: %q %v", text, err)
	}
}

func TestOutbox(t *testing.T) {
	dir := t.TempDir()
	f, err := work.Open(dir, nil)
	noErr(t, err)
	b := f.Current().Outbox()
	wantIDs := func(ids ...string) {
		t.Helper()
		got, err := b.Versions()
		noErr(t, err)
		if d := cmp.Diff(ids, append([]string(nil), got...)); d != "" {
			t.Errorf("outbox:\n%s", d)
		}
	}
	putVersion(t, b, id2)
	putVersion(t, b, id1)
	putVersion(t, b, id3)
	if _, err := b.NewVersionDir("../x"); err == nil {
		t.Error("an id outside of the outbox was accepted")
	}
	again, err := b.NewVersionDir(id1)
	noErr(t, err)
	if _, err := again.Publish(); !errors.Is(err, work.ErrExists) {
		t.Errorf("publish twice: %v", err)
	}
	half, err := b.NewVersionDir("019a7c1e-4f3b-7000-8000-000000000004")
	noErr(t, err, os.WriteFile(filepath.Join(half.Path(), "x"), nil, 0o600))
	wantIDs(id1, id2, id3) // what is not published does not show
	noErr(t, b.Remove(id2), b.Remove(id2))
	wantIDs(id1, id3)
	noErr(t, f.Close())
	f = openFolder(t, dir, nil)
	b = f.Current().Outbox()
	if _, err := os.Stat(half.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a version is left after open: %v", err)
	}
	noErr(t, b.Keep([]string{id3, id2}))
	wantIDs(id3)
}

func TestOutboxDiesAnywhere(t *testing.T) {
	everyStep(t, 2, func(testing.TB, string) {}, func(f *work.Folder) {
		putVersion(t, f.Current().Outbox(), id1)
		noErr(t, f.Current().Outbox().Remove(id1))
	}, func(t testing.TB, dir string) {
		b := openFolder(t, dir, nil).Current().Outbox()
		ids, err := b.Versions()
		noErr(t, err)
		for _, id := range ids {
			if text, err := os.ReadFile(filepath.Join(b.Path(id), "version.json")); string(text) != id || err != nil {
				t.Errorf("half a version shows: %q %v", text, err)
			}
		}
		noErr(t, b.Keep(nil))
		ents, err := os.ReadDir(filepath.Dir(b.Path(id1)))
		noErr(t, err)
		if len(ents) > 0 {
			t.Errorf("left: %v", ents)
		}
	})
}

func TestData(t *testing.T) {
	g := openFolder(t, t.TempDir(), nil).Current()
	src := filepath.Join(t.TempDir(), "src")
	for _, how := range []work.Adopt{work.AdoptCopy, work.AdoptLink, work.AdoptMove} {
		noErr(t, os.WriteFile(src, []byte("bytes"), 0o644))
		path := "main/t/f" + string(rune('0'+how)) + ".parquet"
		noErr(t, g.AdoptData(how, work.Adoption{Src: src, Path: path}), g.SyncData(path))
		real := filepath.Join(g.DataDir(), path)
		fi, err := os.Stat(real)
		noErr(t, err)
		if fi.Mode().Perm() != 0o444 || fi.Size() != 5 {
			t.Errorf("%v: %v", how, fi)
		}
		srcInfo, err := os.Stat(src)
		if gone := errors.Is(err, os.ErrNotExist); gone != (how == work.AdoptMove) {
			t.Errorf("%v: source: %v", how, err)
		}
		if err == nil && os.SameFile(fi, srcInfo) != (how == work.AdoptLink) {
			t.Errorf("%v: one file: %v", how, os.SameFile(fi, srcInfo))
		}
		noErr(t, os.RemoveAll(src), os.WriteFile(src, []byte("other"), 0o644))
		if err := g.AdoptData(how, work.Adoption{Src: src, Path: path}); !errors.Is(err, work.ErrExists) {
			t.Errorf("%v over a file: %v", how, err)
		}
		if text, err := os.ReadFile(real); string(text) != "bytes" || err != nil {
			t.Errorf("%v: %q %v", how, text, err)
		}
		noErr(t, os.RemoveAll(src))
	}
	for _, bad := range []string{"", ".", "../x", "/x", "a/../../x", "a//b"} {
		if err := g.AdoptData(work.AdoptCopy, work.Adoption{Src: src, Path: bad}); !errors.Is(err, work.ErrName) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	list, err := g.ListData()
	noErr(t, err)
	var paths []string
	for _, f := range list {
		paths = append(paths, f.Path)
	}
	if d := cmp.Diff([]string{"main/t/f0.parquet", "main/t/f1.parquet", "main/t/f2.parquet"}, paths); d != "" {
		t.Errorf("data:\n%s", d)
	}
	for _, p := range append(paths, "main/t/none") {
		noErr(t, g.RemoveData(p))
	}
	wantEmpty(t, g.DataDir())
}
