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

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// stored is what is known of a stored file without asking the store.
type stored struct {
	path string // below the root
	size int64  // bytes; negative: not known
	sum  string // sha256, hex; "": not known
}

// storedFile is what files.json says of a file.
func storedFile(f *repo.File) stored { return stored{f.Path, f.Bytes, f.SHA256} }

// published is a version whose files lie in the repository: files of a folder,
// opened in place, or objects elsewhere, read through the cache (remote.go).
type published struct{ e *Engine }

var _ versionFiles = published{}

// folder is the repository's own folder, where it is one.
func (p published) folder() (blobstore.LocalFiles, bool) {
	return blobstore.As[blobstore.LocalFiles](p.e.store)
}

func (p published) openFile(ctx context.Context, id repo.ID, name, sum string) (File, error) {
	f, err := p.openVersionFile(ctx, repo.VersionKey(id, name), sum)
	if errors.Is(err, blobstore.ErrNotExist) {
		return nil, lostFile(id, name)
	}
	return f, err
}

func lostFile(id repo.ID, name string) error {
	return outcome.New(outcome.Damaged, "version "+id.Short()+" has lost its "+name, "restore it from a copy of the repository; tarn verify lists what is damaged")
}

func (p published) openData(ctx context.Context, path string) (File, error) {
	return p.openKnown(ctx, stored{path, -1, ""})
}

func (p published) openKnown(ctx context.Context, s stored) (File, error) {
	var f File
	var err error
	if local, ok := p.folder(); ok {
		f, err = openIn(local, s.path)
	} else {
		f, err = p.openRemote(ctx, s)
	}
	if errors.Is(err, blobstore.ErrNotExist) {
		return nil, missingData(s.path, err)
	}
	return f, err
}

func missingData(path string, err error) error {
	return outcome.Wrap(outcome.Damaged, "data file "+path+" is missing from the repository", err, "run: tarn verify")
}

func openIn(local blobstore.LocalFiles, key string) (File, error) {
	f, err := local.OpenFile(key)
	if err != nil {
		return nil, err
	}
	return newLocalFile(f)
}

// openVersionFile opens a file of a version's folder; a sum is compared once in
// the life of the engine.
func (p published) openVersionFile(ctx context.Context, key, sum string) (f File, err error) {
	if local, ok := p.folder(); ok {
		f, err = openIn(local, key)
	} else {
		f, err = p.openRemoteFile(ctx, key, sum)
	}
	if err != nil || sum == "" {
		return f, err
	}
	if _, ok := p.e.verified.Load(key); ok {
		return f, nil
	}
	if err := compareSum(f, key, sum); err != nil {
		f.Close()
		return nil, err
	}
	p.e.verified.Store(key, struct{}{})
	return f, nil
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

// localPath is a local file with the content of a stored file. In a folder it is
// the object's own file, opened once beneath the root, so that a link out of
// the repository is never handed to the worker. Else it is brought to the
// cache, where it stays as long as ctx's hold: see holding.
func (p published) localPath(ctx context.Context, s stored) (string, error) {
	local, ok := p.folder()
	if !ok {
		return p.bring(ctx, s)
	}
	f, err := p.openKnown(ctx, s)
	if err != nil {
		return "", err
	}
	f.Close()
	return filepath.Join(local.Dir(), filepath.FromSlash(s.path)), nil
}

func (p published) localCatalog(ctx context.Context, id repo.ID, sum string) (string, error) {
	key := repo.VersionKey(id, repo.CatalogFile)
	local, ok := p.folder()
	if !ok {
		path, err := p.bringObject(ctx, p.object(stored{key, -1, sum}))
		if errors.Is(err, blobstore.ErrNotExist) {
			return "", lostFile(id, repo.CatalogFile)
		}
		return path, p.failed(key, err)
	}
	f, err := p.openFile(ctx, id, repo.CatalogFile, sum)
	if err != nil {
		return "", err
	}
	f.Close()
	return filepath.Join(local.Dir(), filepath.FromSlash(key)), nil
}

// size of a file of a version's folder, without opening it where it is elsewhere.
func (p published) sizeOf(ctx context.Context, id repo.ID, name, sum string) (int64, error) {
	key := repo.VersionKey(id, name)
	if _, ok := p.folder(); ok {
		f, err := p.openFile(ctx, id, name, "")
		if err != nil {
			return 0, err
		}
		defer f.Close()
		return f.Size(), nil
	}
	if n, ok := p.e.cache.ObjectSize(p.object(stored{key, -1, sum})); ok && sum != "" {
		return n, nil
	}
	o, err := p.known(ctx, stored{key, -1, sum})
	return o.Size, err
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
	return c.openKnown(ctx, stored{path, -1, ""})
}

func (c committed) openKnown(ctx context.Context, s stored) (File, error) {
	f, err := openLocal(c.local(s.path))
	if errors.Is(err, fs.ErrNotExist) {
		return c.rest.openKnown(ctx, s)
	}
	return f, err
}

func (c committed) localPath(ctx context.Context, s stored) (string, error) {
	if _, err := os.Lstat(c.local(s.path)); err == nil {
		return c.local(s.path), nil
	}
	return c.rest.localPath(ctx, s)
}

func (c committed) sizeOf(ctx context.Context, id repo.ID, name, _ string) (int64, error) {
	f, err := c.openFile(ctx, id, name, "")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Size(), nil
}

func (c committed) localCatalog(context.Context, repo.ID, string) (string, error) {
	return filepath.Join(c.dir, repo.CatalogFile), nil
}
