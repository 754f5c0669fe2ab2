package engine_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/enginetest"
	"github.com/tarnfs/tarn/engine/lake"
)

// keepState writes the state folder of this release, which every later one has
// to open. Run once when a release is made, never for one that is out:
//
//	go test ./engine -run TestStateOfEachRelease -keep-state 0.2.0
var keepState = flag.String("keep-state", "", "write testdata/states/`RELEASE`.tar.gz")

// placed is a store that says that it is somewhere else: the name of a state
// folder depends on where its repository is.
type placed struct{ blobstore.Store }

func (placed) URL() string { return "s3://example/towns.lake" }

// openState opens the repository dir/towns.lake with the state folder dir/state.
func openState(t *testing.T, dir string) (*engine.Engine, *engine.Work) {
	t.Helper()
	local, err := blobstore.OpenLocal(filepath.Join(dir, "towns.lake"))
	if err != nil {
		t.Fatal(err)
	}
	worker := lake.NewClient(nil)
	t.Cleanup(func() { _ = worker.Close() })
	e, err := engine.Open(t.Context(), engine.Options{
		URL: placed{}.URL(), Store: placed{enginetest.Hidden(local)}, StateHome: filepath.Join(dir, "state"), CacheHome: filepath.Join(dir, "cache"),
		Author: "Ann <ann@example.org>", Worker: worker,
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := e.OpenWork(t.Context(), "main")
	if err != nil {
		t.Fatal(errors.Join(err, e.Close()))
	}
	return e, w
}

// makeState leaves one version pushed, one committed, and a file staged.
func makeState(t *testing.T, dir string) {
	t.Helper()
	if _, err := engine.Init(t.Context(), filepath.Join(dir, "towns.lake"), engine.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	e, w := openState(t, dir)
	defer e.Close()
	drop(t, w, "main/towns/a.csv", "id,name\n1,one\n2,two\n")
	commit(t, w)
	push(t, w)
	drop(t, w, "main/towns/b.csv", "id,name\n3,three\n")
	drop(t, w, "main/towns/a.csv", "id,name\n1,ONE\n2,two\n")
	commit(t, w)
	drop(t, w, "main/towns/c.csv", "id,name\n4,four\n")
}

// TestStateOfEachRelease: what a release has staged, committed and not pushed
// is there in this one, and push gives the recorded rows.
func TestStateOfEachRelease(t *testing.T) {
	const states = "testdata/states"
	if *keepState != "" {
		dir := t.TempDir()
		makeState(t, dir)
		if err := os.RemoveAll(filepath.Join(dir, "cache")); err != nil {
			t.Fatal(err)
		}
		if err := pack(dir, filepath.Join(states, *keepState+".tar.gz")); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := filepath.Glob(states + "/*.tar.gz")
	if err != nil || len(kept) == 0 {
		t.Fatalf("no state of a release: %v", err)
	}
	for _, archive := range kept {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) {
			dir := t.TempDir()
			if err := unpack(archive, dir); err != nil {
				t.Fatal(err)
			}
			e, w := openState(t, dir)
			got := status(t, w)
			contains(t, got, "1 version not pushed")
			contains(t, got, "1 row from c.csv")
			push(t, w)
			if got, want := townRows(t, w), "1,ONE\n2,two\n3,three\n"; got != want {
				t.Errorf("pushed:\n%s\nwant\n%s", got, want)
			}
			commit(t, w)
			push(t, w)
			if got, want := townRows(t, w), "1,ONE\n2,two\n3,three\n4,four\n"; got != want {
				t.Errorf("after the commit of what was staged:\n%s\nwant\n%s", got, want)
			}
			b := &bench{t: t, dir: dir}
			b.checkOpen(e, w)
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// townRows is the table as CSV, without the head.
func townRows(t *testing.T, w *engine.Work) string {
	t.Helper()
	out, err := queryText(t, w, lake.CSVRows, "FROM towns ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(out, "\n")
	return rows
}

func pack(dir, archive string) error {
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return err
	}
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression)
	w := tar.NewWriter(z)
	return errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), z.Close(), f.Close())
}

func unpack(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = unpackFile(r, path, h.FileInfo().Mode().Perm())
		}
		if err != nil {
			return err
		}
	}
}

func unpackFile(r io.Reader, path string, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
