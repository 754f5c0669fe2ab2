package repo_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

func openAll(t testing.TB, r *repo.Repository, id repo.ID, name string) (string, error) {
	t.Helper()
	rd, err := r.OpenVersionFile(t.Context(), id, name)
	if err != nil {
		return "", err
	}
	defer rd.Close()
	data, err := io.ReadAll(rd)
	return string(data), err
}

func TestVersionFiles(t *testing.T) {
	stores(t, func(t *testing.T, store blobstore.Store) {
		r := newRepo(t, store)
		big := strings.Repeat("0123456789abcdef", 1<<19) // 8 MiB: verified by reading it through first
		d := draft{n: 1, files: map[string]string{"data/main/towns/a.parquet": "aaaa"}, more: map[string]string{"catalogs/big": big}}
		id := put(t, r, d)
		set(t, r, main, id)
		for name, want := range map[string]string{repo.CatalogFile: "catalog of version 1", "catalogs/big": big} {
			for range 2 {
				if got, err := openAll(t, r, id, name); err != nil || got != want {
					t.Errorf("%s: %d bytes, %v", name, len(got), err)
				}
			}
			if err := r.VerifyVersionFile(t.Context(), id, name); err != nil {
				t.Error(err)
			}
			dst := filepath.Join(t.TempDir(), "dst")
			if err := r.FetchVersionFile(t.Context(), id, name, dst); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(dst); err != nil || string(got) != want {
				t.Errorf("fetched %s: %d bytes, %v", name, len(got), err)
			}
			if err := r.FetchVersionFile(t.Context(), id, name, dst); !errors.Is(err, os.ErrExist) {
				t.Errorf("fetched over a file: %v", err)
			}
		}
		if d, data, err := r.ReadDataset(t.Context(), id); err != nil || d.Name != "towns" || !bytes.Contains(data, []byte("towns")) {
			t.Errorf("%+v, %v", d, err)
		}
		if files, err := r.ReadFiles(t.Context(), id); err != nil || !files.Has("data/main/towns/a.parquet") {
			t.Errorf("%v, %v", files, err)
		}
		_, err := openAll(t, r, id, "catalogs/none")
		wantError(t, err, repo.ErrNoFile, outcome.NotFound, "has no catalogs/none")
		for _, name := range []string{"../../fdl.json", "", "/x", "version.json"} {
			if _, err := openAll(t, r, id, name); err == nil {
				t.Errorf("%q was opened", name)
			}
		}
		_, err = openAll(t, r, fixedID(9), repo.CatalogFile)
		wantError(t, err, repo.ErrNoVersion, outcome.NotFound, "has no version")
	})
}

// "readers check it before use": every way to read a file of a version refuses
// one flipped bit, one byte less, one more, and nothing at all.
func TestChecksumsBeforeUse(t *testing.T) {
	damages := map[string]func(string) string{
		"flipped":   func(s string) string { return s[:len(s)/2] + string(s[len(s)/2]^1) + s[len(s)/2+1:] },
		"truncated": func(s string) string { return s[:len(s)-1] },
		"longer":    func(s string) string { return s + "\n" },
		"empty":     func(string) string { return "" },
		"gone":      nil,
	}
	for damage, change := range damages {
		t.Run(damage, func(t *testing.T) {
			store := blobstore.NewMem()
			r, err := repo.Init(t.Context(), store, repo.InitOptions{})
			if err != nil {
				t.Fatal(err)
			}
			big := strings.Repeat("0123456789abcdef", 1<<19)
			id := put(t, r, draft{n: 1, more: map[string]string{"catalogs/big": big}})
			for _, name := range []string{repo.CatalogFile, "catalogs/big", repo.DatasetFile, repo.FilesFile} {
				key := repo.VersionKey(id, name)
				if change == nil {
					if err := store.Delete(t.Context(), key); err != nil {
						t.Fatal(err)
					}
				} else {
					overwrite(t, store, key, change(read(t, store, key)))
				}
				_, err := openAll(t, r, id, name)
				wantError(t, err, repo.ErrDamaged, outcome.Damaged, key+" is damaged")
				err = r.VerifyVersionFile(t.Context(), id, name)
				wantError(t, err, repo.ErrDamaged, outcome.Damaged, key+" is damaged")
				dst := filepath.Join(t.TempDir(), "dst")
				err = r.FetchVersionFile(t.Context(), id, name, dst)
				wantError(t, err, repo.ErrDamaged, outcome.Damaged, key+" is damaged")
				if left, err := os.ReadDir(filepath.Dir(dst)); err != nil || len(left) != 0 {
					t.Errorf("%s: left behind: %v, %v", name, left, err)
				}
			}
			_, _, err = r.ReadDataset(t.Context(), id)
			wantError(t, err, repo.ErrDamaged, outcome.Damaged, "dataset.json is damaged")
			_, err = r.ReadFiles(t.Context(), id)
			wantError(t, err, repo.ErrDamaged, outcome.Damaged, "files.json is damaged")
		})
	}
}

func TestReadVersionIsCachedAndChecked(t *testing.T) {
	rec := blobstore.NewRecorder(blobstore.NewMem())
	r := newRepo(t, rec)
	ids := chain(t, r, 2)
	fresh, err := repo.OpenUnchecked(t.Context(), rec)
	if err != nil {
		t.Fatal(err)
	}
	rec.Take()
	for range 3 {
		if v, err := fresh.ReadVersion(t.Context(), ids[1]); err != nil || v.Parents[0] != ids[0] {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	if calls := rec.Take(); len(calls) != 1 {
		t.Errorf("%d calls for one immutable version", len(calls))
	}
	for _, id := range []repo.ID{"", "x", "../" + ids[0], repo.ID(strings.ToUpper(string(ids[0])))} {
		if _, err := fresh.ReadVersion(t.Context(), id); !errors.Is(err, repo.ErrBadID) {
			t.Errorf("%q: %v", id, err)
		}
	}
	bad, store := bareRepo(t)
	overwrite(t, store, repo.VersionKey(ids[0], repo.VersionFile), `{"id": "`+string(ids[1])+`"}`)
	_, err = bad.ReadVersion(t.Context(), ids[0])
	wantError(t, err, repo.ErrDamaged, outcome.Damaged, "is not the ID of its folder")
	overwrite(t, store, repo.VersionKey(ids[1], repo.VersionFile), strings.Repeat(" ", 16<<20)+"{}")
	_, err = bad.ReadVersion(t.Context(), ids[1])
	wantError(t, err, repo.ErrDamaged, outcome.Damaged, "larger than 16777216 bytes")
}
