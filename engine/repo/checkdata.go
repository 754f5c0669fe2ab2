package repo

import (
	"context"
	"crypto/sha256"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tarnfs/tarn/blobstore"
)

// hashesAtOnce is how many data files are read at a time, of all versions.
const hashesAtOnce = 8

// dataFile is what must be the same wherever a path is named.
type dataFile struct {
	bytes  int64
	sha256 string
}

// dataChecks is what the checks of versions share.
type dataChecks struct {
	readers chan struct{} // one for each data file that is being read

	mu          sync.Mutex // guards what follows, and serializes report
	files       map[string]dataFile
	read, total int64 // bytes of data files
	report      func(done, total int64)
}

// done counts bytes that need not be read any more.
func (d *dataChecks) done(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read += bytes
	if d.report != nil {
		d.report(d.read, max(d.total, d.read))
	}
}

// dataFiles checks the files that a version names, each path once however many
// versions share it. good are those that are there with their size and were
// not seen before, when they are to be read.
func (c *checker) dataFiles(ctx context.Context, id ID, files *Files) (good []*File, err error) {
	var fresh []*File
	c.data.mu.Lock()
	for f := range files.All() {
		old, ok := c.data.files[f.Path]
		switch {
		case !ok:
			c.data.files[f.Path] = dataFile{f.Bytes, f.SHA256}
			c.data.total += f.Bytes
			own := *f // of an index that may go
			fresh = append(fresh, &own)
		case old.bytes != f.Bytes, old.sha256 != "" && f.SHA256 != "" && old.sha256 != f.SHA256:
			c.add(Fault, VersionKey(id, FilesFile), "%s has another size or sha256 in another version", f.Path)
		}
	}
	c.data.mu.Unlock()
	if c.sizes == nil {
		err := c.r.headEach(ctx, slices.Values(fresh), func(f *File, info blobstore.Info, err error) error {
			if err != nil && !notExist(err) {
				return c.must(f.Path, err)
			}
			if c.dataFile(id, f, info.Size, err == nil) {
				good = append(good, f)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	} else {
		for _, f := range fresh {
			if size, ok := c.sizes[f.Path]; c.dataFile(id, f, size, ok) {
				good = append(good, f)
			}
		}
	}
	if c.o.Data {
		return good, nil
	}
	var bytes int64
	for _, f := range good {
		bytes += f.Bytes
	}
	c.data.done(bytes)
	return nil, nil
}

// hashes reads data files side by side; findings are in the order of good.
func (c *checker) hashes(ctx context.Context, good []*File) error {
	found := make([]checker, len(good)) // each with the findings of one file
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(hashesAtOnce)
	for i, f := range good {
		if group.Err() != nil {
			break
		}
		g.Go(func() error {
			select {
			case c.data.readers <- struct{}{}:
			case <-group.Done():
				return group.Err()
			}
			defer func() { <-c.data.readers }()
			found[i].r = c.r
			err := found[i].hash(group, f)
			c.data.done(f.Bytes)
			return err
		})
	}
	err := g.Wait()
	for i := range found {
		c.found = append(c.found, found[i].found...)
	}
	if err != nil {
		return err
	}
	return ctx.Err()
}

// dataFile tells whether the file is there with its size.
func (c *checker) dataFile(id ID, f *File, size int64, there bool) bool {
	switch {
	case !there:
		c.add(Fault, f.Path, "is not there; version %s names it", id)
	case size != f.Bytes:
		c.add(Fault, f.Path, "has %d bytes, files.json of version %s says %d", size, id, f.Bytes)
	default:
		return true
	}
	return false
}

func (c *checker) hash(ctx context.Context, f *File) error {
	if f.SHA256 == "" {
		return nil
	}
	rd, _, err := c.r.store.Get(ctx, f.Path)
	if notExist(err) {
		c.add(Fault, f.Path, "went away during the check")
		return nil
	}
	if err != nil {
		return c.must(f.Path, err)
	}
	defer rd.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, rd); err != nil {
		return c.must(f.Path, err)
	}
	if got := hexOf(sum.Sum(nil)); got != f.SHA256 {
		c.add(Fault, f.Path, "its sha256 is %s, files.json says %s", got, f.SHA256)
	}
	return nil
}
