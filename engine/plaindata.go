package engine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/tarnfs/tarn/engine/repo"
)

// The data folder of a plain checkout of a repository over HTTP. The writing
// contract: "A repository over HTTP is the exception: new data files go to a
// folder on the writer's machine and the push uploads them". DuckDB has one
// DATA_PATH for what it writes and for what it reads, so the folder has copies
// of the base's stored files beside the new ones; a push leaves them there.

// overHTTP says whether new data files of a store must stay local: no client
// writes to a web server.
func overHTTP(url string) bool {
	return strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://")
}

// fetchAtOnce is how many stored files are copied at a time.
const fetchAtOnce = 8

// fetchData copies the stored files of the base that the local data folder
// lacks. One that was stopped goes on where it was: a file has its name when it
// is whole.
func (p *plainCheckout) fetchData(ctx context.Context, w *Work) error {
	if !p.local {
		return nil
	}
	if err := os.MkdirAll(w.DataLocal(), 0o755); err != nil {
		return err
	}
	ix, err := w.baseTree().loaded(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchAtOnce)
	for f := range ix.files.All() {
		if ctx.Err() != nil {
			break
		}
		st, err := os.Lstat(w.localData(f.Path))
		if err == nil && st.Size() == f.Bytes {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error { return w.fetchOne(ctx, f) })
	}
	return g.Wait()
}

// fetchOne copies one stored file to the local data folder. It is not synced:
// what a power cut takes away or cuts short is copied again.
func (w *Work) fetchOne(ctx context.Context, f *repo.File) (err error) {
	in, err := w.e.published().openKnown(ctx, storedFile(f))
	if err != nil {
		return err
	}
	defer in.Close()
	at := w.localData(f.Path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(at), ".tarn-fetch-*")
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, tmp.Close()); err != nil {
			os.Remove(tmp.Name())
		}
	}()
	if _, err := io.Copy(tmp, io.NewSectionReader(in, 0, in.Size())); err != nil {
		return err
	}
	if f.SHA256 != "" {
		copied := &localFile{tmp, in.Size()}
		if err := compareSum(copied, f.Path, f.SHA256); err != nil {
			return err
		}
	}
	if err := tmp.Chmod(0o444); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), at)
}

// show points the checkout's links at the current generation, and brings what
// its data folder lacks.
func (p *plainCheckout) show(ctx context.Context, w *Work) error {
	if err := p.link(w); err != nil {
		return err
	}
	return p.fetchData(ctx, w)
}

// linked are the checkout's links to folders of the current generation.
func (p *plainCheckout) linked(w *Work) map[string]string {
	links := map[string]string{"catalog": w.CatalogDir(), "meta": w.MetaDir()}
	if p.local {
		links["data"] = w.DataLocal()
	}
	return links
}
