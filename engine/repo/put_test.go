package repo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// spec/writing "Order of writes": data files; ducklake.duckdb (and any
// catalogs/); dataset.json and files.json; version.json; the ref, on condition.
func TestOrderOfWrites(t *testing.T) {
	rec := blobstore.NewRecorder(blobstore.NewMem())
	r := newRepo(t, rec)
	rec.Take()
	d := draft{n: 1, files: map[string]string{"data/main/towns/a.parquet": "aaaa"}, more: map[string]string{"catalogs/b.db": "b", "catalogs/a.db": "a"}}
	var log strings.Builder
	writes := func() {
		for _, c := range rec.Take() {
			if c.Op == blobstore.OpPutIfAbsent || c.Op == blobstore.OpPutIfMatch || c.Op == blobstore.OpDelete {
				fmt.Fprintf(&log, "%s %s\n", c.Op, strings.ReplaceAll(c.Key, string(d.id()), "<ID>"))
			}
		}
	}
	err := d.push(t.Context(), r, d.folder(t), repo.PutOptions{Step: func(name string) {
		writes()
		fmt.Fprintf(&log, "-- %s\n", name)
	}})
	if err != nil {
		t.Fatal(err)
	}
	set(t, r, main, d.id())
	writes()
	golden(t, "order.txt", []byte(log.String()))
}

// Whatever single call of a push fails, before it happened or after: nobody who
// reads refs sees anything but whole versions, and running again publishes.
func TestPushWithEveryCallFailing(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for n := 0; ; n++ {
			where := fmt.Sprintf("call %d, answer lost %v", n, lost)
			store := blobstore.NewFaulty(blobstore.NewMem())
			r := newRepo(t, store.Inner())
			parent := put(t, r, draft{n: 1})
			have := set(t, r, main, parent)
			d := draft{n: 2, parents: []repo.ID{parent}, files: map[string]string{"data/main/towns/b.parquet": "bbbb"}}
			dir := d.folder(t)
			push := func(r *repo.Repository, have blobstore.Version) error {
				if err := d.push(t.Context(), r, dir, repo.PutOptions{}); err != nil {
					return err
				}
				_, err := r.SetRef(t.Context(), main, have, d.id())
				return err
			}
			faulty, err := repo.OpenUnchecked(t.Context(), store)
			if err != nil {
				t.Fatal(err)
			}
			store.Inject(blobstore.Fault{N: n, After: lost, Err: blobstore.ErrTemporary})
			err = push(faulty, have)
			fired := store.Fired()
			if err != nil && !errors.Is(err, blobstore.ErrTemporary) {
				t.Errorf("%s: %v", where, err)
			}
			consistent(t, store.Inner())
			_, state, refErr := r.Ref(t.Context(), main)
			if refErr != nil {
				t.Fatal(refErr)
			}
			if err := push(r, state); err != nil {
				t.Errorf("%s: running again: %v", where, err)
			}
			if id, _, _ := r.Ref(t.Context(), main); id != d.id() {
				t.Errorf("%s: main holds %s", where, id)
			}
			consistent(t, store.Inner())
			if !fired {
				if err != nil || n < 7 {
					t.Fatalf("%s: %v", where, err)
				}
				break
			}
		}
	}
}

// A crash at each step: what is there is no version yet, or a whole one.
func TestStopAtEachStep(t *testing.T) {
	for _, stop := range []string{repo.StepCatalog, repo.StepJSON, repo.StepVersion, repo.StepDone} {
		stores(t, func(t *testing.T, store blobstore.Store) {
			r := newRepo(t, store)
			d := draft{n: 1, more: map[string]string{"catalogs/x": "x"}}
			dir := d.folder(t)
			reached := false
			func() {
				defer func() { reached = recover() == stop }()
				_ = d.push(t.Context(), r, dir, repo.PutOptions{Step: func(name string) {
					if name == stop {
						panic(name)
					}
				}})
			}()
			if !reached {
				t.Fatalf("%s was never reached", stop)
			}
			fresh, err := repo.Open(t.Context(), store)
			if err != nil {
				t.Fatal(err)
			}
			_, err = fresh.ReadVersion(t.Context(), d.id())
			if there := err == nil; there != (stop == repo.StepDone) {
				t.Errorf("stopped at %s: version.json there: %v", stop, err)
			}
			consistent(t, store)
			put(t, fresh, d)
			set(t, fresh, main, d.id())
		})
	}
}

