package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/parquet"
	"github.com/tarnfs/tarn/engine/repo"
)

const (
	hashWidth = 4  // files that are hashed at once: enough for a disk, and leaves a small machine to its user
	syncWidth = 32 // objects that are synced at once: they share the writes of the journal
)

// files turns the catalog's files into those of files.json. What the base
// knew of a stored file, its sha256, is carried over; new files are synced,
// because DuckDB never does it, and hashed.
func (c *committing) files(ctx context.Context, content *lake.Content, old *versionIndex) (*repo.Files, error) {
	dataDir := c.w.e.repo.DataDir()
	list := filesOf(content, dataDir)
	stored := make(map[string]string, len(c.stored)) // path -> sha256 of what this commit has put in place
	for i := range c.stored {
		stored[dataDir+c.stored[i].step.StoredPath] = c.stored[i].sum
	}
	var fresh []string
	type look struct {
		i     int // in list
		hash  bool
		table bool // whether its columns are the table's is asked
	}
	var looks []look
	for i := range list {
		f, doubt := &list[i], content.Files[i].Doubt
		was, known := old.files.Get(f.Path)
		other := c.known[f.Path] // as another version describes it
		switch sum, ours := stored[f.Path]; {
		case !known && other != nil && other.SHA256 != "":
			f.SHA256, f.Logical, doubt = other.SHA256, f.Logical && other.Logical, false // settled there
			f.Extra = other.Extra
		case known:
			f.SHA256, f.Extra = was.SHA256, was.Extra // what only other tools know is of the stored file
			// Settled when it was new, unless it is about to become logical.
			doubt = doubt && !(f.Logical && was.Logical)
		case ours:
			f.SHA256 = sum
		default:
			fresh = append(fresh, f.Path)
			looks = append(looks, look{i, true, doubt})
			continue
		}
		if doubt {
			looks = append(looks, look{i, false, true})
		}
	}
	if err := c.w.syncData(ctx, fresh); err != nil {
		return nil, err
	}
	tables := make(map[int64]*lake.ContentTable, len(content.Tables))
	for i := range content.Tables {
		tables[content.Tables[i].ID] = &content.Tables[i]
	}
	c.times.note("hashed", int64(len(fresh)))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(hashWidth)
	for _, l := range looks {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			f := &list[l.i]
			var table *lake.ContentTable
			if l.table {
				table = tables[f.TableID]
			}
			return c.w.lookInto(ctx, f, l.hash, table)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return repo.NewFiles(dataDir, list)
}

// lookInto fills in what only a stored file's bytes tell: its sha256 when hash
// is set, and with a table, whether its columns are the table's.
func (w *Work) lookInto(ctx context.Context, f *repo.File, hash bool, table *lake.ContentTable) error {
	file, err := w.files("").openData(ctx, f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	if hash {
		if file.Size() != f.Bytes {
			return outcome.New(outcome.Refused, fmt.Sprintf("data file %s has %d bytes, the catalog says %d", f.Path, file.Size(), f.Bytes),
				"write the table's rows again, or drop what is on the desk: touch .reset")
		}
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(file, 0, file.Size())); err != nil {
			return err
		}
		f.SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	if table != nil {
		f.Logical, err = showsTable(file, table)
	}
	return err
}

// showsTable looks into a stored file for the table's columns.
func showsTable(file File, table *lake.ContentTable) (bool, error) {
	footer, err := parquet.Read(file, file.Size())
	if errors.Is(err, parquet.ErrUnsupportedType) {
		// A type that DuckDB knows and we do not.
		names, err := parquet.Names(file, file.Size())
		return table.HasNames(names), err
	}
	if err != nil {
		return false, err
	}
	return table.ShowsTable(footer), nil
}

// syncData makes durable stored files that a client wrote, with the folders
// that it made for them: in the local data folder, or in the repository's,
// where the clients of a plain checkout write.
func (w *Work) syncData(ctx context.Context, paths []string) error {
	var local []string
	store, canSync := blobstore.As[blobstore.Syncer](w.e.store)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(syncWidth)
	for _, path := range paths {
		below := strings.TrimPrefix(path, w.e.repo.DataDir())
		if _, err := os.Lstat(filepath.Join(w.DataLocal(), filepath.FromSlash(below))); err == nil {
			local = append(local, below)
			continue
		}
		if !canSync {
			continue
		}
		g.Go(func() error {
			err := store.SyncObject(ctx, path)
			if errors.Is(err, blobstore.ErrNotExist) {
				return nil // whoever opens it next says so in better words
			}
			return err
		})
	}
	if err := g.Wait(); err != nil || len(local) == 0 {
		return err
	}
	return w.generation().SyncData(local...)
}
