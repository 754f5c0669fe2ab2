package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// published is a version whose files lie in the repository.
type published struct {
	store    blobstore.Store
	verified *sync.Map // key of a version's file -> struct{}: its checksum was right once
}

var _ versionFiles = published{}

func (p published) openFile(ctx context.Context, id repo.ID, name, sum string) (File, error) {
	f, err := p.open(ctx, repo.VersionKey(id, name), sum)
	if errors.Is(err, blobstore.ErrNotExist) {
		return nil, outcome.New(outcome.Damaged, "version "+id.Short()+" has lost its "+name, "restore it from a copy of the repository; tarn verify lists what is damaged")
	}
	return f, err
}

func (p published) openData(ctx context.Context, path string) (File, error) {
	f, err := p.open(ctx, path, "")
	if errors.Is(err, blobstore.ErrNotExist) {
		return nil, outcome.Wrap(outcome.Damaged, "data file "+path+" is missing from the repository", err, "run: tarn verify")
	}
	return f, err
}

// open opens an object; a sum is compared once in the life of the engine.
func (p published) open(ctx context.Context, key, sum string) (File, error) {
	f, err := p.openObject(ctx, key)
	if err != nil || sum == "" {
		return f, err
	}
	if _, ok := p.verified.Load(key); ok {
		return f, nil
	}
	if err := compareSum(f, key, sum); err != nil {
		f.Close()
		return nil, err
	}
	p.verified.Store(key, struct{}{})
	return f, nil
}

func (p published) openObject(ctx context.Context, key string) (File, error) {
	if local, ok := blobstore.As[blobstore.LocalFiles](p.store); ok {
		f, err := local.OpenFile(key)
		if err != nil {
			return nil, err
		}
		return newLocalFile(f)
	}
	r, _, err := p.store.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return bytesFile{b}, nil
}

// compareSum reads the whole file.
func compareSum(f File, name, want string) error {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, f.Size())); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return outcome.New(outcome.Damaged, fmt.Sprintf("%s is damaged: its sha256 is %.12s..., version.json says %.12s...", name, got, want),
			"restore the file from a copy of the repository; tarn verify lists what is damaged")
	}
	return nil
}

// localPath is the object's own file. It was opened once beneath the root, so
// that a link out of the repository is never handed to the worker.
func (p published) localPath(ctx context.Context, path string) (string, error) {
	local, ok := blobstore.As[blobstore.LocalFiles](p.store)
	if !ok {
		return "", outcome.New(outcome.NotFound, "no local file for "+path+" in "+p.store.URL(), "use a repository in a folder")
	}
	f, err := p.openData(ctx, path)
	if err != nil {
		return "", err
	}
	f.Close()
	return filepath.Join(local.Dir(), filepath.FromSlash(path)), nil
}

func (p published) localCatalog(ctx context.Context, id repo.ID, sum string) (string, error) {
	f, err := p.openFile(ctx, id, repo.CatalogFile, sum)
	if err != nil {
		return "", err
	}
	f.Close()
	return p.localPath(ctx, repo.VersionKey(id, repo.CatalogFile))
}

// committed is a version that waits in the outbox: its folder and its new data
// files are local, the rest is published.
type committed struct {
	dir  string // outbox/<ID>
	data string // local data folder, below which paths under data_dir lie
	pre  string // data_dir
	rest versionFiles
}

var _ versionFiles = committed{}

func (c committed) openFile(_ context.Context, _ repo.ID, name, sum string) (File, error) {
	f, err := openLocal(filepath.Join(c.dir, filepath.FromSlash(name)))
	if err != nil || sum == "" {
		return f, err
	}
	if err := compareSum(f, name, sum); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (c committed) local(path string) string {
	return filepath.Join(c.data, filepath.FromSlash(path[len(c.pre):]))
}

func (c committed) openData(ctx context.Context, path string) (File, error) {
	f, err := openLocal(c.local(path))
	if errors.Is(err, fs.ErrNotExist) {
		return c.rest.openData(ctx, path)
	}
	return f, err
}

func (c committed) localPath(ctx context.Context, path string) (string, error) {
	if _, err := os.Lstat(c.local(path)); err == nil {
		return c.local(path), nil
	}
	return c.rest.localPath(ctx, path)
}

func (c committed) localCatalog(context.Context, repo.ID, string) (string, error) {
	return filepath.Join(c.dir, repo.CatalogFile), nil
}