func TestWriteOnce(t *testing.T) {
	stores(t, func(t *testing.T, store blobstore.Store) {
		r := newRepo(t, store)
		d := draft{n: 1, files: map[string]string{"data/main/towns/a.parquet": "aaaa"}}
		dir := d.folder(t)
		for range 2 { // same content goes on
			if err := d.push(t.Context(), r, dir, repo.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{repo.CatalogFile, repo.DatasetFile, repo.FilesFile, repo.VersionFile} {
			d := draft{n: 2, parents: []repo.ID{fixedID(1)}}
			key := repo.VersionKey(d.id(), name)
			overwrite(t, store, key, "something else")
			err := d.push(t.Context(), r, d.folder(t), repo.PutOptions{})
			wantError(t, err, repo.ErrDiffers, outcome.Conflict, key+" is in "+store.URL()+" already, with other content")
			if got := read(t, store, key); got != "something else" {
				t.Errorf("%s was changed to %q", name, got)
			}
			for _, name := range []string{repo.CatalogFile, repo.DatasetFile, repo.FilesFile, repo.VersionFile} {
				if err := store.Delete(t.Context(), repo.VersionKey(d.id(), name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		err := r.PutData(t.Context(), "data/main/towns/a.parquet", blobstore.BytesBody([]byte("AAAA")))
		wantError(t, err, repo.ErrDiffers, outcome.Conflict, "data/main/towns/a.parquet")
		if got := read(t, store, "data/main/towns/a.parquet"); got != "aaaa" {
			t.Errorf("the file was changed to %q", got)
		}
	})
}

func TestPutDataOnlyBelowDataDir(t *testing.T) {
	store := blobstore.NewMem()
	r := newRepo(t, store)
	for _, path := range []string{"", "a.parquet", "data", "data/", "data/../fdl.json", "/data/a", "data//a", "data/./a", "refs/heads/main", "database/a", "data/a\x00b", "data/a/"} {
		err := r.PutData(t.Context(), path, blobstore.BytesBody([]byte("x")))
		if outcome.Of(err) != outcome.Refused {
			t.Errorf("%q: %v", path, err)
		}
	}
	for info := range store.List(t.Context(), "data") {
		t.Errorf("wrote %s", info.Key)
	}
}

func TestPutVersionRefusesABadFolder(t *testing.T) {
	write := func(name, content string) func(testing.TB, string) {
		return func(t testing.TB, dir string) {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(testing.TB, string) {
		return func(t testing.TB, dir string) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	link := func(t testing.TB, dir string) {
		if err := os.Symlink("/etc/passwd", filepath.Join(dir, "catalogs")); err != nil {
			t.Fatal(err)
		}
	}
	early := func(v *repo.Version) { v.CreatedAt = day.Add(2 * 60e9) }
	tests := []struct {
		name   string
		d      draft
		damage func(testing.TB, string)
		words  string
	}{
		{"catalog changed", draft{n: 3}, write(repo.CatalogFile, "x"), "ducklake.duckdb is damaged: its sha256 is"},
		{"dataset changed", draft{n: 3}, write(repo.DatasetFile, "{}"), "dataset.json is damaged"},
		{"files missing", draft{n: 3}, remove(repo.FilesFile), "it has no files.json"},
		{"catalog missing", draft{n: 3}, remove(repo.CatalogFile), "it has no ducklake.duckdb"},
		{"no version.json", draft{n: 3}, remove(repo.VersionFile), "it has no version.json"},
		{"unnamed file", draft{n: 3}, write("catalogs/x", "x"), "catalogs/x is damaged"},
		{"symbolic link", draft{n: 3}, link, "is not a regular file"},
		{"another ID", draft{n: 3}, write(repo.VersionFile, `{"id": "`+string(fixedID(4))+`"}`), "is not the ID of its folder"},
		{"parent not there", draft{n: 3, parents: []repo.ID{fixedID(7)}}, nil, "names its parent " + string(fixedID(7)) + ", which is not there"},
		{"not later than its parent", draft{n: 3, parents: []repo.ID{fixedID(2)}, edit: early}, nil, "created_at is not later"},
		{"wrong number", draft{n: 4, parents: []repo.ID{fixedID(2)}}, nil, "its number is 4, not 3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rec := blobstore.NewRecorder(blobstore.NewMem())
			r := newRepo(t, rec)
			chain(t, r, 2)
			rec.Take()
			dir := test.d.folder(t)
			if test.damage != nil {
				test.damage(t, dir)
			}
			err := test.d.push(t.Context(), r, dir, repo.PutOptions{})
			wantError(t, err, repo.ErrDamaged, outcome.Damaged, test.words)
			for _, c := range rec.Take() {
				if c.Op != blobstore.OpGet && c.Op != blobstore.OpHead {
					t.Errorf("it did %v", c)
				}
			}
		})
	}
}

func TestMissingData(t *testing.T) {
	stores(t, func(t *testing.T, store blobstore.Store) {
		r := newRepo(t, store)
		var list, old []repo.File
		var want []string
		for i := range 100 {
			f := repo.File{Path: fmt.Sprintf("data/main/t/%02d.parquet", i), Kind: repo.DataFile, ID: int64(i), Bytes: 4}
			list = append(list, f)
			switch {
			case i < 10:
				old = append(old, f) // known: not asked for, though it is not there
			case i%9 == 0:
				want = append(want, f.Path)
			default:
				if err := r.PutData(t.Context(), f.Path, blobstore.BytesBody([]byte("pppp"))); err != nil {
					t.Fatal(err)
				}
			}
		}
		files, err := repo.NewFiles("data/", list)
		if err != nil {
			t.Fatal(err)
		}
		known, err := repo.NewFiles("data/", old)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.MissingData(t.Context(), files, known)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		if got, err := r.MissingData(t.Context(), files, nil); err != nil || len(got) != len(want)+10 {
			t.Errorf("%d missing, %v", len(got), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := r.MissingData(ctx, files, known); err == nil {
			t.Errorf("cancelled, and yet an answer: %q", got)
		}
		overwrite(t, store, "data/main/t/11.parquet", "shrunk"[:3])
		_, err = r.MissingData(t.Context(), files, known)
		wantError(t, err, repo.ErrDamaged, outcome.Damaged, "data/main/t/11.parquet is damaged: it has 3 bytes, files.json says 4")
	})
}
