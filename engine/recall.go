package engine

import (
	"bytes"
	"context"
	"io"
	"os"

	"github.com/tarnfs/tarn/engine/repo"
)

// A version of another tool may have neither files.json nor dataset.json. What
// its catalog says in their place is kept in the cache, in their form, so that
// the catalog is read once, not at each mount.

func (t *versionTree) recallName(file string) string {
	return "index/" + string(t.meta.ID) + "/" + file
}

// recall fills ix from what was kept, with the dataset where that was not told;
// false: nothing, or nothing usable.
func (t *versionTree) recall(ctx context.Context, ix *versionIndex, untold bool) bool {
	b, ok := t.recallBytes(repo.FilesFile)
	if !ok {
		return false
	}
	files, err := repo.DecodeFiles(bytes.NewReader(b), t.e.repo.DataDir())
	if err != nil {
		t.e.log.WarnContext(ctx, "index of a version in the cache", keyVersion, string(t.meta.ID), keyErr, err)
		return false
	}
	dataset := ix.dataset
	if untold {
		if b, ok = t.recallBytes(repo.DatasetFile); !ok {
			return false
		}
		if dataset, err = repo.DecodeDataset(b); err != nil {
			return false
		}
	}
	ix.files, ix.dataset = files, dataset
	return true
}

func (t *versionTree) recallBytes(file string) ([]byte, bool) {
	l := t.e.cache.Find(t.e.space, t.recallName(file))
	if l == nil {
		return nil, false
	}
	defer l.Close()
	b := make([]byte, l.Size())
	_, err := io.ReadFull(l.File(), b)
	return b, err == nil
}

// remember keeps what the catalog said. Whether that works is a matter of time
// saved.
func (t *versionTree) remember(ctx context.Context, ix *versionIndex, untold bool) {
	keep := func(file string, b []byte, err error) {
		if err == nil {
			var l interface{ Close() error }
			l, err = t.e.cache.Make(ctx, t.e.space, t.recallName(file), int64(len(b)), func(_ context.Context, path string) error {
				return os.WriteFile(path, b, 0o600)
			})
			if err == nil {
				err = l.Close()
			}
		}
		if err != nil {
			t.e.log.DebugContext(ctx, "keep the index of a version", keyVersion, string(t.meta.ID), keyErr, err)
		}
	}
	var files bytes.Buffer
	err := ix.files.Encode(&files)
	keep(repo.FilesFile, files.Bytes(), err)
	if untold {
		b, err := ix.dataset.Encode()
		keep(repo.DatasetFile, b, err)
	}
}
